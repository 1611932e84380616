"""Trains the network of examples/mnist_cnn.textproto with TensorFlow, and prints its steps a second.

    PYTHON tensorflow_mnist.py fit [STEPS]
    PYTHON tensorflow_mnist.py parameter_servers [STEPS]

`fit`: Keras's Model.fit in one process, with a thread for each core. `parameter_servers`:
ParameterServerStrategy with two parameter servers and two workers, each a process, and the coordinator
(this one), which hands steps to workers as they become free. The first fifth of the steps does not count.
"""

import json
import os
import sys
import time

import tensorflow_cluster  # First: it quietens TensorFlow.
import numpy as np
import tensorflow as tf

BATCH = 64
EXAMPLES = 8000


def data():
    random = np.random.default_rng(1)
    images = random.random((EXAMPLES, 28, 28, 1), dtype=np.float32)
    return images, random.integers(0, 10, EXAMPLES)


def fit(steps):
    tf.config.threading.set_intra_op_parallelism_threads(os.cpu_count())
    tf.config.threading.set_inter_op_parallelism_threads(os.cpu_count())
    layers = tf.keras.layers
    model = tf.keras.Sequential([
        layers.Input((28, 28, 1)),
        layers.Conv2D(32, 3, activation="relu"),
        layers.Flatten(),
        layers.Dense(128, activation="relu"),
        layers.Dense(10),
    ])
    model.compile(
        tf.keras.optimizers.RMSprop(0.001), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"])
    batches = tf.data.Dataset.from_tensor_slices(data()).shuffle(EXAMPLES).repeat().batch(BATCH).prefetch(2)

    class Watch(tf.keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            if batch == steps // 5:
                self.begin = time.monotonic()

        def on_train_end(self, logs=None):
            self.end = time.monotonic()

    watch = Watch()
    model.fit(batches, steps_per_epoch=steps, epochs=1, verbose=0, callbacks=[watch])
    return (steps - steps // 5) / (watch.end - watch.begin)


def variables():
    """Glorot's initial values, RMSprop's slots beside them."""
    shapes = [(3, 3, 1, 32), (32,), (21632, 128), (128,), (128, 10), (10,)]
    glorot = tf.keras.initializers.GlorotUniform(seed=1)
    values = [tf.Variable(glorot(s) if len(s) > 1 else tf.zeros(s)) for s in shapes]
    return values, [tf.Variable(tf.zeros(s)) for s in shapes]


def gradients(values, images, labels):
    with tf.GradientTape() as tape:
        kernel, bias, dense_kernel, dense_bias, last_kernel, last_bias = [tf.identity(v) for v in values]
        tape.watch([kernel, bias, dense_kernel, dense_bias, last_kernel, last_bias])
        x = tf.nn.relu(tf.nn.conv2d(images, kernel, 1, "VALID") + bias)
        x = tf.reshape(x, (-1, 21632))
        x = tf.nn.relu(x @ dense_kernel + dense_bias)
        logits = x @ last_kernel + last_bias
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
    return loss, tape.gradient(loss, [kernel, bias, dense_kernel, dense_bias, last_kernel, last_bias])


def apply(values, slots, grads):
    for value, slot, gradient in zip(values, slots, grads):
        slot.assign(0.9 * slot + 0.1 * gradient * gradient)
        value.assign_sub(0.001 * gradient / tf.sqrt(slot + 1e-7))


def parameter_servers(steps):
    with tensorflow_cluster.coordinator() as coordinator:
        with coordinator.strategy.scope():
            values, slots = variables()
        per_worker = coordinator.create_per_worker_dataset(
            lambda: tf.data.Dataset.from_tensor_slices(data()).shuffle(EXAMPLES).repeat().batch(BATCH).prefetch(2))
        iterator = iter(per_worker)

        @tf.function
        def step(batches):
            images, labels = next(batches)
            loss, grads = gradients(values, images, tf.cast(labels, tf.int32))
            apply(values, slots, grads)
            return loss

        for _ in range(steps // 5):
            coordinator.schedule(step, args=(iterator,))
        coordinator.join()
        begin = time.monotonic()
        for _ in range(steps - steps // 5):
            coordinator.schedule(step, args=(iterator,))
        coordinator.join()
        return (steps - steps // 5) / (time.monotonic() - begin)


def main():
    how = sys.argv[1]
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 300
    print(json.dumps({"steps_per_second": {"fit": fit, "parameter_servers": parameter_servers}[how](steps)}))


if __name__ == "__main__":
    main()
