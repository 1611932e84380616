"""What bad input gets: a message with the field's path, the value and what is allowed; never a crash."""

import contextlib
import gzip
import pathlib
import shutil
import unittest

import harness

JOB = "examples/digits.textproto"

# --set, and what the message must hold.
OVERRIDES = [
    ("batch_size=0", ["batch_size", "0"]),
    ("epochs=0", ["epochs", "0"]),
    ("optimizer.adam.learning_rate=nan", ["optimizer.adam.learning_rate", "nan"]),
    ("optimizer.adam.learning_rate=-1", ["optimizer.adam.learning_rate", "-1"]),
    ("optimizer.sgd.momentum=1.5", ["optimizer.sgd.momentum", "1.5"]),
    ("synchronous.replicas=0", ["synchronous.replicas", "0"]),
    ("placement.shards=1000000000", ["placement.shards", "1000000000"]),
    ("data.train.range.end=99999999", ["data.train.range", "99999999"]),
    ("data.train.idx.images=absent-file", ["absent-file"]),
    ("name=a/b", ["name", "a/b"]),
]

# --set that names no field, or a value that is none of the field's.
USAGE = [
    ("optimiser.adam.beta_1=0.9", ["optimiser"]),
    ("model.loss=HINGE", ["model.loss", "HINGE", "SPARSE_CATEGORICAL_CROSSENTROPY"]),
    ("batch_size=many", ["batch_size", "many"]),
    ("batch_size", ["batch_size"]),
]


class BadInputTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.directory = harness.temporary_directory()
        cls.digits = harness.make_digits(cls.directory / "digits")

    def check(self, result, code, words):
        text = result.stdout + result.stderr
        self.assertEqual(result.returncode, code, text)
        for word in words:
            self.assertIn(word, text)

    def train(self, *arguments, data=None):
        return harness.millrace("train", JOB, f"--data={data or self.digits}", *arguments)

    def test_overrides(self):
        for override, words in OVERRIDES:
            with self.subTest(override):
                self.check(self.train("--set", override), 1, words)

    def test_usage(self):
        for override, words in USAGE:
            with self.subTest(override):
                self.check(self.train("--set", override), 2, words)
        for arguments in ([], ["train"], ["train", "no-such-file.textproto"], ["train", JOB, "--no_such_flag"], ["dance"]):
            with self.subTest(arguments):
                self.check(harness.millrace(*arguments), 2, [])

    def test_job_file_with_unknown_field_names_line_and_column(self):
        job = self.directory / "bad.textproto"
        job.write_text('name: "x"\nlearning_rte: 3\n')
        self.check(harness.millrace("train", job), 1, ["bad.textproto:2:", "learning_rte"])

    def test_shapes_are_named_layer_by_layer(self):
        job = self.directory / "shapes.textproto"
        text = pathlib.Path(JOB).read_text()
        job.write_text(text.replace("flatten {}", "dropout { rate: 0.1 }"))
        self.assertNotEqual(job.read_text(), text, "the example has no flatten {} layer to take out")
        self.check(harness.millrace("train", job, f"--data={self.digits}"), 1, ["model.layers["])

    def corrupt(self, name, change):
        """A copy of the digits in which the file whose name starts with `name` is changed."""
        copy = self.directory / f"corrupt-{name}-{change.__name__}"
        shutil.copytree(self.digits, copy)
        (path,) = copy.glob(name + "*")
        content = path.read_bytes()
        plain = gzip.decompress(content) if path.suffix == ".gz" else content
        path.unlink()
        (copy / path.name.removesuffix(".gz")).write_bytes(change(bytearray(plain)))
        return copy

    def test_corrupt_files_are_named_with_their_offsets(self):
        def truncated(content):
            return content[:-1000]

        def wrong_magic(content):
            content[2] = 0x55
            return content

        def label_out_of_range(content):
            content[8 + 17] = 200
            return content

        for name, change, words in [
            ("train-images", truncated, ["train-images-idx3-ubyte", "truncated"]),
            ("train-images", wrong_magic, ["train-images-idx3-ubyte"]),
            ("train-labels", label_out_of_range, ["train-labels-idx1-ubyte", "200"]),
        ]:
            with self.subTest(change.__name__):
                self.check(self.train(data=self.corrupt(name, change)), 1, words)

    def test_a_loss_that_becomes_nan_fails_the_job_and_names_the_step(self):
        result = self.train("--json", "--set", "optimizer.sgd.learning_rate=1e30", "--set", "optimizer.sgd.momentum=0.9")
        self.assertEqual(result.returncode, 1)
        final = harness.final_state(result)
        self.assertEqual(final["state"], "FAILED")
        self.assertRegex(final["message"], r"step \d+")
        self.assertRegex(final["message"], r"nan|inf")

    def steep(self):
        """A job whose first gradient has numbers of two millions."""
        directory = self.directory / "steep"
        directory.mkdir(exist_ok=True)
        (directory / "steep.csv").write_text("x,y\n" + "1,1000000\n" * 8)
        job = directory / "job.textproto"
        job.write_text("""
            model { layers { dense { units: 1 } } loss: MEAN_SQUARED_ERROR }
            data { train { csv { files: "steep.csv" columns { name: "x" number {} } label { name: "y" number: true } } } }
            optimizer { sgd {} } asynchronous {} batch_size: 4 epochs: 1""")
        return job, directory

    def test_a_number_that_float16_cannot_hold_fails_the_job_with_one_remedy(self):
        steep, directory = self.steep()
        for what, job, data, override in [
            ("variable", JOB, self.digits, "optimizer.sgd.learning_rate=1e8"),
            ("the gradient of variable", steep, directory, "seed=1"),
        ]:
            with self.subTest(what):
                result = harness.millrace("train", job, f"--data={data}", "--json", "--set", "precision.wire=FLOAT16",
                                          "--set", override)
                self.assertEqual(result.returncode, 1)
                message = harness.final_state(result)["message"]
                self.assertRegex(message, rf"step \d+: .*element \d+ of {what} '[^']+' is [^ ]+, which FLOAT16 cannot hold: "
                                 "its numbers go to 65504; set precision.wire to BFLOAT16")
                self.assertNotIn("learning rate", message)

    def test_one_bad_job_disturbs_no_other(self):
        with harness.Cluster(ps=1, workers=1) as cluster:
            good = cluster.millrace("submit", JOB, f"--data={self.digits}", "--set", "epochs=2")
            self.assertEqual(good.returncode, 0, good.stderr)
            # Without a worker that looks at the data at once a job is taken as it is.
            with contextlib.closing(cluster.watch(good.stdout.strip())) as events:
                next(event for event in events if event.get("step", 0) > 0)
            self.check(cluster.millrace("submit", JOB, f"--data={self.digits}", "--set", "batch_size=0"), 1, ["batch_size"])
            self.check(cluster.millrace("submit", JOB, "--data=/nonexistent"), 1, ["/nonexistent"])
            bad = cluster.millrace("submit", JOB, f"--data={self.digits}", "--set", "optimizer.sgd.learning_rate=1e30")
            self.assertEqual(bad.returncode, 0, bad.stderr)
            watched = cluster.millrace("watch", good.stdout.strip(), "--json")
            self.assertEqual(harness.final_state(watched)["state"], "SUCCEEDED", watched.stderr)
            self.assertEqual(watched.returncode, 0)
            self.assertEqual(cluster.millrace("watch", bad.stdout.strip(), "--json").returncode, 1)


if __name__ == "__main__":
    harness.main()
