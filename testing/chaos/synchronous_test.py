"""Short forms of long.py's synchronous runs: whatever is killed, no bit differs."""

import unittest

import chaos
import harness
import short

STEPS = 2000


class SynchronousTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.undisturbed = chaos.run_digits(0, short.none, STEPS)[1]

    def check(self, make_blows, seeds):
        for seed in seeds:
            with self.subTest(seed=seed):
                disturbed = chaos.run_digits(seed, make_blows, STEPS, evaluate_every=700)[1]
                self.assertEqual(disturbed, self.undisturbed, f"seed {seed}: other bits than undisturbed")

    def test_whatever_is_killed_the_bits_are_those_of_an_undisturbed_run(self):
        self.check(short.mixed, short.seeds())

    def test_all_ps_killed_at_once_without_their_memory_step_back_together(self):
        self.check(short.all_ps, short.seeds()[:1])

    def test_every_step_sees_exactly_the_versions_before_it(self):
        chaos.run_sums(short.seeds()[0], short.mixed, STEPS, replicas=4, evaluate_every=700)


if __name__ == "__main__":
    harness.main()
