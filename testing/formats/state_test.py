"""What clusters of before have left on disk is read by those of today, value for value."""

import json
import pathlib
import tarfile
import unittest

import harness
import state

KEPT = sorted(pathlib.Path("testing/formats").glob("state-*.tar.gz"))


class StateTest(unittest.TestCase):

    def test_a_state_of_before_is_gone_on_with(self):
        self.assertTrue(KEPT)
        for path in KEPT:
            with self.subTest(path.name):
                directory = harness.temporary_directory()
                with tarfile.open(path) as archive:
                    archive.extractall(directory)
                expected = json.loads((directory / "expected.json").read_text())
                self.assertEqual({job["state"] for job in expected.values() if "state" in job}, {"SUCCEEDED", "RUNNING"})
                self.assertEqual(state.read(directory), expected)


if __name__ == "__main__":
    harness.main()
