"""Another program reads the kept checkpoints, with docs/checkpoint-format.md and the safetensors package."""
import json
import pathlib
import shutil
import tempfile
import unittest

import numpy
import read_checkpoint
import xxhash

KEPT = pathlib.Path("testing/checkpoint/v1")


class ReadCheckpointTest(unittest.TestCase):
    def setUp(self):
        """A copy: Bazel gives a test links to its files."""
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.kept = pathlib.Path(scratch.name) / "kept"
        shutil.copytree(KEPT, self.kept)

    def test_values_are_those_that_were_written(self):
        manifest, variables = read_checkpoint.read_checkpoint(self.kept)
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
        manifest, _ = read_checkpoint.read_checkpoint(self.kept, 1)
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

    def test_hostile_records_are_refused(self):
        with tempfile.TemporaryDirectory() as scratch:
            copy = pathlib.Path(scratch) / "copy"
            shutil.copytree(KEPT, copy)
            for path in copy.rglob("*"):
                path.chmod(0o755)

            def change(edit):
                """Writes the record of shard 0 anew, with the checksums that belong to it."""
                record = json.loads((KEPT / "000002/shard-00000.json").read_bytes())
                manifest = json.loads((KEPT / "000002/manifest.json").read_bytes())
                edit(record, manifest)
                data = json.dumps(record).encode()
                (copy / "000002/shard-00000.json").write_bytes(data)
                manifest["shards"][0]["recordChecksum"] = xxhash.xxh3_128_hexdigest(data)
                manifest["checksum"] = "0" * 32
                text = json.dumps(manifest, separators=(",", ":"))
                sum = xxhash.xxh3_128_hexdigest(text.encode())
                (copy / "000002/manifest.json").write_text(text.replace("0" * 32, sum, 1))

            def twice(record, manifest):
                record["blocks"].append(record["blocks"][0])

            def outside(record, manifest):
                record["files"][0]["path"] = "000001/../../shard-00000.safetensors"

            def newer(record, manifest):
                record["files"][0]["path"] = "000003/shard-00000.safetensors"

            def elsewhere(record, manifest):
                manifest["shards"][0]["record"] = "../copy/000002/shard-00000.json"

            def nothing(record, manifest):
                record.pop("files")
                record.pop("blocks")

            for edit in (twice, outside, newer, elsewhere, nothing):
                change(edit)
                with self.assertRaises(ValueError, msg=edit.__name__):
                    read_checkpoint.read_checkpoint(copy, 2)
            change(lambda record, manifest: None)
            read_checkpoint.read_checkpoint(copy, 2)
            record = copy / "000002/shard-00000.json"
            record.rename(copy / "aside")
            record.symlink_to(copy / "aside")
            with self.assertRaises(ValueError):
                read_checkpoint.read_checkpoint(copy, 2)


if __name__ == "__main__":
    unittest.main()
