"""Values of Keras's optimizers that take norms of variables, which //ps/optimizer:optimizer_test compares ours with.

To make norms.txt again, as in optimizers.py:

    /tmp/venv/bin/python testing/reference/norms.py > testing/reference/norms.txt

Keras computes in float64 here. A line has a number for each element, those of one variable after the other:

    lengths L0 L1 ...       how many elements each variable has
    start V0 V1 ...         the values that every case begins with
    gradient G0 G1 ...      one for each step, in order; the same for every case
    CASE V0 V1 ...          the values after each step, in order

where CASE is an OptimizerSpec in text format without blanks.
"""

import os

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import numpy as np
from keras import optimizers
from keras.optimizers import schedules
from optimizers import exact, line

keras.config.set_floatx("float64")

STEPS = 12
# The second one begins as zeros, the third one has no gradients, the fourth one neither values nor gradients; the last
# one is a single element.
START = [np.array(v, np.float32) for v in (
    [0.5, -0.5, 1, -2, 0.01, 3, 0, 10], [0, 0, 0, 0, 0], [1, -2, 0.5], [0, 0], [0.25])]
SCALES = [np.array(s, np.float32) for s in (
    [1, 1, 1e-3, 30, 0.1, 0, 1, 5], [1, 0.01, 3, 0, 100], [0, 0, 0], [0, 0], [1])]

CASES = [
    ("sgd{learning_rate:0.1},clip_norm:0.7", exact(optimizers.SGD, 0.1, clipnorm=0.7)),
    ("sgd{learning_rate:0.1,momentum:0.9},clip_norm:20", exact(optimizers.SGD, 0.1, momentum=0.9, clipnorm=20.0)),
    ("rmsprop{centered:true},clip_norm:1.5", exact(optimizers.RMSprop, centered=True, clipnorm=1.5)),
    ("adamw{learning_rate:0.02},clip_norm:1e-3", exact(optimizers.AdamW, 0.02, clipnorm=1e-3)),
    ("ftrl{},clip_norm:0.5", exact(optimizers.Ftrl, clipnorm=0.5)),
    ("lamb{}", exact(optimizers.Lamb)),
    ("lamb{learning_rate:0.1,beta_1:0.8,beta_2:0.95,epsilon:1e-4}",
     exact(optimizers.Lamb, 0.1, beta_1=0.8, beta_2=0.95, epsilon=1e-4)),
    ("lamb{learning_rate:0.02},clip_norm:0.3", exact(optimizers.Lamb, 0.02, clipnorm=0.3)),
    ("lamb{learning_rate:0.02},clip_value:0.5", exact(optimizers.Lamb, 0.02, clipvalue=0.5)),
    ("lamb{learning_rate:0.1},schedule{inverse_time_decay{decay_steps:3,decay_rate:0.5}}",
     exact(optimizers.Lamb, exact(schedules.InverseTimeDecay, 0.1, 3, 0.5))),
]


def gradients():
    """For each step those of the variables. Every third one is small: within all norms but the smallest."""
    random = np.random.default_rng(20240603)
    for step in range(STEPS):
        size = np.float32(1e-2 if step % 3 == 2 else 1)
        yield [random.standard_normal(scale.size).astype(np.float32) * scale * size for scale in SCALES]


def main():
    print("lengths", *(start.size for start in START))
    print("start", line(np.concatenate(START)))
    for gradient in gradients():
        print("gradient", line(np.concatenate(gradient)))
    for name, optimizer in CASES:
        variables = [keras.Variable(start.astype(np.float64), dtype="float64") for start in START]
        for gradient in gradients():
            optimizer.apply_gradients(
                [(keras.ops.convert_to_tensor(g, "float64"), v) for g, v in zip(gradient, variables)])
            print(name, line(np.concatenate([v.numpy() for v in variables])))


if __name__ == "__main__":
    main()
