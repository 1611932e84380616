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
  %(shared)s
  layers { dense { units: 4 activation: RELU } }
  layers { dense { units: 1 } }
  loss: BINARY_CROSSENTROPY
}
data { train { %(data)s } }
optimizer { %(optimizer)s }
%(mode)s
batch_size: %(batch)d
steps: %(steps)d
seed: 7
"""

WORDS = """
  csv {
    files: "words.csv"
    columns { name: "a" feature: "words" hash { buckets: 3000 } as_id: true }
    columns { name: "b" feature: "words" hash { buckets: 3000 } as_id: true }
    columns { name: "c" feature: "next" hash { buckets: 3000 } as_id: true }
    label { name: "y" }
  }
"""
# Of any length: the longest need more rows than there is room for at first.
LISTS = """
  tfrecord {
    files: "lists.tfrecord"
    features { key: "words" type: INT64 ragged: true }
    label { key: "y" type: INT64 }
  }
"""

# One that takes the same table.
SHARED = """
  layers { name: "next-word" inputs: "next" variables_of: "word"
           embedding { input_dim: %(rows)d output_dim: 8 pooling: SUM } }
  layers { inputs: "word" inputs: "next-word" concatenate {} }
"""


def masked_crc32c(data):
    """Of a record: github.com/google/crc32c's polynomial, masked as the format of TFRecord says."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def varint(number):
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(encoded + bytes([number]))


def field(number, content):
    """A field of a message, of bytes."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def record(**lists):
    """A tf.train.Example of lists of whole numbers."""
    features = b""
    for name, numbers in lists.items():
        int64_list = field(3, field(1, b"".join(map(varint, numbers))))
        features += field(1, field(1, name.encode()) + field(2, int64_list))
    example = field(1, features)
    length = struct.pack("<Q", len(example))
    return length + struct.pack("<I", masked_crc32c(length)) + example + struct.pack("<I", masked_crc32c(example))


class TableRowsTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.directory = harness.temporary_directory()
        random_numbers = random.Random(1)
        rows = ["a,b,c,y"]
        for _ in range(400):
            a, b = random_numbers.randrange(500), random_numbers.randrange(500)
            rows.append(f"w{a},w{b},w{random_numbers.randrange(500)},{(a + b) % 2}")
        (cls.directory / "words.csv").write_text("\n".join(rows) + "\n")
        lists = b""
        for i in range(200):
            words = random_numbers.sample(range(6000), random_numbers.randrange(100 if i % 10 == 0 else 20))
            lists += record(words=words, y=[len(words) % 2])
        (cls.directory / "lists.tfrecord").write_bytes(lists)

    def write_job(self, rows, optimizer, mode="synchronous { replicas: 2 }", shared="", data=WORDS, batch=32, steps=60):
        path = self.directory / f"job-{rows}.textproto"
        path.write_text(JOB % {"rows": rows, "optimizer": optimizer, "mode": mode, "shared": shared % {"rows": rows},
                               "data": data, "batch": batch, "steps": steps})
        return path

    def train(self, rows, optimizer, *arguments, **job):
        export = self.directory / f"{rows}.safetensors"
        result = harness.millrace("train", self.write_job(rows, optimizer, **job), "--json",
                                  f"--data={self.directory}", f"--export={export}", *arguments)
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

    def test_bits_of_a_table_that_two_layers_share(self):
        for mode in ["synchronous { replicas: 2 }", "asynchronous { staleness_bound: 0 }"]:
            with self.subTest(mode):
                job = {"mode": mode, "shared": SHARED}
                whole = self.train(LARGE - 1, "adagrad {}", "--ps=2", "--workers=1", **job)
                self.assert_same(self.train(LARGE, "adagrad {}", "--ps=2", "--workers=1", **job), whole)

    def test_bits_of_lists_that_need_more_room_than_is_likely(self):
        for mode in ["synchronous { replicas: 2 }", "asynchronous { staleness_bound: 0 }"]:
            with self.subTest(mode):
                job = {"mode": mode, "data": LISTS, "batch": 4, "steps": 120}
                whole = self.train(LARGE - 1, "adagrad {}", "--ps=2", "--workers=1", **job)
                self.assert_same(self.train(LARGE, "adagrad {}", "--ps=2", "--workers=1", **job), whole)

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
