"""Values of Keras's optimizers, which //ps/optimizer:optimizer_test compares ours with.

To make optimizers.txt again:

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install tensorflow-cpu
    /tmp/venv/bin/python testing/reference/optimizers.py > testing/reference/optimizers.txt

Keras 3 computes in float64 here: in float32 its correction of Adam's bias, which takes small differences of
numbers near 1, is off by 1e-5 (ours is computed in double). The values to begin with and the gradients are
float32 numbers. The table has these lines, a number for each element of one variable:

    start V0 V1 ...         the values that every case begins with
    gradient G0 G1 ...      one for each step, in order; the same for every case
    CASE V0 V1 ...          the values after each step, in order

where CASE is an OptimizerSpec in text format without blanks. Learning rates by themselves are in
learning_rates.py.
"""

import inspect
import os

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import numpy as np
from keras import optimizers
from keras.optimizers import schedules

STEPS = 12

keras.config.set_floatx("float64")  # Before the optimizers make their own variables.


def exact(make, *numbers, **named):
    """Calls `make` with np.float64 for every float, defaults too: some formulas take a plain one for a float32."""
    arguments = inspect.signature(make).bind(*numbers, **named)
    arguments.apply_defaults()
    for name, value in arguments.arguments.items():
        if isinstance(value, float):
            arguments.arguments[name] = np.float64(value)
        elif isinstance(value, list):
            arguments.arguments[name] = [np.float64(x) for x in value]
    return make(*arguments.args, **arguments.kwargs)


CASES = [
    ("sgd{}", exact(optimizers.SGD)),
    ("sgd{learning_rate:0.1}", exact(optimizers.SGD, 0.1)),
    ("sgd{learning_rate:0.05,momentum:0.9}", exact(optimizers.SGD, 0.05, momentum=0.9)),
    ("sgd{momentum:0.8,nesterov:true}", exact(optimizers.SGD, momentum=0.8, nesterov=True)),
    ("rmsprop{}", exact(optimizers.RMSprop)),
    ("rmsprop{learning_rate:0.01,rho:0.8,epsilon:1e-3}", exact(optimizers.RMSprop, 0.01, rho=0.8, epsilon=1e-3)),
    ("rmsprop{learning_rate:0.01,momentum:0.9}", exact(optimizers.RMSprop, 0.01, momentum=0.9)),
    ("rmsprop{learning_rate:0.01,centered:true}", exact(optimizers.RMSprop, 0.01, centered=True)),
    ("rmsprop{learning_rate:0.01,momentum:0.7,centered:true}",
     exact(optimizers.RMSprop, 0.01, momentum=0.7, centered=True)),
    ("adam{}", exact(optimizers.Adam)),
    ("adam{learning_rate:0.02,beta_1:0.8,beta_2:0.95,epsilon:1e-4}",
     exact(optimizers.Adam, 0.02, beta_1=0.8, beta_2=0.95, epsilon=1e-4)),
    ("adam{learning_rate:0.02,beta_2:0.5,amsgrad:true}", exact(optimizers.Adam, 0.02, beta_2=0.5, amsgrad=True)),
    ("adamw{}", exact(optimizers.AdamW)),
    ("adamw{learning_rate:0.05,weight_decay:0.3,beta_1:0.8}",
     exact(optimizers.AdamW, 0.05, weight_decay=0.3, beta_1=0.8)),
    ("adamw{learning_rate:0.05,weight_decay:0.1,beta_2:0.5,amsgrad:true}",
     exact(optimizers.AdamW, 0.05, weight_decay=0.1, beta_2=0.5, amsgrad=True)),
    ("nadam{}", exact(optimizers.Nadam)),
    ("nadam{learning_rate:0.02,beta_1:0.8,beta_2:0.95,epsilon:1e-4}",
     exact(optimizers.Nadam, 0.02, beta_1=0.8, beta_2=0.95, epsilon=1e-4)),
    ("adagrad{}", exact(optimizers.Adagrad)),
    ("adagrad{learning_rate:0.5,initial_accumulator_value:0,epsilon:1e-3}",
     exact(optimizers.Adagrad, 0.5, initial_accumulator_value=0, epsilon=1e-3)),
    ("adadelta{}", exact(optimizers.Adadelta)),
    ("adadelta{learning_rate:1,rho:0.7,epsilon:1e-4}", exact(optimizers.Adadelta, 1.0, rho=0.7, epsilon=1e-4)),
    ("ftrl{}", exact(optimizers.Ftrl)),
    ("ftrl{learning_rate:0.1,initial_accumulator_value:1,l1:0.5,l2:0.2,l2_shrinkage:0.05,beta:0.5}",
     exact(optimizers.Ftrl, 0.1, initial_accumulator_value=1.0, l1_regularization_strength=0.5,
                     l2_regularization_strength=0.2, l2_shrinkage_regularization_strength=0.05, beta=0.5)),
    ("ftrl{learning_rate:0.1,learning_rate_power:-0.7,l1:0.01}",
     exact(optimizers.Ftrl, 0.1, learning_rate_power=-0.7, l1_regularization_strength=0.01)),
    ("ftrl{learning_rate:0.1,learning_rate_power:0,l2:0.3}",
     exact(optimizers.Ftrl, 0.1, learning_rate_power=0.0, l2_regularization_strength=0.3)),
    ("sgd{learning_rate:0.1,momentum:0.9},clip_value:0.7", exact(optimizers.SGD, 0.1, momentum=0.9, clipvalue=0.7)),
    ("adamw{},clip_value:1e-3", exact(optimizers.AdamW, clipvalue=1e-3)),
    ("sgd{learning_rate:0.1},schedule{exponential_decay{decay_steps:4,decay_rate:0.5}}",
     exact(optimizers.SGD, exact(schedules.ExponentialDecay, 0.1, 4, 0.5))),
    ("sgd{learning_rate:0.1,momentum:0.9},"
     "schedule{piecewise_constant{boundaries:[3,7],learning_rates:[0.05,0.2]}}",
     exact(optimizers.SGD, exact(schedules.PiecewiseConstantDecay, [3, 7], [0.1, 0.05, 0.2]), momentum=0.9)),
    ("rmsprop{learning_rate:0.1},schedule{polynomial_decay{decay_steps:5,power:2}}",
     exact(optimizers.RMSprop, exact(schedules.PolynomialDecay, 0.1, 5, power=2.0))),
    ("adam{learning_rate:0.1},schedule{cosine_restarts{first_decay_steps:3}}",
     exact(optimizers.Adam, exact(schedules.CosineDecayRestarts, 0.1, 3))),
    ("adamw{learning_rate:0.1,weight_decay:0.3},schedule{warmup{steps:4},cosine_decay{decay_steps:6}}",
     exact(optimizers.AdamW, exact(schedules.CosineDecay, 0.0, 6, warmup_target=0.1, warmup_steps=4),
           weight_decay=0.3)),
    ("nadam{learning_rate:0.1},schedule{polynomial_decay{decay_steps:5,cycle:true}}",
     exact(optimizers.Nadam, exact(schedules.PolynomialDecay, 0.1, 5, cycle=True))),
    ("adagrad{learning_rate:0.1},schedule{exponential_decay{decay_steps:3,decay_rate:0.5,staircase:true}}",
     exact(optimizers.Adagrad, exact(schedules.ExponentialDecay, 0.1, 3, 0.5, staircase=True))),
    ("adadelta{learning_rate:1},schedule{cosine_decay{decay_steps:8,alpha:0.2}}",
     exact(optimizers.Adadelta, exact(schedules.CosineDecay, 1.0, 8, alpha=0.2))),
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
        variable = keras.Variable(start.astype(np.float64), dtype="float64")
        for gradient in gradients():
            optimizer.apply_gradients([(keras.ops.convert_to_tensor(gradient, "float64"), variable)])
            print(name, line(variable.numpy()))


if __name__ == "__main__":
    main()
