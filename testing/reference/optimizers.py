"""Values of Keras's optimizers, which //ps/optimizer:optimizer_test compares ours with.

To make optimizers.txt again:

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install tensorflow-cpu tf_keras
    /tmp/venv/bin/python testing/reference/optimizers.py > testing/reference/optimizers.txt

tf_keras is Keras 2. It computes in float64 here: in float32 its correction of Adam's bias, which takes
small differences of numbers near 1, is off by 1e-5 (ours is computed in double). The values to begin with
and the gradients are float32 numbers. The table has these lines, a number for each element of one variable:

    start V0 V1 ...         the values that every case begins with
    gradient G0 G1 ...      one for each step, in order; the same for every case
    CASE V0 V1 ...          the values after each step, in order

where CASE is an OptimizerSpec in text format without blanks.
"""

import os

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf
import tf_keras

STEPS = 12

tf_keras.backend.set_floatx("float64")  # Before the optimizers make their own variables.

CASES = [
    ("sgd{}", tf_keras.optimizers.SGD()),
    ("sgd{learning_rate:0.1}", tf_keras.optimizers.SGD(0.1)),
    ("sgd{learning_rate:0.05,momentum:0.9}", tf_keras.optimizers.SGD(0.05, momentum=0.9)),
    ("sgd{momentum:0.8,nesterov:true}", tf_keras.optimizers.SGD(momentum=0.8, nesterov=True)),
    ("rmsprop{}", tf_keras.optimizers.RMSprop()),
    ("rmsprop{learning_rate:0.01,rho:0.8,epsilon:1e-3}",
     tf_keras.optimizers.RMSprop(0.01, rho=0.8, epsilon=1e-3)),
    ("rmsprop{learning_rate:0.01,momentum:0.9}",
     tf_keras.optimizers.RMSprop(0.01, momentum=0.9)),
    ("rmsprop{learning_rate:0.01,centered:true}",
     tf_keras.optimizers.RMSprop(0.01, centered=True)),
    ("rmsprop{learning_rate:0.01,momentum:0.7,centered:true}",
     tf_keras.optimizers.RMSprop(0.01, momentum=0.7, centered=True)),
    # np.float64: a plain float would become a float32 on its way into the correction of the bias.
    ("adam{}", tf_keras.optimizers.Adam(beta_1=np.float64(0.9), beta_2=np.float64(0.999))),
    ("adam{learning_rate:0.02,beta_1:0.8,beta_2:0.95,epsilon:1e-4}",
     tf_keras.optimizers.Adam(0.02, beta_1=np.float64(0.8), beta_2=np.float64(0.95), epsilon=1e-4)),
]


def gradients():
    """Elements of different sizes and signs; one that is always 0, and one that is 0 at times."""
    random = np.random.default_rng(20240601)
    scale = np.array([1, 1, 1e-3, 30, 0.1, 0, 1, 5], np.float32)
    result = random.standard_normal((STEPS, scale.size)).astype(np.float32) * scale
    result[::3, 6] = 0
    return result


def line(numbers):
    # Nine digits give each float32 back exactly.
    return " ".join("%.9g" % x for x in numbers)


def main():
    start = np.array([0.5, -0.5, 1, -2, 0.01, 3, 0, 10], np.float32)
    print("start", line(start))
    for gradient in gradients():
        print("gradient", line(gradient))
    for name, optimizer in CASES:
        variable = tf.Variable(start.astype(np.float64))
        for gradient in gradients():
            optimizer.apply_gradients([(tf.constant(gradient, tf.float64), variable)])
            print(name, line(variable.numpy()))


if __name__ == "__main__":
    main()
