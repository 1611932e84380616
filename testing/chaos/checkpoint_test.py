"""Short forms of long.py's runs with checkpoints: disks are lost, whole clusters too, and nothing shows in the end."""

import unittest

import chaos
import harness
import short

STEPS = 2000


class CheckpointTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.undisturbed = chaos.run_digits(0, short.none, STEPS)[1]

    def test_all_disks_lost_the_bits_are_those_of_an_undisturbed_run(self):
        for seed in short.seeds()[:2]:
            with self.subTest(seed=seed):
                disturbed = chaos.run_digits(seed, short.disks, STEPS, evaluate_every=700, checkpoint_every=40)[1]
                self.assertEqual(disturbed, self.undisturbed, f"seed {seed}: other bits than undisturbed")

    def test_all_disks_lost_every_step_is_applied_once(self):
        chaos.run_sums(short.seeds()[0], short.disks, steps=3000, evaluate_every=700, checkpoint_every=100)

    def test_old_copies_of_disks_the_bits_are_those_of_an_undisturbed_run(self):
        disturbed = chaos.run_digits(short.seeds()[0], short.old_disks, STEPS, evaluate_every=700, checkpoint_every=40)[1]
        self.assertEqual(disturbed, self.undisturbed)

    def test_old_copies_of_disks_every_step_is_applied_once(self):
        chaos.run_sums(short.seeds()[0], short.old_disks, steps=3000, evaluate_every=700, checkpoint_every=100)

    def test_from_3_servers_to_5_to_2_the_bits_stay(self):
        found = chaos.journey_of_digits(short.seeds()[0], STEPS, servers=(3, 5, 2), checkpoint_every=40)
        self.assertEqual(found, self.undisturbed)

    def test_from_3_servers_to_5_to_2_every_step_is_applied_once(self):
        chaos.journey_of_sums(short.seeds()[0], steps=3000, servers=(3, 5, 2), checkpoint_every=100)


if __name__ == "__main__":
    harness.main()
