"""A large embedding's rows travel by themselves, and nothing shows it but the time.

The tables of two jobs differ by the one row, which no id has, that makes a table large enough to travel by
rows: so one job pulls and pushes rows and the other whole tables, and all other rows must be the same, bit
for bit.
"""

import random
import struct
import unittest

import harness

WIDTH = 8
LARGE = 8192  # Rows of the smallest table that travels by rows; with one less it does not.
ROW = 4 * WIDTH

JOB = """
name: "table-rows"
model {
  layers { name: "word" inputs: "words" embedding { input_dim: %(rows)d output_dim: 8 pooling: MEAN } }
  layers { dense { units: 4 activation: RELU } }
  layers { dense { units: 1 } }
  loss: BINARY_CROSSENTROPY
}
data {
  train {
    csv {
      files: "words.csv"
      columns { name: "a" feature: "words" hash { buckets: 3000 } as_id: true }
      columns { name: "b" feature: "words" hash { buckets: 3000 } as_id: true }
      label { name: "y" }
    }
  }
}
optimizer { %(optimizer)s }
%(mode)s
batch_size: 32
steps: 60
seed: 7
"""


class TableRowsTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.directory = harness.temporary_directory()
        random_numbers = random.Random(1)
        rows = ["a,b,y"]
        for _ in range(400):
            a, b = random_numbers.randrange(500), random_numbers.randrange(500)
            rows.append(f"w{a},w{b},{(a + b) % 2}")
        (cls.directory / "words.csv").write_text("\n".join(rows) + "\n")

    def write_job(self, rows, optimizer, mode="synchronous { replicas: 2 }"):
        path = self.directory / f"job-{rows}.textproto"
        path.write_text(JOB % {"rows": rows, "optimizer": optimizer, "mode": mode})
        return path

    def train(self, rows, optimizer, *arguments, mode="synchronous { replicas: 2 }"):
        export = self.directory / f"{rows}.safetensors"
        result = harness.millrace("train", self.write_job(rows, optimizer, mode), "--json", f"--data={self.directory}",
                                  f"--export={export}", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return harness.read_safetensors(export)

    def assert_same(self, by_rows, whole):
        self.assertEqual(by_rows.keys(), whole.keys())
        for name, (shape, values) in whole.items():
            if name == "word/embeddings":
                self.assertEqual(by_rows[name][0], [LARGE, WIDTH])
                self.assertEqual(shape, [LARGE - 1, WIDTH])
                self.assertEqual(by_rows[name][1][:(LARGE - 1) * ROW], values, name)
            else:
                self.assertEqual(by_rows[name], (shape, values), name)

    def test_synchronous_bits_are_those_of_whole_tables(self):
        for optimizer in ["sgd { learning_rate: 0.5 }", "adam {}", "adagrad {} global_clip_norm: 0.05"]:
            with self.subTest(optimizer):
                whole = self.train(LARGE - 1, optimizer, "--ps=1", "--workers=1")
                self.assert_same(self.train(LARGE, optimizer, "--ps=1", "--workers=1"), whole)
                self.assert_same(self.train(LARGE, optimizer, "--ps=3", "--workers=3"), whole)

    def test_rounded_on_the_wire(self):
        rounded = ["--set", "precision.wire=BFLOAT16", "--ps=2", "--workers=2"]
        whole = self.train(LARGE - 1, "adagrad {}", *rounded)
        self.assert_same(self.train(LARGE, "adagrad {}", *rounded), whole)

    # One worker that has one step at a time: so an asynchronous job has one order, too.
    def test_asynchronous_bits_are_those_of_whole_tables(self):
        mode = "asynchronous { staleness_bound: 0 }"
        for optimizer in ["sgd { learning_rate: 0.5 }", "adagrad {}", "adagrad {} global_clip_norm: 0.05",
                          "sgd { learning_rate: 0.5 momentum: 0.9 }", "sgd { learning_rate: 0.5 } clip_norm: 0.01"]:
            with self.subTest(optimizer):
                whole = self.train(LARGE - 1, optimizer, "--ps=2", "--workers=1", mode=mode)
                self.assert_same(self.train(LARGE, optimizer, "--ps=2", "--workers=1", mode=mode), whole)

    def test_values_are_pulled_ahead(self):
        result = self.train(LARGE, "adagrad {}", "--ps=2", "--workers=2", mode="asynchronous { pull_ahead: true }")
        unused = result["word/embeddings"][1][6000 * ROW:]
        low, high = -0.05, 0.05
        for (value,) in struct.iter_unpack("<f", unused):
            self.assertTrue(low <= value <= high, "a row that no id has has changed")

    def test_ps_and_worker_are_killed(self):
        optimizer = "adagrad {}"
        whole = self.train(LARGE - 1, optimizer, "--ps=1", "--workers=1", "--set", "steps=400")
        job = self.write_job(LARGE, optimizer)
        with harness.Cluster(ps=2, workers=2) as cluster:
            submitted = cluster.millrace("submit", job, f"--data={self.directory}", "--set", "steps=400",
                                         "--set", "name=killed")
            self.assertEqual(submitted.returncode, 0, submitted.stderr)
            job_id = submitted.stdout.strip()
            killed = False
            for event in cluster.watch(job_id):
                final = event
                if not killed and event.get("step", 0) > 0:
                    killed = True
                    cluster.workers[0].kill()
                    cluster.ps[0].kill()
                    cluster.ps[0] = cluster.start_ps(0)
            self.assertTrue(killed, "the job ended before anything could be killed")
            self.assertEqual(final["state"], "SUCCEEDED", final)
            export = self.directory / "killed.safetensors"
            exported = cluster.millrace("export", job_id, f"--export={export}")
            self.assertEqual(exported.returncode, 0, exported.stderr)
        self.assert_same(harness.read_safetensors(export), whole)


if __name__ == "__main__":
    harness.main()
