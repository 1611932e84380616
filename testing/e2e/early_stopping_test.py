"""A job that ends where evaluations get no better, with the state of the best one kept, on real processes."""

import filecmp
import unittest

import harness

JOB = "examples/digits.textproto"
EVALUATE_EVERY = 50
STEPS = 600
# Nothing gets better by that much: the third evaluation is the second that is no better.
STOPPING = "evaluation.early_stopping={patience: 2 min_delta: 100}"
END = 3 * EVALUATE_EVERY


class EarlyStoppingTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.directory = harness.temporary_directory()
        cls.digits = harness.make_digits(cls.directory / "digits", train=1500, evaluate=400)

    def train(self, cluster, name, disturb=None):
        """Trains on a cluster, and calls disturb() when the job has said that it stops. Returns its status."""
        submitted = cluster.millrace(
            "submit", JOB, f"--data={self.digits}", f"--checkpoints={self.directory / name}", "--set", f"steps={STEPS}",
            "--set", f"evaluation.every_steps={EVALUATE_EVERY}", "--set", STOPPING, "--set", "evaluation.keep_best={}",
            "--set", "checkpoints.keep=1", "--set", "synchronous.replicas=2")
        self.assertEqual(submitted.returncode, 0, submitted.stderr)
        job_id = submitted.stdout.strip()
        final = None
        for event in cluster.watch(job_id):
            final = event
            if disturb and event["event"] == "notice" and event["message"].startswith("stopped early"):
                disturb()
                disturb = None
        self.assertEqual(final["state"], "SUCCEEDED", final)
        self.assertEqual((final["step"], final["total_steps"]), (END, END))
        self.assertIn(f"stopped early at step {END} of {STEPS}: eval_loss has not been below", final["message"])
        self.assertEqual(final["stopped_early"]["step"], END)
        return job_id, final

    def export(self, cluster, job_id, path, *flags):
        exported = cluster.millrace("export", job_id, f"--to={path}", *flags)
        self.assertEqual(exported.returncode, 0, exported.stderr)
        return path

    def test_a_coordinator_that_is_killed_after_the_decision_changes_nothing(self):
        with harness.Cluster(ps=2, workers=2) as cluster:
            job_id, calm = self.train(cluster, "calm")
            last = self.export(cluster, job_id, self.directory / "last.safetensors")
            best = self.export(cluster, job_id, self.directory / "best.safetensors", "--best")

        with harness.Cluster(ps=2, workers=2) as cluster:
            def kill():
                cluster.coordinator.kill()
                cluster.coordinator = cluster.start_coordinator()

            job_id, disturbed = self.train(cluster, "disturbed", kill)
            self.assertEqual(disturbed["best"], calm["best"])
            # All that there was is still there when everybody has been killed once more.
            kill()
            for i in range(2):
                cluster.ps[i].kill()
                cluster.ps[i] = cluster.start_ps(i)
            again = self.export(cluster, job_id, self.directory / "again.safetensors")
            best_again = self.export(cluster, job_id, self.directory / "best_again.safetensors", "--best")
        self.assertTrue(filecmp.cmp(last, again, shallow=False))
        self.assertTrue(filecmp.cmp(best, best_again, shallow=False))

    def test_what_is_exported_is_what_was_evaluated(self):
        best = self.directory / "evaluated.safetensors"
        trained = harness.millrace(
            "train", JOB, f"--data={self.digits}", f"--export={best}", "--best", "--json", "--set", "steps=200",
            "--set", "evaluation={every_steps: 50 keep_best {metric: 'eval_accuracy'}}")
        self.assertEqual(trained.returncode, 0, trained.stderr)
        told = harness.final_state(trained)["best"]
        self.assertEqual(told["metric"], "eval_accuracy")
        # One step that changes nothing, and an evaluation.
        evaluated = harness.millrace(
            "train", JOB, f"--data={self.digits}", f"--init_from={best}", "--json", "--set", "steps=1",
            "--set", "optimizer.adam.learning_rate=1e-30")
        self.assertEqual(evaluated.returncode, 0, evaluated.stderr)
        self.assertEqual(harness.final_state(evaluated)["metrics"]["eval_accuracy"], told["value"])


if __name__ == "__main__":
    harness.main()
