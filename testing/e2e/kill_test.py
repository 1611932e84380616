"""Processes that are killed, with no time to say anything: the job still ends with every step applied."""

import filecmp
import unittest

import harness

JOB = "examples/digits.textproto"
STEPS = 800
# The job is evaluated when exactly these steps are applied: however fast it is, it tells of its middle.
EVALUATE_EVERY = 100


class KillTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.directory = harness.temporary_directory()
        cls.digits = harness.make_digits(cls.directory / "digits", train=1500, evaluate=400)

    def train_through(self, kill, *overrides, export=None):
        """Trains on a cluster, and calls kill(cluster) once in the middle."""
        arguments = ["--set", f"steps={STEPS}", "--set", f"evaluation.every_steps={EVALUATE_EVERY}"]
        for override in overrides:
            arguments += ["--set", override]
        with harness.Cluster(ps=2, workers=2) as cluster:
            submitted = cluster.millrace("submit", JOB, f"--data={self.digits}", *arguments)
            self.assertEqual(submitted.returncode, 0, submitted.stderr)
            job_id = submitted.stdout.strip()
            killed = False
            final = None
            for event in cluster.watch(job_id):
                final = event
                if not killed and EVALUATE_EVERY <= event.get("step", 0) < STEPS:
                    killed = True
                    kill(cluster)
            self.assertTrue(killed, "the job ended before anything could be killed")
            self.assertEqual(final["state"], "SUCCEEDED", final)
            self.assertEqual(final["step"], STEPS)
            if export:
                exported = cluster.millrace("export", job_id, f"--export={export}")
                self.assertEqual(exported.returncode, 0, exported.stderr)

    def test_a_killed_worker_changes_no_bit_of_a_synchronous_result(self):
        calm, disturbed = self.directory / "calm.safetensors", self.directory / "disturbed.safetensors"
        self.train_through(lambda cluster: None, "synchronous.replicas=4", export=calm)
        self.train_through(lambda cluster: cluster.workers[0].kill(), "synchronous.replicas=4", export=disturbed)
        self.assertTrue(filecmp.cmp(calm, disturbed, shallow=False))

    def test_a_killed_worker_of_an_asynchronous_job(self):
        self.train_through(lambda cluster: cluster.workers[0].kill())

    def test_a_killed_ps_of_an_asynchronous_job_that_is_started_again(self):
        def kill(cluster):
            cluster.ps[0].kill()
            cluster.ps[0] = cluster.start_ps(0)

        self.train_through(kill)

    def test_a_killed_coordinator_that_is_started_again(self):
        def kill(cluster):
            cluster.coordinator.kill()
            cluster.coordinator = cluster.start_coordinator()

        self.train_through(kill)


if __name__ == "__main__":
    harness.main()
