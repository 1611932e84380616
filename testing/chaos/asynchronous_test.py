"""Short form of long.py's asynchronous run: whatever is killed, every step is applied once."""

import unittest

import chaos
import harness
import short


class AsynchronousTest(unittest.TestCase):

    def test_every_variable_is_the_exact_sum_of_every_step(self):
        for seed in short.seeds():
            with self.subTest(seed=seed):
                chaos.run_sums(seed, short.mixed, steps=3000, evaluate_every=700, pull_ahead=seed % 2 == 1)


if __name__ == "__main__":
    harness.main()
