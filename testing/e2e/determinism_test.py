"""Synchronous training gives the same bits on any cluster, even one whose ps servers are restarted."""

import filecmp
import json
import unittest

import harness

JOB = "examples/mnist_cnn_sync.textproto"
# The example's network and optimizer, on generated digits.
OVERRIDES = [
    "data.train.idx.images=train-images-idx3-ubyte", "data.train.idx.labels=train-labels-idx1-ubyte",
    "data.train.range.begin=0", "data.train.range.end=0",
    "data.evaluate.idx.images=t10k-images-idx3-ubyte", "data.evaluate.idx.labels=t10k-labels-idx1-ubyte",
    "data.evaluate.range.begin=0", "data.evaluate.range.end=0",
    # So that a job tells of its middle, however fast it is. Evaluations change no variable.
    "evaluation.every_steps=20",
]


class DeterminismTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.directory = harness.temporary_directory()
        # 600 examples in batches of 16: the epoch's last batch is short.
        cls.digits = harness.make_digits(cls.directory / "digits")
        cls.reference = cls.directory / "reference.safetensors"
        cls.train(cls.reference, "--ps=1", "--workers=1")

    @classmethod
    def arguments(cls, steps=100):
        arguments = ["--json", f"--data={cls.digits}", "--set", f"steps={steps}"]
        for override in OVERRIDES:
            arguments += ["--set", override]
        return arguments

    @classmethod
    def train(cls, export, *cluster):
        result = harness.millrace("train", JOB, f"--export={export}", *cls.arguments(), *cluster)
        assert result.returncode == 0, result.stderr
        return export

    def assert_equals_reference(self, export):
        self.assertTrue(filecmp.cmp(export, self.reference, shallow=False), f"{export} differs from {self.reference}")

    def train_disturbed(self, cluster, disturb, name, *flags):
        """Trains a job, in whose middle `disturb` is called with the cluster, and returns its export."""
        submitted = cluster.millrace("submit", JOB, *flags, *[a for a in self.arguments() if a != "--json"])
        self.assertEqual(submitted.returncode, 0, submitted.stderr)
        job_id = submitted.stdout.strip()
        disturbed = False
        final = None
        for event in cluster.watch(job_id):
            final = event
            if not disturbed and 0 < event.get("step", 0) < 100:
                disturbed = True
                disturb(cluster)
        self.assertTrue(disturbed, "the job ended before it could be disturbed")
        self.assertEqual(final["state"], "SUCCEEDED", final)
        self.assertEqual(final["step"], 100)
        export = self.directory / f"{name}.safetensors"
        exported = cluster.millrace("export", job_id, f"--export={export}")
        self.assertEqual(exported.returncode, 0, exported.stderr)
        return export

    def test_two_ps_and_three_workers(self):
        self.assert_equals_reference(self.train(self.directory / "2-3.safetensors", "--ps=2", "--workers=3"))

    def test_three_ps_and_four_workers(self):
        self.assert_equals_reference(self.train(self.directory / "3-4.safetensors", "--ps=3", "--workers=4"))

    def test_norms_of_variables_on_one_ps_and_on_three(self):
        norms = ["--set", "optimizer.lamb={learning_rate: 0.01}", "--set", "optimizer.clip_norm=0.5"]
        one = self.train(self.directory / "norms-1.safetensors", "--ps=1", "--workers=1", *norms)
        three = self.train(self.directory / "norms-3.safetensors", "--ps=3", "--workers=3", *norms)
        self.assertTrue(filecmp.cmp(one, three, shallow=False), f"{one} differs from {three}")
        self.assertFalse(filecmp.cmp(one, self.reference, shallow=False))

    def test_rounded_on_the_wire_on_one_ps_and_on_three(self):
        for wire in ["FLOAT16", "BFLOAT16"]:
            with self.subTest(wire):
                rounded = ["--set", f"precision.wire={wire}"]
                one = self.train(self.directory / f"{wire}-1.safetensors", "--ps=1", "--workers=1", *rounded)
                three = self.train(self.directory / f"{wire}-3.safetensors", "--ps=3", "--workers=2", *rounded)
                self.assertTrue(filecmp.cmp(one, three, shallow=False), f"{one} differs from {three}")
                self.assertFalse(filecmp.cmp(one, self.reference, shallow=False))

    def test_rounded_on_the_wire_while_a_ps_and_a_worker_are_killed(self):
        rounded = ["--set", "precision.wire=BFLOAT16"]
        undisturbed = self.train(self.directory / "undisturbed.safetensors", "--ps=1", "--workers=1", *rounded)

        def kill(cluster):
            cluster.workers[0].kill()
            cluster.ps[0].kill()
            cluster.ps[0] = cluster.start_ps(0)

        with harness.Cluster(ps=2, workers=2) as cluster:
            export = self.train_disturbed(cluster, kill, "killed", *rounded)
        self.assertTrue(filecmp.cmp(export, undisturbed, shallow=False), f"{export} differs from {undisturbed}")

    def test_ps_stopped_in_the_middle_and_started_again(self):
        def restart(cluster):
            self.assertEqual(cluster.ps[0].terminate(), 0)
            cluster.ps[0] = cluster.start_ps(0)

        with harness.Cluster(ps=2, workers=2) as cluster:
            self.assert_equals_reference(self.train_disturbed(cluster, restart, "restarted"))

    def test_backup_contributions_while_a_worker_stands_still(self):
        with harness.Cluster(ps=2, workers=3) as cluster:
            self.assert_equals_reference(self.train_disturbed(
                cluster, lambda of: of.workers[0].stop(), "backup", "--set", "synchronous.backup=2"))

    def test_worker_that_computes_otherwise_gets_no_steps(self):
        with harness.Cluster(ps=1, workers=1) as cluster:
            endless = [a for a in self.arguments(steps=1000000) if a != "--json"]
            submitted = cluster.millrace("submit", JOB, *endless)
            self.assertEqual(submitted.returncode, 0, submitted.stderr)
            job_id = submitted.stdout.strip()
            odd = None
            for event in cluster.watch(job_id):
                if odd is None and event.get("step", 0) > 0:  # Planned by the other worker.
                    odd = cluster.start("odd", [
                        "worker/worker", "--name=odd", f"--coordinator={cluster.address}", "--threads=2"])
                if "odd" in json.dumps(event) and "2 threads" in json.dumps(event):
                    cluster.millrace("cancel", job_id)
                    break
            else:
                self.fail("nobody said that the worker computes otherwise")
            self.assertIn("allow_mixed_workers", odd.log.read_text())


if __name__ == "__main__":
    harness.main()
