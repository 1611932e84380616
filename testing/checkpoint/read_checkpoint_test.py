"""Another program reads the kept checkpoints, with docs/checkpoint-format.md and the safetensors package."""
import json
import pathlib
import shutil
import tempfile
import unittest

import numpy
import read_checkpoint

KEPT = pathlib.Path("testing/checkpoint/v1")


class ReadCheckpointTest(unittest.TestCase):
    def test_values_are_those_that_were_written(self):
        manifest, variables = read_checkpoint.read_checkpoint(KEPT)
        self.assertEqual(manifest["number"], "2")
        expected = json.loads((KEPT / "values.json").read_text())
        self.assertEqual(list(variables), list(expected))
        for variable, arrays in expected.items():
            self.assertEqual(list(variables[variable]), list(arrays))
            for name, values in arrays.items():
                found = variables[variable][name].reshape(-1)
                self.assertTrue(numpy.array_equal(found, numpy.array(values, "<f4")), (variable, name))
        self.assertEqual(variables["dense/kernel"]["values"].shape, (3, 5))
        self.assertEqual(variables["scale"]["momentum"].shape, ())

    def test_an_older_checkpoint_is_read_as_well(self):
        manifest, _ = read_checkpoint.read_checkpoint(KEPT, 1)
        self.assertEqual(manifest["number"], "1")

    def test_damage_is_found(self):
        with tempfile.TemporaryDirectory() as scratch:
            copy = pathlib.Path(scratch) / "copy"
            shutil.copytree(KEPT, copy)
            for name in ("000002/manifest.json", "000002/shard-00000.json", "000001/shard-00000.safetensors"):
                path = copy / name
                path.chmod(0o644)
                data = path.read_bytes()
                path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
                with self.assertRaises(ValueError, msg=name):
                    read_checkpoint.read_checkpoint(copy, 2)
                path.write_bytes(data)
            read_checkpoint.read_checkpoint(copy, 2)


if __name__ == "__main__":
    unittest.main()
