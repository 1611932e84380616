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
        result = harness.millrace("train", "examples/digits.textproto", f"--data={self.digits}", "--json", f"--export={export}")
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
