"""A regression with everything that classes of pictures do not have: float labels, weights of examples, and moving
averages of a batch normalization, which ps servers keep beside what is trained."""

import array
import filecmp
import random
import unittest

import harness

JOB = """
name: "weighted-regression"
model {
  layers { name: "hidden" dense { units: 16 } }
  layers { name: "norm" batch_normalization { momentum: 0.9 } }
  layers { name: "relu" activation { function: RELU } }
  layers { name: "y" dense { units: 1 } }
  loss: MEAN_SQUARED_ERROR
  metrics: MAE
}
data {
  train {
    csv {
      files: "train.csv"
      columns { name: "a" number {} }
      columns { name: "b" number {} }
      label { name: "y" number: true }
      weight: "weight"
    }
  }
  evaluate { csv { files: "test.csv" } }
}
optimizer { adam { learning_rate: 0.01 } }
synchronous { replicas: 2 }
batch_size: 16
steps: 4000
seed: 3
evaluation { every_steps: 200 }
"""
STEPS = 4000


def write_rows(path, count, seed):
    """y = 2 a - b, with a weight; rows of weight 0 say something else, which is not to be learned."""
    values = random.Random(seed)
    with open(path, "w") as file:
        file.write("a,b,y,weight\n")
        for i in range(count):
            a, b = values.uniform(-1, 1), values.uniform(-1, 1)
            y, weight = (2 * a - b, values.uniform(0.5, 2)) if i % 4 else (100, 0)
            file.write(f"{a:.6f},{b:.6f},{y:.6f},{weight:.6f}\n")


class WeightedRegressionTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.directory = harness.temporary_directory()
        write_rows(cls.directory / "train.csv", 1000, seed=1)
        write_rows(cls.directory / "test.csv", 200, seed=2)
        cls.job = cls.directory / "job.textproto"
        cls.job.write_text(JOB)
        cls.undisturbed = cls.directory / "undisturbed.safetensors"
        result = harness.millrace(
            "train", cls.job, f"--data={cls.directory}", "--ps=1", "--workers=1", "--json",
            f"--export={cls.undisturbed}")
        assert result.returncode == 0, result.stderr
        cls.metrics = harness.final_state(result)["metrics"]

    def test_examples_without_weight_are_not_learned(self):
        # The mean over all rows: those of weight 0 count among them, and bring nothing.
        self.assertLess(self.metrics["eval_loss"], 0.05)

    def test_moving_averages_leave_their_initial_values(self):
        variables = harness.read_safetensors(self.undisturbed)
        for name, initial in (("norm/moving_mean", 0.0), ("norm/moving_variance", 1.0)):
            shape, data = variables[name]
            self.assertEqual(shape, [16])
            values = array.array("f", data)
            self.assertTrue(all(value != initial for value in values), f"{name}: {list(values)}")

    def test_a_killed_ps_that_is_started_again_changes_no_bit(self):
        with harness.Cluster(ps=2, workers=2) as cluster:
            submitted = cluster.millrace("submit", self.job, f"--data={self.directory}")
            self.assertEqual(submitted.returncode, 0, submitted.stderr)
            job_id = submitted.stdout.strip()
            killed = False
            final = None
            for event in cluster.watch(job_id):
                final = event
                if not killed and 0 < event.get("step", 0) < STEPS:
                    killed = True
                    cluster.ps[0].kill()
                    cluster.ps[0] = cluster.start_ps(0)
            self.assertTrue(killed, "the job ended before a ps could be killed")
            self.assertEqual(final["state"], "SUCCEEDED", final)
            self.assertEqual(final["step"], STEPS)
            export = self.directory / "disturbed.safetensors"
            exported = cluster.millrace("export", job_id, f"--export={export}")
            self.assertEqual(exported.returncode, 0, exported.stderr)
            self.assertTrue(filecmp.cmp(export, self.undisturbed, shallow=False))
            for name in ("eval_loss", "eval_mae"):
                self.assertEqual(final["metrics"][name], self.metrics[name], name)


if __name__ == "__main__":
    harness.main()
