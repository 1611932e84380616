"""Runs the README's cluster of three real binaries, line by line as it stands there."""

import os
import pathlib
import re
import subprocess
import unittest

import harness


def cluster_commands():
    """The shell block under the README's heading on clusters."""
    readme = pathlib.Path("README.md").read_text()
    section = readme[readme.index("## A cluster"):]
    block = re.search(r"```sh\n(.*?)```", section, re.DOTALL)
    return block.group(1)


class ReadmeClusterTest(unittest.TestCase):

    def test_the_block_trains_to_a_good_accuracy(self):
        home = harness.temporary_directory()
        harness.make_digits(home / ".cache/millrace/digits", train=1500, evaluate=400)
        # In the runfiles the binaries have the paths that they have under bazel-bin.
        script = cluster_commands().replace("bazel-bin/", "")
        self.assertIn("client/millrace train", script)
        result = subprocess.run(
            ["bash", "-eu"], input=script, capture_output=True, text=True, timeout=harness.DEADLINE,
            env={**os.environ, "HOME": str(home), "TMPDIR": str(home)})
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("eval_accuracy", result.stdout + result.stderr)
        self.assertIn("SUCCEEDED", result.stdout + result.stderr)


if __name__ == "__main__":
    harness.main()
