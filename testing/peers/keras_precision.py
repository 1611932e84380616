"""What the precision of factors does to accuracy: two networks of the examples in Keras, on a processor, with the factors of
their products, and what stands between dense layers, rounded as `precision.compute` of a job rounds them on a GPU, forwards and
back.

    PYTHON keras_precision.py --cifar=DIR --mnist=DIR [--networks=wide_mlp,resnet20] [--seeds=2]

--cifar holds data_batch_1.bin and test_batch.bin, --mnist the t10k files. From the same initial values and batches a
network trains once in each precision:
- resnet20: that of examples/resnet.py, with the augmentation of examples/cifar10_resnet.textproto, batches of 128, Adam
  with 0.001, which goes down to 0 by a cosine, over 5 epochs of 10,000 images; evaluated on the 10,000 of test_batch.bin;
- wide_mlp: as in examples/wide_mlp.textproto.
Prints a JSON line for each: the accuracy on the held-out images.
"""

import argparse
import gzip
import json
import time

import keras_resnet  # First: it quietens TensorFlow.
import keras_resnet_fit
import numpy as np
import tensorflow as tf

keras = tf.keras
TF32_DROPPED = 13  # Of float32's 23 bits of mantissa.


def to_tf32(x):
    """To the nearest, ties away from zero, as cvt.rna.tf32.f32 of PTX."""
    bits = tf.bitcast(x, tf.int32) + (1 << (TF32_DROPPED - 1))
    return tf.bitcast(tf.bitwise.bitwise_and(bits, -(1 << TF32_DROPPED)), tf.float32)


def to_bfloat16(x):
    return tf.cast(tf.cast(x, tf.bfloat16), tf.float32)


PRECISIONS = {"FLOAT32": tf.identity, "TF32": to_tf32, "BFLOAT16": to_bfloat16}


def rounded_product(product, rounded, x, kernel):
    """product(x, kernel) and its gradients, of rounded factors; sums are of float32."""

    @tf.custom_gradient
    def multiply(x, kernel):
        factors = [rounded(x), rounded(kernel)]
        with tf.GradientTape() as tape:
            tape.watch(factors)
            y = product(*factors)
        return y, lambda dy: tape.gradient(y, factors, output_gradients=rounded(dy))

    return multiply(x, kernel)


@tf.custom_gradient
def narrow_value(y):
    """What stands in bfloat16 between two dense layers, and its gradient."""
    return to_bfloat16(y), to_bfloat16


def in_precision(model, precision):
    """The same network with rounded products, and the same values. Takes each dense layer
    with a function, and no other, to be followed by another dense layer, as in these networks."""
    rounded = PRECISIONS[precision]

    class Conv2D(keras.layers.Conv2D):
        def convolution_op(self, inputs, kernel):
            return rounded_product(super().convolution_op, rounded, inputs, tf.convert_to_tensor(kernel))

    class Dense(keras.layers.Dense):
        def call(self, inputs, training=None):
            y = rounded_product(tf.linalg.matmul, rounded, inputs, tf.convert_to_tensor(self.kernel))
            if precision != "BFLOAT16" or self.activation is keras.activations.linear:
                return self.activation(y + self.bias)
            # The sum for the bias's gradient is not rounded, as to_bfloat16 would round it.
            bias = self.bias + tf.stop_gradient(to_bfloat16(self.bias) - self.bias)
            return narrow_value(self.activation(y + bias))

    classes = {"Conv2D": Conv2D, "Dense": Dense}

    def clone(layer):
        return classes.get(type(layer).__name__, type(layer)).from_config(layer.get_config())

    made = keras.models.clone_model(model, clone_function=clone)
    made.set_weights(model.get_weights())
    return made


def train(model, data, epochs, optimizer):
    model.compile(optimizer, keras_resnet_fit.entropy(), metrics=["accuracy"], jit_compile=False)
    model.fit(data, epochs=epochs, verbose=0)


def resnet20(options, seed, precision):
    keras.utils.set_random_seed(seed)
    model = in_precision(keras_resnet.network(20), precision)
    keras.utils.set_random_seed(seed)
    files = argparse.Namespace(
        train=f"{options.cifar}/data_batch_1.bin", evaluate=f"{options.cifar}/test_batch.bin", plain=False, batch=128)
    data = keras_resnet_fit.batches(files, repeated=False, seed=seed)
    epochs = options.epochs or 5
    rate = keras.optimizers.schedules.CosineDecay(0.001, int(data.cardinality()) * epochs)
    train(model, data, epochs, keras.optimizers.Adam(rate))
    return keras_resnet_fit.evaluated(model, files)["accuracy"]


def digits(folder):
    with gzip.open(f"{folder}/t10k-images-idx3-ubyte.gz") as images:
        x = np.frombuffer(images.read(), np.uint8, offset=16).reshape(-1, 784).astype(np.float32) / np.float32(255)
    with gzip.open(f"{folder}/t10k-labels-idx1-ubyte.gz") as labels:
        return x, np.frombuffer(labels.read(), np.uint8, offset=8).astype(np.int64)


def wide_mlp(options, seed, precision):
    keras.utils.set_random_seed(seed)
    inputs = keras.Input((784,))
    y = keras.layers.Dense(4096, "relu")(keras.layers.Dense(4096, "relu")(inputs))
    model = in_precision(keras.Model(inputs, keras.layers.Dense(10)(y)), precision)
    x, labels = digits(options.mnist)
    data = tf.data.Dataset.from_tensor_slices((x[:8192], labels[:8192])).shuffle(8192, seed=seed).batch(1024)
    train(model, data, options.epochs or 10, keras.optimizers.Adam(0.0005))
    return model.evaluate(x[8192:], labels[8192:], batch_size=1024, verbose=0)[1]


NETWORKS = {"wide_mlp": wide_mlp, "resnet20": resnet20}


def some_of(names):
    def parsed(text):
        for name in text.split(","):
            if name not in names:
                raise argparse.ArgumentTypeError(f"'{name}' is none of {', '.join(names)}")
        return text.split(",")

    return parsed


def parsed_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cifar", required=True)
    parser.add_argument("--mnist", required=True)
    parser.add_argument("--networks", type=some_of(NETWORKS), default=list(NETWORKS))
    parser.add_argument("--precisions", type=some_of(PRECISIONS), default=list(PRECISIONS))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=0, help="0: as said above")
    return parser.parse_args()


def main():
    options = parsed_options()
    for seed in range(1, options.seeds + 1):
        for network in options.networks:
            for precision in options.precisions:
                begin = time.monotonic()
                accuracy = NETWORKS[network](options, seed, precision)
                print(json.dumps({"network": network, "compute": precision, "seed": seed, "accuracy": accuracy,
                                  "seconds": time.monotonic() - begin}), flush=True)


if __name__ == "__main__":
    main()
