"""Learning rates of Keras's schedules, which //ps/optimizer:optimizer_test compares ours with.

To make learning_rates.txt again, as in optimizers.py:

    /tmp/venv/bin/python testing/reference/learning_rates.py > testing/reference/learning_rates.txt

Keras computes in float64 here. The table has these lines:

    updates N0 N1 ...       numbers of updates done before (Keras's iterations)
    CASE R0 R1 ...          the learning rate of the update that follows each of them

where CASE is a LearningRateSchedule in text format without blanks; the optimizer's own learning rate is 0.5.
"""

import os

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import numpy as np
from keras.optimizers import schedules
from optimizers import exact

keras.config.set_floatx("float64")

RATE = 0.5
UPDATES = [0, 1, 2, 3, 7, 9, 10, 11, 19, 20, 21, 29, 30, 31, 69, 70, 71, 99, 100, 101, 150, 310, 999, 1000,
           12345, 1000003]


class WarmedUp:
    """A warm-up as Keras has it for CosineDecay alone: linear, and the schedule begins after it."""

    def __init__(self, steps, start, schedule):
        self.steps, self.start, self.schedule = steps, start, schedule

    def __call__(self, n):
        if n >= self.steps:
            return self.schedule(n - self.steps)
        first = RATE * self.start
        return (RATE - first) * (n / self.steps) + first


CASES = [
    ("", lambda n: RATE),
    ("warmup{steps:20}", WarmedUp(20, 0, lambda n: RATE)),
    ("piecewise_constant{boundaries:[10,100,101],learning_rates:[0.1,0.7,0.001]}",
     exact(schedules.PiecewiseConstantDecay, [10, 100, 101], [RATE, 0.1, 0.7, 0.001])),
    ("exponential_decay{decay_steps:10,decay_rate:0.96}", exact(schedules.ExponentialDecay, RATE, 10, 0.96)),
    ("exponential_decay{decay_steps:1000,decay_rate:1.01}", exact(schedules.ExponentialDecay, RATE, 1000, 1.01)),
    ("exponential_decay{decay_steps:10,decay_rate:0.9,staircase:true}",
     exact(schedules.ExponentialDecay, RATE, 10, 0.9, staircase=True)),
    ("inverse_time_decay{decay_steps:10,decay_rate:0.5}", exact(schedules.InverseTimeDecay, RATE, 10, 0.5)),
    ("inverse_time_decay{decay_steps:7,decay_rate:3,staircase:true}",
     exact(schedules.InverseTimeDecay, RATE, 7, 3.0, staircase=True)),
    ("warmup{steps:20,from:0.1},inverse_time_decay{decay_steps:100,decay_rate:0.01}",
     WarmedUp(20, 0.1, exact(schedules.InverseTimeDecay, RATE, 100, 0.01))),
    ("warmup{steps:10,from:0.2},exponential_decay{decay_steps:10,decay_rate:0.96}",
     WarmedUp(10, 0.2, exact(schedules.ExponentialDecay, RATE, 10, 0.96))),
    ("polynomial_decay{decay_steps:100}", exact(schedules.PolynomialDecay, RATE, 100)),
    ("polynomial_decay{decay_steps:100,end_learning_rate:0.1,power:0.5}",
     exact(schedules.PolynomialDecay, RATE, 100, 0.1, power=0.5)),
    ("polynomial_decay{decay_steps:30,power:2.3,cycle:true}",
     exact(schedules.PolynomialDecay, RATE, 30, power=2.3, cycle=True)),
    ("cosine_decay{decay_steps:100}", exact(schedules.CosineDecay, RATE, 100)),
    ("cosine_decay{decay_steps:1000,alpha:0.1}", exact(schedules.CosineDecay, RATE, 1000, alpha=0.1)),
    ("warmup{steps:20,from:0.5},cosine_decay{decay_steps:100,alpha:0.05}",
     exact(schedules.CosineDecay, RATE * 0.5, 100, alpha=0.05, warmup_target=RATE, warmup_steps=20)),
    ("cosine_restarts{first_decay_steps:10}", exact(schedules.CosineDecayRestarts, RATE, 10)),
    ("cosine_restarts{first_decay_steps:10,t_mul:1,m_mul:0.9,alpha:0.1}",
     exact(schedules.CosineDecayRestarts, RATE, 10, t_mul=1.0, m_mul=0.9, alpha=0.1)),
    ("cosine_restarts{first_decay_steps:7,t_mul:1.3,m_mul:0.8}",
     exact(schedules.CosineDecayRestarts, RATE, 7, t_mul=1.3, m_mul=0.8)),
]


def main():
    print("updates", *UPDATES)
    for name, schedule in CASES:
        print(name or "{}", *("%.15g" % np.float64(schedule(n)) for n in UPDATES))


if __name__ == "__main__":
    main()
