"""Models as Keras 2 and Keras 3 write them to JSON, for //client/keras:keras_test.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install tensorflow-cpu tf_keras
    /tmp/venv/bin/python testing/reference/keras_models.py keras testing/reference/keras
    /tmp/venv/bin/python testing/reference/keras_models.py tf_keras testing/reference/keras

(tf_keras is Keras 2.) Files are called MODEL.keras3.json and MODEL.keras2.json.
"""

import importlib
import json
import pathlib
import sys


def convolutional(keras):
    layers = keras.layers
    return keras.Sequential([
        keras.Input((28, 28, 1)),
        layers.Conv2D(8, 3, activation="relu", name="conv", kernel_initializer="he_normal"),
        layers.MaxPooling2D(name="pool"),
        layers.Flatten(name="flatten"),
        layers.Dropout(0.5, name="dropout"),
        layers.Dense(10, activation="softmax", name="classes"),
    ])


def two_inputs(keras):
    """A residual block beside a layer that is called twice."""
    layers = keras.layers
    image = keras.Input((8, 8, 3), name="image")
    extra = keras.Input((4,), name="extra")
    x = layers.Conv2D(4, 3, padding="same", use_bias=False, name="conv")(image)
    x = layers.BatchNormalization(momentum=0.9, name="norm")(x)
    x = layers.ReLU(name="relu")(x)
    shortcut = layers.Conv2D(4, 1, name="shortcut", trainable=False)(image)
    x = layers.Add(name="add")([x, shortcut])
    x = layers.GlobalAveragePooling2D(name="mean")(x)
    shared = layers.Dense(4, name="shared")
    y = layers.Concatenate(name="all")([shared(extra), shared(layers.Dense(4, activation="relu", name="hidden")(extra)), x])
    return keras.Model([image, extra], layers.Dense(2, name="out")(y))


def main():
    keras = importlib.import_module(sys.argv[1])
    folder = pathlib.Path(sys.argv[2])
    for make in (convolutional, two_inputs):
        text = json.dumps(json.loads(make(keras).to_json()), indent=1)
        (folder / f"{make.__name__}.keras{keras.__version__[0]}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
