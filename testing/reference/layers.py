"""Losses and gradients of Keras models, which //worker/device/cpu:reference_test compares ours with.

To make layers.txt again:

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install keras 'jax[cpu]'
    /tmp/venv/bin/python testing/reference/layers.py > testing/reference/layers.txt

Keras runs on JAX in float64; all that goes in is float32 numbers. The table has these lines:

    case NAME
    model SPEC              a ModelSpec in text format
    input N0 N1 ...         the shape of an example
    labels L0 L1 ...        of the batch
    features X0 X1 ...      of the batch, row-major
    logits Y0 Y1 ...        the last layer's output
    loss L                  the mean over the batch
    variable I N0 N1 ...    the I-th variable and its shape, followed by:
    values W0 W1 ...
    gradient G0 G1 ...      of the mean loss
"""

import os

os.environ["KERAS_BACKEND"] = "jax"
os.environ["JAX_ENABLE_X64"] = "1"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import keras
import numpy as np

keras.config.set_floatx("float64")

SPARSE = "SPARSE_CATEGORICAL_CROSSENTROPY"
BINARY = "BINARY_CROSSENTROPY"


def activation_text(activation):
    return f" activation: {activation.upper()}" if activation else ""


def dense(units, activation=None, bias=True):
    text = f"dense {{ units: {units}{activation_text(activation)}{'' if bias else ' no_bias: true'} }}"
    return text, keras.layers.Dense(units, activation=activation, use_bias=bias)


def conv(filters, kernel, strides=(1, 1), padding="valid", activation=None, bias=True):
    text = (f"conv2d {{ filters: {filters} kernel_size: {list(kernel)} strides: {list(strides)} "
            f"padding: {padding.upper()}{activation_text(activation)}"
            f"{'' if bias else ' no_bias: true'} }}")
    return text, keras.layers.Conv2D(filters, kernel, strides, padding, activation=activation,
                                     use_bias=bias)


def pool(size=None, strides=None, padding="valid"):
    text = "max_pool2d {" + (f" pool_size: {list(size)}" if size else "")
    text += (f" strides: {list(strides)}" if strides else "") + f" padding: {padding.upper()} }}"
    return text, keras.layers.MaxPooling2D(size or (2, 2), strides, padding)


def flatten():
    return "flatten {}", keras.layers.Flatten()


def activation(function):
    return (f"activation {{ function: {function.upper()} }}", keras.layers.Activation(function))


# Name, shape of an example, batch, classes (1: binary), scale of the features, layers.
CASES = [
    ("dense", [7], 5, 3, 1, [dense(4), dense(3)]),
    ("dense_activations", [9], 6, 4, 1,
     [dense(8, "relu"), dense(7, "sigmoid"), dense(6, "softmax"), dense(4)]),
    ("dense_wide", [20], 17, 10, 1, [dense(33, "relu", bias=False), dense(10, bias=False)]),
    ("binary", [6], 8, 1, 1, [dense(5, "sigmoid"), dense(1)]),
    ("large_logits", [4], 9, 5, 200, [dense(5)]),
    ("large_binary_logits", [4], 9, 1, 100, [dense(1)]),
    ("activation_layers", [6], 4, 3, 1,
     [dense(5), activation("relu"), dense(5), activation("sigmoid"), dense(4),
      activation("softmax"), activation("linear"), dense(3)]),
    ("conv_valid", [6, 5, 2], 3, 3, 1, [conv(4, (3, 2)), flatten(), dense(3)]),
    ("conv_same_strided", [5, 8, 3], 3, 3, 1,
     [conv(4, (3, 3), (2, 3), "same", "relu"), conv(5, (2, 4), (1, 2), "same", "sigmoid"),
      flatten(), dense(3)]),
    ("conv_valid_strided", [9, 7, 1], 2, 4, 1,
     [conv(3, (4, 2), (3, 2), activation="relu", bias=False), conv(4, (1, 2), activation="softmax"),
      flatten(), dense(4)]),
    ("conv_wide", [5, 5, 16], 2, 3, 1,
     [conv(16, (2, 3), activation="relu"), conv(16, (2, 2), padding="same"), flatten(), dense(3)]),
    ("pool", [6, 7, 3], 3, 2, 1,
     [conv(4, (2, 2), padding="same"), pool(), flatten(), dense(2)]),
    ("pool_same_overlapping", [7, 5, 2], 3, 1, 1,
     [conv(5, (3, 3), padding="same", activation="sigmoid"), pool((3, 3), (2, 2), "same"),
      conv(3, (2, 2), activation="relu"), pool((2, 3), (1, 1), "same"), flatten(), dense(1)]),
    ("mnist_cnn_small", [8, 8, 1], 4, 10, 1,
     [conv(8, (3, 3), activation="relu"), flatten(), dense(16, "relu"), dense(10)]),
]


def numbers(values):
    return " ".join(f"{value:.9g}" for value in np.asarray(values).ravel())


def float32(values):
    return np.asarray(values, np.float32).astype(np.float64)


def print_case(rng, name, shape, batch, classes, scale, layers):
    model = keras.Sequential([keras.Input(shape)] + [layer for _, layer in layers])
    features = float32(rng.normal(size=[batch] + shape) * scale)
    labels = rng.integers(0, max(classes, 2), size=batch)
    values = [float32(rng.normal(size=v.shape) / np.sqrt(np.prod(v.shape[:-1])))
              for v in model.trainable_variables]
    if classes == 1:
        loss_fn, loss_name = keras.losses.BinaryCrossentropy(from_logits=True), BINARY
    else:
        loss_fn, loss_name = keras.losses.SparseCategoricalCrossentropy(from_logits=True), SPARSE

    def mean_loss(variables):
        logits, _ = model.stateless_call(variables, [], features)
        return loss_fn(labels.reshape(-1, 1) if classes == 1 else labels, logits), logits

    (loss, logits), gradients = jax.value_and_grad(mean_loss, has_aux=True)(values)
    print("case", name)
    print("model", " ".join(f"layers {{ {text} }}" for text, _ in layers), f"loss: {loss_name}")
    print("input", *shape)
    print("labels", *labels)
    print("features", numbers(features))
    print("logits", numbers(logits))
    print("loss", numbers(loss))
    for index, (value, gradient) in enumerate(zip(values, gradients)):
        print(f"variable {index}", *value.shape)
        print("values", numbers(value))
        print("gradient", numbers(gradient))


def main():
    rng = np.random.default_rng(20240229)
    for case in CASES:
        print_case(rng, *case)


if __name__ == "__main__":
    main()
