"""Trains the network of examples/resnet.py with Keras asynchronously: TensorFlow's ParameterServerStrategy with two
parameter servers and two workers, each a process, and the coordinator (this one), which hands steps to workers as they
become free. For the rest as keras_resnet_fit.py.

    PYTHON keras_resnet_parameter_servers.py --train=data_batch_1.bin --evaluate=test_batch.bin --epochs=5 --seed=1

A step is one worker's batch, as one of Model.fit's, and there are as many of them as in the epochs. Each worker has an
order and an augmentation of its own, which no seed decides.

Keras 3 reads the optimizer's iterations and assigns one more, so that of two workers' steps at the same time one does
not count. Here the parameter server adds, so that every step counts in the schedule.

Prints a JSON line: what keras_resnet_fit.py prints after epochs, and `iterations`, how many steps counted. Of the moving
averages that Keras's BatchNormalization leaves, some are lost as steps would be; none of those averaged again.
"""

import json

import keras_resnet
import keras_resnet_fit
import tensorflow_cluster
import tensorflow as tf


def step_of(model, optimizer, strategy):
    entropy = keras_resnet_fit.entropy()

    def train(x, y):
        with tf.GradientTape() as tape:
            loss = entropy(y, model(x, training=True)) + tf.add_n(model.losses)
        variables = model.trainable_variables
        optimizer.apply(tape.gradient(loss, [v.value for v in variables]), variables)

    @tf.function
    def step(batches):
        strategy.run(train, next(batches))

    return step


def count_every_step(optimizer):
    optimizer.iterations.assign_add = optimizer.iterations.value.assign_add


def train(coordinator, options):
    """The values of the network after the steps, and the optimizer's iterations."""
    count = len(keras_resnet.images(options.train)[1]) // options.batch * options.epochs
    with coordinator.strategy.scope():
        model = keras_resnet_fit.network(options)
        optimizer = keras_resnet_fit.optimizer(options, count)
        optimizer.build(model.trainable_variables)
    count_every_step(optimizer)
    tf.random.set_seed(None)  # Else both workers would have the same order.
    data = iter(coordinator.create_per_worker_dataset(
        lambda: keras_resnet_fit.batches(options, repeated=True, seed=None)))
    step = step_of(model, optimizer, coordinator.strategy)
    for _ in range(count):
        coordinator.schedule(step, args=(data,))
    coordinator.join()
    return model.get_weights(), int(optimizer.iterations.numpy())


def main():
    options = keras_resnet_fit.parsed_options()
    with tensorflow_cluster.coordinator() as coordinator:
        weights, iterations = train(coordinator, options)
    model = keras_resnet.network(options.depth)
    model.set_weights(weights)
    model.compile(loss=keras_resnet_fit.entropy(), metrics=["accuracy"])
    print(json.dumps({**keras_resnet_fit.evaluated_twice(model, options), "iterations": iterations}))


if __name__ == "__main__":
    main()
