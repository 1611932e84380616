"""Synchronous jobs whose gradients are clipped by their norm over all shards: whatever is killed, no bit differs."""

import unittest

import chaos
import harness
import short

STEPS = 2000
NORM = 0.5  # Below what the gradients have for most of the job.


class GlobalNormTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.undisturbed = chaos.run_digits(0, short.none, STEPS, global_clip_norm=NORM)[1]

    def check(self, seed, make_blows, **job):
        with self.subTest(seed=seed, **job):
            exported = chaos.run_digits(seed, make_blows, STEPS, global_clip_norm=NORM, **job)[1]
            self.assertEqual(exported, self.undisturbed, f"seed {seed}, {job}: other bits than undisturbed")

    def test_whatever_is_killed_the_bits_are_those_of_an_undisturbed_run(self):
        for seed in short.seeds():
            self.check(seed, short.mixed, evaluate_every=700)

    def test_all_ps_killed_at_once_without_their_memory_step_back_together(self):
        self.check(short.seeds()[0], short.all_ps)

    def test_bits_do_not_depend_on_the_number_of_shards(self):
        for ps in (1, 3):
            self.check(0, short.none, ps=ps)


if __name__ == "__main__":
    harness.main()
