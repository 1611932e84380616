"""Trains the network of examples/resnet.py with Keras's Model.fit on CIFAR-10, with the augmentation of
examples/cifar10_resnet.textproto by tf.data.

    PYTHON keras_resnet_fit.py --train=data_batch_1.bin --steps=100                                             how fast
    PYTHON keras_resnet_fit.py --train=... --evaluate=test_batch.bin --initial=FILE --epochs=5 --seed=1  how well

Prints a JSON line: steps_per_second, without the first fifth of the steps; or the accuracy and loss of all held-out
images after the epochs, and `averaged_again`, the same with averages of the training images' statistics through the
trained network in place of BatchNormalization's moving averages. Writes the initial variables to FILE, as
keras_resnet.py does; with neither steps nor epochs that is all.
"""

import argparse
import json
import time

import keras_resnet  # First: it quietens TensorFlow.
import tensorflow as tf

keras = tf.keras
PADDING = 4


def augmented(image, label):
    padded = tf.pad(image, [[PADDING, PADDING], [PADDING, PADDING], [0, 0]])
    return tf.image.random_flip_left_right(tf.image.random_crop(padded, tf.shape(image))), label


def batches(options, repeated, seed):
    """Whole batches only, as the steps of a job of so many."""
    x, y = keras_resnet.images(options.train)
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(y), seed=seed)
    if repeated:
        data = data.repeat()
    if not options.plain:
        data = data.map(augmented, num_parallel_calls=tf.data.AUTOTUNE)
    return data.batch(options.batch, drop_remainder=True).prefetch(2)


class Watch(keras.callbacks.Callback):
    def __init__(self, steps):
        super().__init__()
        self.steps = steps

    def on_train_batch_begin(self, batch, logs=None):
        if batch == self.steps // 5:
            self.begin = time.monotonic()

    def on_train_end(self, logs=None):
        self.end = time.monotonic()

    def rate(self):
        return (self.steps - self.steps // 5) / (self.end - self.begin)


def parsed_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", required=True)
    parser.add_argument("--evaluate")
    parser.add_argument("--initial")
    parser.add_argument("--depth", type=int, default=20)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=0)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--optimizer", choices=["sgd", "adam"], default="sgd")
    parser.add_argument("--learning_rate", type=float, default=0.1)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--decay", action="store_true", help="from the learning rate to 0, by a cosine")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--plain", action="store_true", help="without augmentation")
    return parser.parse_args()


def network(options):
    """With the initial values of the seed, which it writes if told to."""
    keras.utils.set_random_seed(options.seed)
    model = keras_resnet.network(options.depth)
    if options.initial:
        keras_resnet.write_safetensors(options.initial, {v.path: v.numpy() for v in model.weights})
    return model


def optimizer(options, steps):
    learning_rate = options.learning_rate
    if options.decay:
        learning_rate = keras.optimizers.schedules.CosineDecay(learning_rate, steps)
    if options.optimizer == "adam":
        return keras.optimizers.Adam(learning_rate)
    return keras.optimizers.SGD(learning_rate, momentum=options.momentum)


def entropy():
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def evaluated(model, options):
    """Accuracy and loss of a compiled model."""
    x, y = keras_resnet.images(options.evaluate)
    loss, accuracy = model.evaluate(x, y, batch_size=256, verbose=0)
    return {"accuracy": accuracy, "loss": loss}


def average_again(model, options):
    """Lets every BatchNormalization average one epoch of the training images, each batch alike."""
    norms = [layer for layer in model.layers if isinstance(layer, keras.layers.BatchNormalization)]
    for index, (x, _) in enumerate(batches(options, repeated=False, seed=options.seed)):
        for norm in norms:
            norm.momentum = index / (index + 1)
        model(x, training=True)


def evaluated_twice(model, options):
    """As it is, and `averaged_again`. The model has the new averages then."""
    told = evaluated(model, options)
    average_again(model, options)
    return {**told, "averaged_again": evaluated(model, options)}


def main():
    options = parsed_options()
    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(options.threads)
    model = network(options)
    if not options.steps and not options.epochs:
        print("{}")
        return
    data = batches(options, repeated=not options.epochs, seed=options.seed)
    model.compile(optimizer(options, int(data.cardinality()) * options.epochs), entropy(), metrics=["accuracy"])
    if not options.epochs:
        watch = Watch(options.steps)
        model.fit(data, steps_per_epoch=options.steps, epochs=1, verbose=0, callbacks=[watch])
        print(json.dumps({"steps_per_second": watch.rate()}))
        return
    model.fit(data, epochs=options.epochs, verbose=0)
    print(json.dumps(evaluated_twice(model, options)))


if __name__ == "__main__":
    main()
