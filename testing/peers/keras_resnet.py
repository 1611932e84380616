"""Trains the network of examples/resnet.py with Keras, on CIFAR-10 in the order of the files.

    PYTHON keras_resnet.py --train=data_batch_1.bin --evaluate=test_batch.bin --initial=FILE --steps=50

Writes the initial variables to a safetensors file with the names that Millrace gives them, and prints a JSON line for
each step: the loss of its batch before it and the loss of the first 256 held-out images after it.
"""

import argparse
import json
import os
import struct
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf

keras = tf.keras
HELD_OUT = 256


def images(path, count=None):
    records = np.fromfile(path, np.uint8).reshape(-1, 3073)[:count]
    pixels = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return pixels.astype(np.float32) / np.float32(255), records[:, 0].astype(np.int64)


def conv(name, filters, size, strides=1):
    return keras.layers.Conv2D(
        filters, size, strides, "same", use_bias=False, kernel_initializer="he_normal",
        kernel_regularizer=keras.regularizers.L2(1e-4), name=name)


def norm(name):
    return keras.layers.BatchNormalization(name=name)


def relu(name):
    return keras.layers.Activation("relu", name=name)


def block(x, name, filters, strides):
    shortcut = x
    y = relu(f"{name}_relu1")(norm(f"{name}_norm1")(conv(f"{name}_conv1", filters, 3, strides)(x)))
    y = norm(f"{name}_norm2")(conv(f"{name}_conv2", filters, 3)(y))
    if strides > 1:
        shortcut = norm(f"{name}_shortcut_norm")(conv(f"{name}_shortcut", filters, 1, strides)(x))
    return relu(f"{name}_out")(keras.layers.Add(name=f"{name}_add")([y, shortcut]))


def network(depth):
    inputs = keras.Input((32, 32, 3))
    x = relu("stem_out")(norm("stem_norm")(conv("stem_conv", 16, 3)(inputs)))
    for group, filters in enumerate((16, 32, 64), start=1):
        for index in range(1, (depth - 2) // 6 + 1):
            x = block(x, f"block{group}_{index}", filters, 2 if group > 1 and index == 1 else 1)
    x = keras.layers.GlobalAveragePooling2D(name="pool")(x)
    return keras.Model(inputs, keras.layers.Dense(10, name="classes")(x))


def write_safetensors(path, tensors):
    header, body = {}, b""
    for name, value in tensors.items():
        data = np.ascontiguousarray(value, "<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + body)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", required=True)
    parser.add_argument("--evaluate", required=True)
    parser.add_argument("--initial", required=True)
    parser.add_argument("--depth", type=int, default=20)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--learning_rate", type=float, default=0.1)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    keras.utils.set_random_seed(1)
    model = network(options.depth)
    write_safetensors(options.initial, {v.path: v.numpy() for v in model.weights})
    entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(options.learning_rate, momentum=0.9), entropy)
    x, y = images(options.train)
    held_out = images(options.evaluate, HELD_OUT)
    for step in range(options.steps):
        at = slice(step * options.batch, (step + 1) * options.batch)
        begin = time.monotonic()
        loss = float(model.train_on_batch(x[at], y[at]))
        seconds = time.monotonic() - begin
        logits = model(held_out[0], training=False)
        print(json.dumps({"step": step, "loss": loss, "seconds": seconds,
                          "eval_loss": float(entropy(held_out[1], logits) + sum(model.losses))}), flush=True)
        model.reset_metrics()


if __name__ == "__main__":
    main()
