"""read_checkpoint.py DIRECTORY [NUMBER]: reads a checkpoint as docs/checkpoint-format.md says, every checksum too."""
import json
import math
import pathlib
import re
import sys

import numpy
import xxhash
from safetensors import safe_open

SHARD_FILE = re.compile(r"([0-9]{6,})/shard-[0-9]{5,}\.(json|safetensors)")


def check(condition, path, what):
    if not condition:
        raise ValueError(f"{path}: {what}")


def check_sum(data, checksum, path, what):
    check(xxhash.xxh3_128_hexdigest(data) == checksum, path, f"damaged: {what}")


def regular(path):
    check(path.is_file() and not path.is_symlink() and not path.parent.is_symlink(), path, "no regular file")
    return path


def shard_file(directory, name, kind, newest):
    """What a manifest or a record names, which must be in the directory."""
    match = SHARD_FILE.fullmatch(name)
    check(match and match[2] == kind and int(match[1]) <= newest, repr(name), f"no path of a {kind} file")
    return regular(directory / name)


def read_manifest(directory, number=None):
    """The manifest of a checkpoint; of the newest, where no number is given."""
    if number is None:
        number = max(int(path.parent.name) for path in directory.glob("[0-9]*/manifest.json"))
    data = (path := regular(directory / f"{number:06d}" / "manifest.json")).read_bytes()
    manifest = json.loads(data)
    prefix = b'{"checksum":"'
    check(data.startswith(prefix), path, "it does not begin with its checksum")
    check_sum(prefix + b"0" * 32 + data[len(prefix) + 32:], manifest["checksum"], path, "the manifest")
    check(manifest["formatVersion"] == 1, path, "another format version")
    check(manifest["number"] == str(number), path, "another number")
    return manifest


class ValueFile:
    """A safetensors file with values."""
    def __init__(self, path, file):
        self.path = path
        check(path.stat().st_size == int(file["bytes"]), path, "of another length")
        with open(path, "rb") as stream:
            check_sum(stream.read(int(file["headerBytes"])), file["headerChecksum"], path, "the header")
        self.tensors = safe_open(path, framework="np")

    def read(self, array, length):
        begin = int(array.get("begin", 0))
        elements = self.tensors.get_tensor(array["tensor"]).reshape(-1)[begin:begin + length]
        check(len(elements) == length, self.path, f"{array['tensor']} is too short")
        check_sum(elements.tobytes(), array["checksum"], self.path, array["tensor"])
        return elements


def read_checkpoint(directory, number=None):
    """The manifest, and {variable: {"values": array, SLOT: array, ...}}."""
    directory = pathlib.Path(directory)
    manifest = read_manifest(directory, number)
    newest, names = int(manifest["number"]), ["values"] + manifest.get("slots", [])
    shapes = {v["name"]: [int(d) for d in v.get("shape", [])] for v in manifest["plan"].get("variables", [])}
    flat = {v: {n: numpy.zeros(math.prod(shape), "<f4") for n in names} for v, shape in shapes.items()}
    missing = {v: numpy.ones(math.prod(shape), bool) for v, shape in shapes.items()}
    for shard in manifest.get("shards", []):
        data = (path := shard_file(directory, shard["record"], "json", newest)).read_bytes()
        check_sum(data, shard["recordChecksum"], path, "the record")
        record = json.loads(data)
        files = [ValueFile(shard_file(directory, file["path"], "safetensors", newest), file)
                 for file in record.get("files", [])]
        for block in record.get("blocks", []):
            variable, offset, length = block["variable"], int(block.get("offset", 0)), block["length"]
            new = missing[variable][offset:offset + length]
            check(len(new) == length and new.all(), path, f"elements of {variable} are there twice, or too many")
            new[:] = False
            for name, array in zip(names, block["arrays"]):
                flat[variable][name][offset:offset + length] = files[array.get("file", 0)].read(array, length)
    for variable, elements in missing.items():
        check(not elements.any(), directory, f"elements of {variable} are missing")
    return manifest, {v: {name: values.reshape(shapes[v]) for name, values in arrays.items()}
                      for v, arrays in flat.items()}


if __name__ == "__main__":
    manifest, variables = read_checkpoint(sys.argv[1], *map(int, sys.argv[2:]))
    print(f"step {manifest.get('step', 0)} of job {manifest['jobId']}")
    for variable, arrays in variables.items():
        print(variable, arrays["values"].shape, *arrays)
