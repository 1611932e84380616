"""Losses and gradients of Keras models, which reference_test of //worker/device/model_tests compares ours with.

To make layers.txt again:

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install keras 'jax[cpu]'
    /tmp/venv/bin/python testing/reference/layers.py > testing/reference/layers.txt

Keras runs on JAX in float64; all that goes in is float32 numbers. The table has these lines:

    case NAME
    model SPEC              a ModelSpec in text format
    input N0 N1 ...         the shape of an example
    labels L0 L1 ...        of the batch
    ids LIMIT               where the features are ids, of which each is below LIMIT
    features X0 X1 ...      of the batch, row-major
    logits Y0 Y1 ...        the last layer's output, in an evaluation
    loss L                  the mean over the batch, in an evaluation
    training_loss L         in training, where it is another
    variable I N0 N1 ...    the I-th variable and its shape, followed by:
    values W0 W1 ...
    gradient G0 G1 ...      of the mean loss in training; of a moving average, the batch's statistic
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


def regularizer_text(field, regularizer):
    return f" {field}: {{ l1: {regularizer[0]} l2: {regularizer[1]} }}" if regularizer else ""


def keras_regularizer(regularizer):
    return keras.regularizers.L1L2(*regularizer) if regularizer else None


def dense(units, activation=None, bias=True, kernel_l1l2=None, bias_l1l2=None):
    text = (f"dense {{ units: {units}{activation_text(activation)}"
            f"{'' if bias else ' no_bias: true'}"
            f"{regularizer_text('kernel_regularizer', kernel_l1l2)}"
            f"{regularizer_text('bias_regularizer', bias_l1l2)} }}")
    return text, keras.layers.Dense(units, activation=activation, use_bias=bias,
                                    kernel_regularizer=keras_regularizer(kernel_l1l2),
                                    bias_regularizer=keras_regularizer(bias_l1l2))


def convolution_text(kind, fields, padding, strides, dilation, groups, activation, bias, regularizers):
    text = f"{kind} {{ {fields}"
    text += f" strides: {strides}" if strides else ""
    text += f" padding: {padding.upper()}{activation_text(activation)}"
    text += "" if bias else " no_bias: true"
    text += f" dilation_rate: {dilation}" if dilation else ""
    text += f" groups: {groups}" if groups != 1 else ""
    return text + "".join(regularizer_text(*regularizer) for regularizer in regularizers) + " }"


def conv(filters, kernel, strides=(1, 1), padding="valid", activation=None, bias=True, dilation=None,
         groups=1):
    text = convolution_text("conv2d", f"filters: {filters} kernel_size: {list(kernel)}", padding,
                            list(strides), dilation and list(dilation), groups, activation, bias, [])
    return text, keras.layers.Conv2D(filters, kernel, strides, padding, activation=activation,
                                     use_bias=bias, dilation_rate=dilation or (1, 1), groups=groups)


def depthwise(kernel, multiplier=1, strides=None, padding="valid", activation=None, bias=True,
              dilation=None, kernel_l1l2=None, bias_l1l2=None):
    fields = f"kernel_size: {list(kernel)}"
    fields += f" depth_multiplier: {multiplier}" if multiplier != 1 else ""
    text = convolution_text("depthwise_conv2d", fields, padding, strides and list(strides),
                            dilation and list(dilation), 1, activation, bias,
                            [("depthwise_regularizer", kernel_l1l2), ("bias_regularizer", bias_l1l2)])
    return text, keras.layers.DepthwiseConv2D(
        kernel, strides or (1, 1), padding, multiplier, dilation_rate=dilation or (1, 1),
        activation=activation, use_bias=bias, depthwise_regularizer=keras_regularizer(kernel_l1l2),
        bias_regularizer=keras_regularizer(bias_l1l2))


def conv1d(filters, kernel, strides=None, padding="valid", activation=None, bias=True, dilation=None,
           groups=1, kernel_l1l2=None, bias_l1l2=None):
    text = convolution_text("conv1d", f"filters: {filters} kernel_size: {kernel}", padding, strides,
                            dilation, groups, activation, bias,
                            [("kernel_regularizer", kernel_l1l2), ("bias_regularizer", bias_l1l2)])
    return text, keras.layers.Conv1D(
        filters, kernel, strides or 1, padding, dilation_rate=dilation or 1, groups=groups,
        activation=activation, use_bias=bias, kernel_regularizer=keras_regularizer(kernel_l1l2),
        bias_regularizer=keras_regularizer(bias_l1l2))


def average_pool(size=None, strides=None, padding="valid"):
    text = pool(size, strides, padding)[0].replace("max_pool2d", "average_pooling2d")
    return text, keras.layers.AveragePooling2D(size or (2, 2), strides, padding)


def padding2d(sides, keras_sides):
    return (f"zero_padding2d {{ padding: {sides} }}", keras.layers.ZeroPadding2D(keras_sides))


def pool(size=None, strides=None, padding="valid"):
    text = "max_pool2d {" + (f" pool_size: {list(size)}" if size else "")
    text += (f" strides: {list(strides)}" if strides else "") + f" padding: {padding.upper()} }}"
    return text, keras.layers.MaxPooling2D(size or (2, 2), strides, padding)


def pool1d(kind, size=None, strides=None, padding="valid"):
    text = f"{kind} {{" + (f" pool_size: {size}" if size else "")
    text += (f" strides: {strides}" if strides else "") + f" padding: {padding.upper()} }}"
    layer = {"max_pool1d": keras.layers.MaxPooling1D, "average_pooling1d": keras.layers.AveragePooling1D}
    return text, layer[kind](size or 2, strides, padding)


def permute(dims):
    return simple("permute", keras.layers.Permute(dims), f"dims: {dims}")


def reshape(shape):
    return simple("reshape", keras.layers.Reshape(shape), f"target_shape: {shape}")


def embedding(rows, width, l1l2=None):
    text = (f"embedding {{ input_dim: {rows} output_dim: {width}"
            f"{regularizer_text('embeddings_regularizer', l1l2)} }}")
    return text, keras.layers.Embedding(rows, width, embeddings_regularizer=keras_regularizer(l1l2))


def flatten():
    return "flatten {}", keras.layers.Flatten()


def activation(function):
    return (f"activation {{ function: {function.upper()} }}", keras.layers.Activation(function))


def simple(kind, layer, fields=""):
    return f"{kind} {{ {fields} }}", layer


def normalize(beta_l1l2=None, gamma_l1l2=None, **options):
    text = "".join(f" {key}: {value}" for key, value in options.items() if key in ("momentum", "epsilon"))
    text += " no_center: true" if not options.get("center", True) else ""
    text += " no_scale: true" if not options.get("scale", True) else ""
    text += regularizer_text("beta_regularizer", beta_l1l2)
    text += regularizer_text("gamma_regularizer", gamma_l1l2)
    # Without momentum, what is left in the moving averages is the batch's statistic.
    return (f"batch_normalization {{{text} }}",
            keras.layers.BatchNormalization(**{**options, "momentum": 0.0},
                                            beta_regularizer=keras_regularizer(beta_l1l2),
                                            gamma_regularizer=keras_regularizer(gamma_l1l2)))


def add():
    return simple("add", keras.layers.Add())


def concatenate(axis=-1):
    return simple("concatenate", keras.layers.Concatenate(axis), f"axis: {axis}")


def global_average():
    return simple("global_average_pooling2d", keras.layers.GlobalAveragePooling2D())


def layer_normalize(epsilon=1e-3, center=True, scale=True, beta_l1l2=None, gamma_l1l2=None):
    text = f"layer_normalization {{ epsilon: {epsilon}"
    text += ("" if center else " no_center: true") + ("" if scale else " no_scale: true")
    text += regularizer_text("beta_regularizer", beta_l1l2)
    text += regularizer_text("gamma_regularizer", gamma_l1l2) + " }"
    return text, keras.layers.LayerNormalization(epsilon=epsilon, center=center, scale=scale,
                                                 beta_regularizer=keras_regularizer(beta_l1l2),
                                                 gamma_regularizer=keras_regularizer(gamma_l1l2))


def leaky_relu(slope):
    return (f"activation {{ function: LEAKY_RELU negative_slope: {slope} }}",
            keras.layers.LeakyReLU(slope))


def gelu(approximate):
    return (f"activation {{ function: {'GELU_TANH' if approximate else 'GELU'} }}",
            keras.layers.Activation(lambda x: keras.activations.gelu(x, approximate)))


class Node:
    """A layer of a graph: its name, the names of its inputs (none: the layer before it)."""

    def __init__(self, layer, name=None, inputs=(), shared=None, frozen=False):
        self.text, self.layer = layer
        self.name, self.inputs, self.shared, self.frozen = name, inputs, shared, frozen

    def spec(self):
        parts = [f"name: '{self.name}'"] if self.name else []
        parts.append(self.text)
        parts += [f"inputs: '{name}'" for name in self.inputs]
        parts += [f"variables_of: '{self.shared}'"] if self.shared else []
        parts += ["trainable: false"] if self.frozen else []
        return f"layers {{ {' '.join(parts)} }}"


class Ids:
    """In place of a scale: the features are ids below `limit`."""

    def __init__(self, limit):
        self.limit = limit


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
    ("batch_normalization", [6], 9, 3, 3,
     [dense(5, bias=False), normalize(), activation("relu"),
      normalize(momentum=0.5, epsilon=0.1, center=False), activation("sigmoid"),
      dense(4, bias=False), normalize(scale=False), dense(3)]),
    ("batch_normalization_of_images", [5, 4, 2], 4, 3, 1,
     [normalize(center=False, scale=False), conv(16, (3, 3), bias=False), normalize(),
      activation("relu"), conv(5, (2, 2), bias=False), normalize(), global_average(), dense(3)]),
    ("residual_block", [6, 5, 3], 5, 4, 1,
     [Node(conv(8, (3, 3), padding="same", bias=False)), Node(normalize()),
      Node(activation("relu"), "stem"),
      Node(conv(8, (3, 3), padding="same", bias=False)), Node(normalize()), Node(activation("relu")),
      Node(conv(8, (3, 3), padding="same", bias=False)), Node(normalize(), "block"),
      Node(add(), inputs=["stem", "block"]), Node(activation("relu"), "first"),
      Node(conv(16, (3, 3), (2, 2), "same", bias=False)), Node(normalize()), Node(activation("relu")),
      Node(conv(16, (3, 3), padding="same", bias=False)), Node(normalize(), "second"),
      Node(conv(16, (1, 1), (2, 2), "same", bias=False), "shortcut", ["first"]),
      Node(add(), inputs=["second", "shortcut"]), Node(activation("relu")),
      Node(global_average()), Node(dense(4))]),
    ("value_taken_often", [6], 5, 3, 1,
     [Node(dense(4, "sigmoid"), "a"), Node(add(), "twice", ["a", "a"]),
      Node(add(), "sum", ["twice", "a", "twice"]), Node(concatenate(), "all", ["sum", "a", "features"]),
      Node(dense(4), "b"), Node(add(), inputs=["b", "a"]), Node(dense(3))]),
    ("concatenate_along_height", [3, 4, 2], 3, 3, 1,
     [Node(conv(2, (1, 1), activation="sigmoid"), "a"), Node(conv(2, (2, 1)), "b"),
      Node(concatenate(1), "c", ["b", "a", "features"]),
      Node(concatenate(-1), inputs=["c", "c"]), Node(global_average()), Node(dense(3))]),
    ("shared_variables", [5], 6, 3, 1,
     [Node(dense(5, "relu"), "a"), Node(dense(5, "relu"), "b", shared="a"),
      Node(normalize(center=False), "n"), Node(dense(5, "relu"), "c", ["b"], shared="a"),
      Node(add(), inputs=["n", "c"]), Node(dense(3))]),
    ("frozen", [5], 6, 3, 1,
     [Node(dense(4, "relu"), frozen=True), Node(normalize(), frozen=True), Node(dense(4), "a"),
      Node(normalize(), frozen=True), Node(dense(4, "sigmoid"), "late", frozen=True),
      Node(add(), inputs=["a", "late"]), Node(dense(3))]),
    ("merges", [6], 5, 3, 1,
     [Node(dense(5, "tanh"), "a"), Node(dense(5, "elu"), "b", ["features"]),
      Node(dense(5, "relu6"), "c", ["features"]),
      Node(simple("subtract", keras.layers.Subtract()), "s", ["a", "b"]),
      Node(simple("multiply", keras.layers.Multiply()), "m", ["s", "c", "a"]),
      Node(simple("average", keras.layers.Average()), "v", ["m", "a", "b"]),
      Node(simple("maximum", keras.layers.Maximum()), "x", ["v", "s", "c"]), Node(dense(3))]),
    ("merge_one_value", [6], 5, 3, 1,
     [Node(dense(5), "a"), Node(simple("multiply", keras.layers.Multiply()), "m", ["a", "a"]),
      Node(simple("average", keras.layers.Average()), "v", ["m", "m"]),
      Node(simple("subtract", keras.layers.Subtract()), "s", ["v", "a"]), Node(dense(3))]),
    ("smooth_activations", [7], 6, 3, 2,
     [dense(6), leaky_relu(0.3), dense(6), gelu(False), dense(6), gelu(True), dense(6),
      activation("silu"), dense(6), activation("tanh"), dense(6), activation("elu"), dense(6),
      activation("relu6"), dense(3)]),
    ("relu6_reached", [4], 7, 3, 20, [dense(6, "relu6"), dense(3)]),
    ("average_pooling", [7, 5, 2], 3, 3, 1,
     [conv(3, (2, 2)), average_pool(), conv(4, (2, 2), padding="same"),
      average_pool((3, 2), (1, 1), "same"), simple("global_max_pooling2d", keras.layers.GlobalMaxPooling2D()),
      dense(3)]),
    ("resized_images", [3, 4, 2], 3, 3, 1,
     [conv(2, (1, 1)), padding2d([1, 0, 2, 1], ((1, 0), (2, 1))), padding2d([1], 1),
      simple("up_sampling2d", keras.layers.UpSampling2D((2, 3)), "size: [2, 3]"),
      conv(3, (3, 3), (2, 2)), simple("reshape", keras.layers.Reshape((3, -1)), "target_shape: [3, -1]"),
      flatten(), simple("rescaling", keras.layers.Rescaling(0.5, 2.0), "scale: 0.5 offset: 2"),
      dense(3)]),
    ("layer_normalization", [6], 5, 3, 3,
     [dense(5), layer_normalize(), dense(4), layer_normalize(0.1, center=False), dense(4),
      layer_normalize(scale=False), dense(3)]),
    ("layer_normalization_of_images", [3, 4, 5], 3, 3, 1,
     [layer_normalize(), conv(6, (2, 2)), layer_normalize(), flatten(), dense(3)]),
    ("regularizers", [5], 4, 3, 1,
     [Node(dense(5, "relu", kernel_l1l2=(0.01, 0.1), bias_l1l2=(0, 0.2)), "a"),
      Node(dense(5, "relu"), "b", shared="a"),
      Node(dense(5, kernel_l1l2=(1, 1)), frozen=True), Node(dense(3, kernel_l1l2=(0.1, 0)))]),
    ("conv_dilated", [7, 8, 2], 3, 3, 1,
     [conv(4, (3, 2), dilation=(2, 3)),
      conv(3, (2, 3), padding="same", activation="sigmoid", dilation=(2, 2)), flatten(), dense(3)]),
    ("conv_grouped", [6, 5, 4], 3, 3, 1,
     [conv(6, (3, 2), activation="relu", groups=2),
      conv(9, (2, 3), (2, 1), "same", bias=False, groups=3), flatten(), dense(3)]),
    ("conv_grouped_wide", [5, 4, 32], 2, 3, 1,
     [conv(32, (2, 3), padding="same", groups=2), conv(16, (2, 2), groups=16), flatten(), dense(3)]),
    ("conv_grouped_dilated", [8, 7, 4], 2, 3, 1,
     [conv(8, (3, 3), padding="same", dilation=(2, 2), groups=4),
      conv(4, (2, 2), activation="tanh", dilation=(3, 1), groups=2), flatten(), dense(3)]),
    ("depthwise", [6, 5, 3], 3, 3, 1,
     [depthwise((3, 2)), depthwise((2, 3), 2, (2, 2), "same", "relu"), conv(4, (1, 1)), flatten(),
      dense(3)]),
    ("depthwise_dilated", [7, 8, 2], 3, 3, 1,
     [depthwise((3, 3), 2, padding="same", bias=False, dilation=(2, 3), kernel_l1l2=(0.01, 0.1)),
      depthwise((2, 2), 3, activation="sigmoid", dilation=(3, 2), bias_l1l2=(0.2, 0.05)),
      simple("global_max_pooling2d", keras.layers.GlobalMaxPooling2D()), dense(3)]),
    ("depthwise_wide", [6, 5, 20], 2, 3, 1,
     [depthwise((3, 3), padding="same", activation="relu6"), depthwise((2, 3), strides=(2, 2)),
      conv(5, (1, 1)), flatten(), dense(3)]),
    ("conv1d", [11, 3], 3, 3, 1,
     [conv1d(4, 3, 2, activation="relu"), conv1d(5, 2, 2, "same"), conv1d(4, 3, bias=False), flatten(),
      dense(3)]),
    ("conv1d_causal", [8, 2], 3, 3, 1,
     [conv1d(4, 2, padding="causal", activation="tanh"),
      conv1d(6, 3, padding="causal", dilation=3, groups=2), conv1d(3, 4, 3, "causal"), flatten(),
      dense(3)]),
    ("conv1d_dilated", [9, 4], 3, 3, 1,
     [conv1d(4, 3, dilation=2, groups=2, kernel_l1l2=(0.1, 0.01)),
      conv1d(6, 2, padding="same", dilation=3, groups=2, bias_l1l2=(0.1, 0.2)), flatten(), dense(3)]),
    ("pooled_sequences", [11, 3], 3, 3, 1,
     [conv1d(4, 2), pool1d("max_pool1d"), conv1d(4, 2, padding="same"),
      pool1d("average_pooling1d", 3, 1, "same"), conv1d(5, 1), pool1d("max_pool1d", 3, 2, "same"),
      pool1d("average_pooling1d"), flatten(), dense(3)]),
    ("whole_sequences_pooled", [7, 3], 4, 3, 1,
     [Node(conv1d(4, 2), "a"),
      Node(simple("global_average_pooling1d", keras.layers.GlobalAveragePooling1D()), "mean", ["a"]),
      Node(simple("global_max_pooling1d", keras.layers.GlobalMaxPooling1D()), "max", ["a"]),
      Node(concatenate(), inputs=["mean", "max"]), Node(dense(3))]),
    ("permuted", [3, 4, 2], 3, 3, 1,
     [conv(5, (1, 1)), permute([3, 1, 2]), conv(3, (2, 1)), permute([2, 1, 3]), conv(4, (1, 2)),
      reshape([4, -1]), permute([2, 1]), conv1d(2, 3), permute([1, 2]), flatten(), dense(3)]),
    ("squeeze_and_excite", [5, 4, 3], 3, 3, 1,
     [Node(conv(8, (2, 2)), "x"), Node(global_average()), Node(dense(3, "relu")),
      Node(dense(8, "sigmoid")), Node(reshape([1, 1, 8]), "weights"),
      Node(simple("multiply", keras.layers.Multiply()), inputs=["x", "weights"]), Node(conv(2, (2, 3))),
      Node(flatten()), Node(dense(3))]),
    ("merges_broadcast", [3, 4, 2], 3, 3, 1,
     [Node(conv(5, (1, 1)), "all"), Node(conv(1, (1, 1), activation="tanh"), "pixel", ["features"]),
      Node(conv(5, (3, 1)), "columns", ["features"]), Node(conv(5, (1, 4)), "rows", ["features"]),
      Node(global_average(), inputs=["all"]), Node(dense(5, "sigmoid"), "channel"),
      Node(dense(1), "one"),
      Node(add(), "add", ["channel", "all", "pixel", "channel"]),
      Node(simple("subtract", keras.layers.Subtract()), "subtract", ["one", "add"]),
      Node(simple("subtract", keras.layers.Subtract()), "less", ["all", "pixel"]),
      Node(simple("multiply", keras.layers.Multiply()), "outer", ["rows", "columns"]),
      Node(simple("multiply", keras.layers.Multiply()), "multiply", ["outer", "channel", "subtract"]),
      Node(simple("average", keras.layers.Average()), "average", ["rows", "multiply", "pixel"]),
      Node(simple("maximum", keras.layers.Maximum()), "maximum",
           ["columns", "channel", "average", "less"]),
      Node(conv(3, (2, 2)), inputs=["maximum"]), Node(flatten()), Node(dense(3))]),
    ("regularized_normalizations", [6], 5, 3, 2,
     [dense(5, bias=False), normalize(beta_l1l2=(0.1, 0.2), gamma_l1l2=(0.05, 0.3)), dense(4),
      layer_normalize(beta_l1l2=(0.02, 0.1), gamma_l1l2=(0.3, 0.04)), dense(4, bias=False),
      normalize(center=False, gamma_l1l2=(0, 0.3)), layer_normalize(scale=False, beta_l1l2=(0.2, 0)),
      dense(3)]),
    ("embedding", [4], 5, 3, Ids(7), [embedding(7, 3, l1l2=(0.02, 0.1)), flatten(), dense(3)]),
    ("dense_on_sequences", [5, 4], 3, 3, 1,
     [Node(dense(6, "tanh", kernel_l1l2=(0.01, 0.1), bias_l1l2=(0.02, 0.2)), "a"),
      Node(dense(6, "softmax"), "b"), Node(dense(5, bias=False)), Node(flatten()),
      Node(dense(3))]),
    ("dense_on_images", [3, 4, 2], 4, 3, 1,
     [conv(3, (2, 2)), dense(5, "relu"), dense(1), dense(4, "sigmoid"), global_average(), dense(3)]),
    ("dense_on_embeddings", [4], 5, 3, Ids(7),
     [embedding(7, 3), dense(4, "tanh"),
      simple("global_average_pooling1d", keras.layers.GlobalAveragePooling1D()), dense(3)]),
]


def numbers(values):
    return " ".join(f"{value:.9g}" for value in np.asarray(values).ravel())


def float32(values):
    return np.asarray(values, np.float32).astype(np.float64)


def make_model(shape, nodes, ids):
    """A Keras model, and its variables in our order: by layer, those of one as Keras has them."""
    values = {"features": keras.Input(shape, dtype="int64" if ids else None)}
    layers = {}
    last = values["features"]
    variables = []
    for node in nodes:
        layer = layers[node.shared] if node.shared else node.layer
        if node.frozen:
            layer.trainable = False
        inputs = [values[name] for name in node.inputs] or [last]
        last = layer(inputs if len(inputs) > 1 else inputs[0])
        values[node.name], layers[node.name] = last, layer
        if not node.shared:
            variables += layer.weights
    return keras.Model(values["features"], last), variables


def initial_values(rng, variables):
    values = []
    for variable in variables:
        scale = np.sqrt(np.prod(variable.shape[:-1]))
        value = rng.normal(size=variable.shape) / scale
        if variable.name == "moving_variance":
            value = np.abs(value) + 0.5
        if variable.name == "gamma":
            value += 1
        values.append(float32(value))
    return values


def print_case(rng, name, shape, batch, classes, scale, layers):
    nodes = [layer if isinstance(layer, Node) else Node(layer) for layer in layers]
    ids = scale.limit if isinstance(scale, Ids) else 0
    model, variables = make_model(shape, nodes, ids)
    if ids:
        features = rng.integers(0, ids, size=[batch] + shape)
    else:
        features = float32(rng.normal(size=[batch] + shape) * scale)
    labels = rng.integers(0, max(classes, 2), size=batch)
    values = initial_values(rng, variables)
    by_id = {id(variable): value for variable, value in zip(variables, values)}
    trainable = [by_id[id(variable)] for variable in model.trainable_variables]
    others = [by_id[id(variable)] for variable in model.non_trainable_variables]
    if classes == 1:
        loss_fn, loss_name = keras.losses.BinaryCrossentropy(from_logits=True), BINARY
    else:
        loss_fn, loss_name = keras.losses.SparseCategoricalCrossentropy(from_logits=True), SPARSE

    def mean_loss(trained, training):
        logits, others_after, losses = model.stateless_call(trained, others, features,
                                                            training=training, return_losses=True)
        loss = loss_fn(labels.reshape(-1, 1) if classes == 1 else labels, logits)
        return loss + sum(losses), (logits, others_after)

    loss, (logits, _) = mean_loss(trainable, False)
    (training_loss, (_, after)), trained_gradients = jax.value_and_grad(
        mean_loss, has_aux=True)(trainable, True)
    gradients = {id(v): g for v, g in zip(model.trainable_variables, trained_gradients)}
    for variable, before, value in zip(model.non_trainable_variables, others, after):
        if variable.name.startswith("moving_") and np.any(np.asarray(before) != np.asarray(value)):
            gradients[id(variable)] = value
    print("case", name)
    print("model", " ".join(node.spec() for node in nodes), f"loss: {loss_name}")
    print("input", *shape)
    print("labels", *labels)
    if ids:
        print("ids", ids)
    print("features", numbers(features))
    print("logits", numbers(logits))
    print("loss", numbers(loss))
    if numbers(training_loss) != numbers(loss):
        print("training_loss", numbers(training_loss))
    for index, (variable, value) in enumerate(zip(variables, values)):
        print(f"variable {index}", *variable.shape)
        print("values", numbers(value))
        # Frozen ones have none.
        print("gradient", numbers(gradients.get(id(variable), [])))


def main():
    rng = np.random.default_rng(20240229)
    for case in CASES:
        print_case(rng, *case)


if __name__ == "__main__":
    main()
