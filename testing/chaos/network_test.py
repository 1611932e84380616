"""Short forms of the long runs over a bad network (long.py): 2,000 pushes in all."""

import os
import unittest

import harness
import network

SEED = int(os.environ.get("MILLRACE_CHAOS_SEED", "1"))
STEPS = 125  # Of one job: two shards, so twice as many pushes.


class NetworkTest(unittest.TestCase):

    def check(self, faults, directions, *arguments, **options):
        for fault in faults:
            for direction in directions:
                with self.subTest(fault=fault, direction=direction, seed=SEED):
                    network.run(fault, direction, *arguments, seed=SEED, **options)

    def test_pushes_and_pulls(self):
        self.check(network.FAULTS, network.DIRECTIONS, network.DATA_PLANE, STEPS)

    def test_pushes_and_pulls_that_are_lost_without_a_word(self):
        self.check(("lose",), network.DIRECTIONS, network.DATA_PLANE, STEPS, **network.LOST)

    def test_calls_of_the_coordinator(self):
        self.check(("drop", "duplicate"), network.DIRECTIONS[:1], network.ADMIN_PLANE, STEPS, evaluate_every=10)
        self.check(("drop",), network.DIRECTIONS[1:], network.ADMIN_PLANE, STEPS, evaluate_every=10)

    def test_membership(self):
        self.check(("drop", "delay"), network.DIRECTIONS, network.MEMBERSHIP, STEPS, probability=0.05,
                   proxied="coordinator")


if __name__ == "__main__":
    harness.main()
