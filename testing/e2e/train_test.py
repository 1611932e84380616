"""`millrace train` as a newcomer runs it: a whole cluster in one process."""

import subprocess
import unittest

import harness


class TrainTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.directory = harness.temporary_directory()
        cls.digits = harness.make_digits(cls.directory / "digits", train=1500, evaluate=400)

    def test_digits_are_learned_and_exported(self):
        export = self.directory / "digits.safetensors"
        result = harness.millrace("train", "examples/digits.textproto", f"--data={self.digits}", "--json", f"--export={export}", "--set", "epochs=12")
        self.assertEqual(result.returncode, 0, result.stderr)
        final = harness.final_state(result)
        self.assertEqual(final["state"], "SUCCEEDED")
        self.assertGreater(final["metrics"]["eval_accuracy"], 0.8)
        self.assertGreater(final["step"], 0)
        for name, (shape, data) in harness.read_safetensors(export).items():
            elements = 1
            for dimension in shape:
                elements *= dimension
            self.assertEqual(len(data), 4 * elements, name)

    def test_every_line_on_stdout_is_json_and_progress_is_in_order(self):
        result = harness.millrace("train", "examples/digits.textproto", f"--data={self.digits}", "--json", "--set", "epochs=1")
        self.assertEqual(result.returncode, 0, result.stderr)
        import json
        events = [json.loads(line) for line in result.stdout.splitlines()]
        self.assertGreater(len(events), 1)
        steps = [event["step"] for event in events if "step" in event]
        self.assertEqual(steps, sorted(steps))

    def test_several_outputs_report_by_their_names_and_a_confusion_matrix_at_the_end(self):
        # The first dense layer is asked for the digit as well.
        with open("examples/digits.textproto") as file:
            job = file.read()
        outputs = """
          outputs { loss: SPARSE_CATEGORICAL_CROSSENTROPY metrics { metric: ACCURACY } metrics { metric: CONFUSION_MATRIX } }
          outputs { layer: "dense_5" loss: SPARSE_CATEGORICAL_CROSSENTROPY weight: 0.5 metrics { metric: TOP_K_ACCURACY k: 3 } }
        """
        job = job.replace("activation: RELU } }\n  layers { dense { units: 10", "} }\n  layers { dense { units: 10")
        path = self.directory / "outputs.textproto"
        path.write_text(job.replace("  loss: SPARSE_CATEGORICAL_CROSSENTROPY\n  metrics: ACCURACY\n", outputs))
        result = harness.millrace("train", str(path), f"--data={self.digits}", "--json", "--set", "epochs=3")
        self.assertEqual(result.returncode, 0, result.stderr)
        metrics = harness.final_state(result)["metrics"]
        self.assertAlmostEqual(metrics["eval_loss"], metrics["eval_dense_6_loss"] + 0.5 * metrics["eval_dense_5_loss"])
        self.assertGreater(metrics["eval_dense_6_accuracy"], 0.5)
        self.assertGreater(metrics["eval_dense_5_top_3_accuracy"], 0.5)
        self.assertIn("dense_5_top_3_accuracy", metrics)
        import json
        events = [json.loads(line) for line in result.stdout.splitlines()]
        last = [event for event in events if event["event"] == "evaluated"][-1]
        counts = last["confusion_matrices"][0]["counts"]
        self.assertEqual(last["confusion_matrices"][0]["output"], "dense_6")
        self.assertEqual(sum(map(sum, counts)), 400)
        self.assertAlmostEqual(sum(counts[i][i] for i in range(10)) / 400, metrics["eval_dense_6_accuracy"])

    def test_plain_lines_go_to_people_without_a_terminal(self):
        result = harness.millrace("train", "examples/digits.textproto", f"--data={self.digits}", "--set", "epochs=1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("eval_accuracy", result.stdout + result.stderr)
        self.assertNotIn("\r", result.stdout + result.stderr)

    def test_ctrl_c_ends_an_embedded_job_with_130(self):
        import signal
        process = subprocess.Popen(
            [harness.MILLRACE, "train", "examples/digits.textproto", f"--data={self.digits}", "--json", "--set", "epochs=100000"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        process.stdout.readline()  # The cluster is up: the first event is there.
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        self.assertEqual(process.wait(timeout=harness.DEADLINE), 130)
        process.stdout.close()


if __name__ == "__main__":
    harness.main()
