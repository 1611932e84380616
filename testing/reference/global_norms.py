"""Values of Keras's optimizers with global_clipnorm, which //ps/shard:shard_test compares ours with.

To make global_norms.txt again:

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install tensorflow-cpu
    /tmp/venv/bin/python testing/reference/global_norms.py > testing/reference/global_norms.txt

Keras 3 computes in float64 here, as in optimizers.py. There are three variables; the table has these lines, with
the numbers of all variables one after the other:

    sizes N0 N1 N2          elements of the variables
    start V0 V1 ...         the values that every case begins with
    gradient G0 G1 ...      one for each step, in order; the same for every case
    CASE V0 V1 ...          the values after each step, in order

where CASE is an OptimizerSpec in text format without blanks. Some gradients are longer than what they are clipped
to, and some are not.
"""

import os

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import numpy as np
from keras import optimizers

STEPS = 10
SIZES = (7, 1, 12)

keras.config.set_floatx("float64")  # Before the optimizers make their own variables.

# Numbers are np.float64: some formulas take a plain one for a float32.
CASES = [
    ("sgd{learning_rate:0.1},global_clip_norm:4",
     optimizers.SGD(np.float64(0.1), global_clipnorm=np.float64(4))),
    ("sgd{learning_rate:0.05,momentum:0.9},global_clip_norm:0.5",
     optimizers.SGD(np.float64(0.05), momentum=np.float64(0.9), global_clipnorm=np.float64(0.5))),
    ("adam{learning_rate:0.02,beta_1:0.8,beta_2:0.95,epsilon:1e-4},global_clip_norm:3",
     optimizers.Adam(np.float64(0.02), beta_1=np.float64(0.8), beta_2=np.float64(0.95), epsilon=np.float64(1e-4),
                     global_clipnorm=np.float64(3))),
]


def gradients():
    """Of different lengths, and elements of different sizes."""
    random = np.random.default_rng(20240602)
    scale = np.array([1] * 7 + [1e-3] + [0.1] * 6 + [2] * 6, np.float32)
    length = np.array([0.01, 0.5, 1, 2, 30], np.float32)
    return [random.standard_normal(sum(SIZES)).astype(np.float32) * scale * length[step % 5] for step in range(STEPS)]


def line(numbers):
    # Nine digits give each float32 back exactly.
    return " ".join("%.9g" % x for x in numbers)


def divided(numbers):
    return np.split(np.asarray(numbers, np.float64), np.cumsum(SIZES)[:-1])


def main():
    start = np.linspace(-1, 2, sum(SIZES)).astype(np.float32)
    print("sizes", *SIZES)
    print("start", line(start))
    for gradient in gradients():
        print("gradient", line(gradient))
    for name, optimizer in CASES:
        variables = [keras.Variable(part, dtype="float64") for part in divided(start)]
        for gradient in gradients():
            parts = [keras.ops.convert_to_tensor(part, "float64") for part in divided(gradient)]
            optimizer.apply_gradients(list(zip(parts, variables)))
            print(name, line(np.concatenate([variable.numpy() for variable in variables])))


if __name__ == "__main__":
    main()
