"""Reads a checkpoint as docs/checkpoint-format.md describes it, and compares every checksum.

    read_checkpoint.py DIRECTORY [NUMBER]      prints what it has
"""
import json
import math
import pathlib
import re
import sys

import numpy
import xxhash
from safetensors import safe_open

VALUES_PATH = re.compile(r"\d{6,}/shard-\d{5,}\.safetensors")


def check(condition, path, what):
    if not condition:
        raise ValueError(f"{path}: {what}")


def check_sum(data, checksum, path, what):
    check(xxhash.xxh3_128_hexdigest(data) == checksum, path, f"damaged: {what}")


def read_manifest(directory, number=None):
    """The manifest of a checkpoint; of the newest, where no number is given."""
    if number is None:
        number = max(int(path.parent.name) for path in directory.glob("[0-9]*/manifest.json"))
    path = directory / f"{number:06d}" / "manifest.json"
    data = path.read_bytes()
    manifest = json.loads(data)
    prefix = b'{"checksum":"'
    check(data.startswith(prefix), path, "it does not begin with its checksum")
    zeroed = prefix + b"0" * 32 + data[len(prefix) + 32:]
    check_sum(zeroed, manifest["checksum"], path, "the manifest")
    check(manifest["formatVersion"] == 1, path, "another format version")
    return manifest


class ValueFile:
    """A safetensors file with values."""

    def __init__(self, directory, file):
        check(VALUES_PATH.fullmatch(file["path"]), file["path"], "not a path of a values file")
        self.path = directory / file["path"]
        check(self.path.stat().st_size == int(file["bytes"]), self.path, "of another length")
        with open(self.path, "rb") as stream:
            header = stream.read(int(file["headerBytes"]))
        check_sum(header, file["headerChecksum"], self.path, "the header")
        self.tensors = safe_open(self.path, framework="np")

    def read(self, array, length):
        begin = int(array.get("begin", 0))
        elements = self.tensors.get_tensor(array["tensor"]).reshape(-1)[begin:begin + length]
        check_sum(elements.tobytes(), array["checksum"], self.path, array["tensor"])
        return elements


def read_checkpoint(directory, number=None):
    """The manifest, and {variable: {"values": array, SLOT: array, ...}}."""
    directory = pathlib.Path(directory)
    manifest = read_manifest(directory, number)
    names = ["values"] + manifest.get("slots", [])
    shapes = {v["name"]: [int(d) for d in v.get("shape", [])] for v in manifest["plan"]["variables"]}
    flat = {v: {name: numpy.zeros(math.prod(shape), "<f4") for name in names}
            for v, shape in shapes.items()}
    missing = {v: math.prod(shape) for v, shape in shapes.items()}
    for shard in manifest["shards"]:
        path = directory / shard["record"]
        data = path.read_bytes()
        check_sum(data, shard["recordChecksum"], path, "the record")
        record = json.loads(data)
        files = [ValueFile(directory, file) for file in record["files"]]
        for block in record["blocks"]:
            offset, length = int(block.get("offset", 0)), block["length"]
            for name, array in zip(names, block["arrays"]):
                elements = files[array.get("file", 0)].read(array, length)
                flat[block["variable"]][name][offset:offset + length] = elements
            missing[block["variable"]] -= length
    check(not any(missing.values()), directory, f"elements are missing: {missing}")
    return manifest, {v: {name: values.reshape(shapes[v]) for name, values in arrays.items()}
                      for v, arrays in flat.items()}


if __name__ == "__main__":
    manifest, variables = read_checkpoint(sys.argv[1], *map(int, sys.argv[2:]))
    print(f"step {manifest.get('step', 0)} of job {manifest['jobId']}")
    for variable, arrays in variables.items():
        print(variable, arrays["values"].shape, *arrays)
