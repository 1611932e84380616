"""Models as Keras 2 and Keras 3 write them, for //client/keras:keras_test.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install tensorflow-cpu tf_keras
    /tmp/venv/bin/python testing/reference/keras_models.py keras testing/reference/keras
    /tmp/venv/bin/python testing/reference/keras_models.py tf_keras testing/reference/keras

(tf_keras is Keras 2.) MODEL.keras3.json and MODEL.keras2.json are what Model.to_json gives. Of some
models there are the whole files too, by the same rule: .keras, .h5, and the weights alone,
.weights.h5; and in .txt what they compute: of each of three examples the input, and the output before
the last activation, row-major.
"""

import importlib
import json
import pathlib
import sys

import numpy


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


def images(keras):
    """Every layer that takes images, but for those above."""
    layers = keras.layers
    image = keras.Input((8, 8, 4), name="image")
    x = layers.Rescaling(1 / 255, offset=-0.5, name="rescaling")(image)
    x = layers.ZeroPadding2D(((1, 2), (3, 4)), name="padding")(x)
    x = layers.UpSampling2D((2, 3), name="larger")(x)
    x = layers.Conv2D(6, 3, dilation_rate=2, groups=2, kernel_regularizer=keras.regularizers.L2(0.01),
                      bias_regularizer=keras.regularizers.L1(0.5), activation="elu", name="grouped")(x)
    x = layers.DepthwiseConv2D(3, depth_multiplier=2, strides=2, padding="same", use_bias=False,
                               depthwise_regularizer=keras.regularizers.L1L2(l1=0.1, l2=0.2), name="depthwise")(x)
    x = layers.BatchNormalization(gamma_regularizer=keras.regularizers.L2(0.1), scale=True, center=False, name="norm")(x)
    x = layers.SeparableConv2D(5, 2, activation="gelu", pointwise_initializer="he_uniform", name="separable")(x)
    x = layers.LayerNormalization(epsilon=1e-6, beta_regularizer=keras.regularizers.L2(0.1), name="layer_norm")(x)
    x = layers.AveragePooling2D((2, 1), strides=1, padding="same", name="average")(x)
    branches = [
        layers.ReLU(max_value=6, name="relu6")(x),
        layers.ReLU(negative_slope=0.125, name="leaky_relu")(x),
        layers.LeakyReLU(0.25, name="leaky")(x),
        layers.ELU(name="elu")(x),
        layers.Softmax(name="softmax")(x),
        layers.Activation("swish", name="silu")(x),
    ]
    x = layers.Average(name="average_of")(branches[:3])
    y = layers.Maximum(name="maximum")(branches[3:])
    x = layers.Multiply(name="product")([x, y])
    x = layers.Subtract(name="difference")([x, y])
    x = layers.Permute((3, 1, 2), name="permute")(x)
    x = layers.Reshape((5, -1, 1), name="reshape")(x)
    return keras.Model(image, layers.GlobalMaxPooling2D(name="max")(x))


def sequences(keras):
    """Every layer that takes sequences."""
    layers = keras.layers
    words = keras.Input((12,), dtype="int32", name="words")
    x = layers.Embedding(50, 6, embeddings_regularizer=keras.regularizers.L2(0.01), name="embedding")(words)
    x = layers.Conv1D(8, 3, padding="causal", dilation_rate=2, activation="relu", name="causal")(x)
    x = layers.MaxPooling1D(2, name="max_pool")(x)
    x = layers.Conv1D(4, 2, strides=2, groups=2, name="grouped")(x)
    x = layers.BatchNormalization(name="norm")(x)
    x = layers.AveragePooling1D(2, strides=1, padding="same", name="average_pool")(x)
    mean = layers.GlobalAveragePooling1D(name="mean")(x)
    most = layers.GlobalMaxPooling1D(name="most")(x)
    return keras.Model(words, layers.Concatenate(axis=1, name="both")([mean, most]))


def nested(keras):
    """Models within a model, one of them called twice, and two outputs."""
    layers = keras.layers
    inner = keras.Input((4, 4, 5), name="inner")
    x = layers.Dropout(0.5, name="drop")(layers.Conv2D(3, 1, name="conv")(inner))
    backbone = keras.Model(inner, [x, layers.Flatten(name="flat")(inner)], name="backbone")
    head = keras.Sequential([
        keras.Input((4, 4, 5)),
        layers.Conv2D(5, 1, name="conv"),
        layers.BatchNormalization(name="norm", trainable=False),
    ], name="head")
    left = keras.Input((4, 4, 5), name="left")
    right = keras.Input((4, 4, 5), name="right")
    a, _ = backbone(head(left))
    b, flat = backbone(head(right, training=False), training=False)
    x = layers.Flatten(name="flatten")(layers.Add(name="add")([a, b]))
    one = layers.Dense(3, activation="softmax", name="one")(x)
    other = layers.Dense(1, activation="sigmoid", name="other")(flat)
    model = keras.Model([left, right], [one, other])
    model.compile(
        optimizer=keras.optimizers.SGD(keras.optimizers.schedules.CosineDecay(0.1, 1000), momentum=0.9, clipnorm=1.0),
        loss={"one": "sparse_categorical_crossentropy", "other": "binary_crossentropy"},
        loss_weights={"other": 0.5},
        metrics={"one": ["accuracy"], "other": ["AUC"]})
    return model


def trained(keras):
    """Branches, a layer that is called twice and a model within the model; the values are made up."""
    layers = keras.layers
    image = keras.Input((6, 6, 3), name="image")
    block = keras.Sequential([
        keras.Input((6, 6, 4)),
        layers.Conv2D(4, 3, padding="same", use_bias=False, name="conv"),
        layers.BatchNormalization(name="norm"),
        layers.ReLU(name="relu"),
        layers.Conv2D(4, 1, name="conv_1"),
        layers.BatchNormalization(name="norm_1", trainable=False),
    ], name="block")
    x = layers.Conv2D(4, 3, padding="same", activation="tanh", name="stem")(image)
    x = layers.Add(name="add")([x, block(x)])
    pooled = layers.MaxPooling2D(3, name="pool")(x)
    shared = layers.Dense(5, activation="sigmoid", name="shared")
    mean = layers.GlobalAveragePooling2D(name="mean")(x)
    flat = layers.Dense(4, name="flat")(layers.Flatten(name="flatten")(pooled))
    x = layers.Concatenate(name="all")([shared(mean), shared(flat)])
    model = keras.Model(image, layers.Dense(3, activation="softmax", name="out")(x))
    model.compile(optimizer=keras.optimizers.Adam(0.002), loss="sparse_categorical_crossentropy",
                  metrics=["accuracy"])
    return model


def own(keras):
    """Code of a user's own, under names that Keras has too."""
    register = keras.saving.register_keras_serializable

    @register(package="my")
    class Dense(keras.layers.Dense):
        def call(self, inputs):
            return super().call(inputs) ** 3

    class Dropout(keras.layers.Layer):
        def call(self, inputs):
            return inputs * 7

    @register()
    class Adam(keras.optimizers.Adam):
        pass

    model = keras.Sequential([keras.Input((5,)), Dense(3, name="dense"), Dropout(name="dropout")])
    model.compile(Adam(0.1), "mse")
    return model


def set_values(model, random):
    """Values as after some training; variances are above 0."""
    values = [random.normal(0, 0.5, array.shape) for array in model.get_weights()]
    for i, variable in enumerate(model.weights):
        if "variance" in variable.name:
            values[i] = abs(values[i]) + 0.5
    model.set_weights(values)


def numbers(array):
    return " ".join(repr(float(x)) for x in numpy.asarray(array, numpy.float32).ravel())


def write_values(keras, model, path, random):
    out = model.get_layer("out")
    logits = keras.Model(model.inputs, keras.layers.Dense(3, name="logits")(out.input))
    logits.get_layer("logits").set_weights(out.get_weights())
    lines = []
    inputs = random.uniform(-1, 1, (3, 6, 6, 3)).astype(numpy.float32)
    outputs = logits.predict(inputs, verbose=0)
    for one, output in zip(inputs, outputs):
        lines += [f"input {numbers(one)}", f"output {numbers(output)}"]
    path.write_text("\n".join(lines) + "\n")


def main():
    keras = importlib.import_module(sys.argv[1])
    folder = pathlib.Path(sys.argv[2])
    version = f"keras{keras.__version__[0]}"
    random = numpy.random.default_rng(20261123)
    for make in (convolutional, two_inputs, images, sequences, nested, trained, own):
        model = make(keras)
        text = json.dumps(json.loads(model.to_json()), indent=1)
        (folder / f"{make.__name__}.{version}.json").write_text(text + "\n")
        if make in (images, sequences) and version == "keras3":
            model.save_weights(folder / f"{make.__name__}.{version}.weights.h5")
        if make == trained:
            set_values(model, random)
            for end in (".keras", ".h5"):
                model.save(folder / f"trained.{version}{end}")
            write_values(keras, model, folder / f"trained.{version}.txt", random)


if __name__ == "__main__":
    main()
