"""Values of Keras's moving averages, which //ps/optimizer:optimizer_test compares ours with.

To make moving_average.txt again:

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install tensorflow-cpu
    /tmp/venv/bin/python testing/reference/moving_average.py > testing/reference/moving_average.txt

They are those of a BatchNormalization layer of Keras 3 while it trains, in float32, op by op. A batch is
one row, so that its mean, which the layer averages, is that row. The table has these lines, a number for
each element:

    start V0 V1 ...         the values that every case begins with
    statistic S0 S1 ...     one for each step, in order; the same for every case
    MOMENTUM V0 V1 ...      the values after each step, in order
"""

import os

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import numpy as np

STEPS = 12
MOMENTA = [0.99, 0.9, 0.6, 0.999, 0]


def statistics():
    """Elements of different sizes and signs; one that is always 0."""
    random = np.random.default_rng(20240602)
    scale = np.array([1, 1, 1e-3, 30, 0.1, 0, 1, 1e6], np.float32)
    return random.standard_normal((STEPS, scale.size)).astype(np.float32) * scale


def line(numbers):
    # Nine digits give each float32 back exactly.
    return " ".join("%.9g" % x for x in numbers)


def main():
    start = np.array([0.5, -0.5, 1, -2, 0.01, 3, 0, 10], np.float32)
    print("start", line(start))
    for statistic in statistics():
        print("statistic", line(statistic))
    for momentum in MOMENTA:
        layer = keras.layers.BatchNormalization(momentum=momentum)
        layer.build((None, start.size))
        layer.moving_mean.assign(start)
        for statistic in statistics():
            layer(statistic[np.newaxis], training=True)
            print(momentum, line(keras.ops.convert_to_numpy(layer.moving_mean)))


if __name__ == "__main__":
    main()
