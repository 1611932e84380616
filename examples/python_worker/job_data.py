"""A job's examples: their files, which of them a step uses, and their fingerprint; see docs/protocol.md."""

import gzip
import pathlib
import struct

import numpy as np
import xxhash

U = np.uint64
GOLDEN = U(0x9e3779b97f4a7c15)


class DataError(Exception):
    """The job's data are not what it says; the message names the field, or the file and the place."""


class Unknown(Exception):
    """The job has what this worker does not know, and another may; the message names it, and what is known."""


def refuse_others(message, path, known):
    """Refuses fields that are set and not known: without them the examples or the model would be others."""
    for field, _ in message.ListFields():
        if field.name not in known:
            raise Unknown(f"{path}.{field.name}: set; this worker knows {', '.join(known)}")


def mix(x):
    """Of an array: numpy lets its numbers wrap around without a word."""
    x = (x ^ (x >> U(30))) * U(0xbf58476d1ce4e5b9)
    x = (x ^ (x >> U(27))) * U(0x94d049bb133111eb)
    return x ^ (x >> U(31))


def permute(positions, size, seed, epoch):
    """The examples at `positions` of an epoch; `size`: how many there are."""
    key = mix(mix(np.array([seed], U) + GOLDEN) + U(epoch))
    half = U(((size - 1).bit_length() + 1) // 2)
    mask = (U(1) << half) - U(1)
    examples = positions.copy()
    outside = np.ones(len(examples), bool)
    while outside.any():
        left, right = examples[outside] >> half, examples[outside] & mask
        k = key
        for _ in range(12):
            k = k + GOLDEN
            left, right = right, left ^ (mix(k + right) & mask)
        examples[outside] = (left << half) | right
        outside = examples >= size
    if key[0] >> U(63) and size > 1:
        examples = np.where(examples < 2, examples ^ U(1), examples)
    return examples


def examples_of_step(spec, size, step):
    """The examples of a step of the JobSpec, in order."""
    steps_per_epoch = (size - 1) // spec.batch_size + 1
    epoch, batch = divmod(step, steps_per_epoch)
    begin = batch * spec.batch_size
    positions = np.arange(begin, min(size, begin + spec.batch_size), dtype=U)
    return positions if spec.data.no_shuffle else permute(positions, size, spec.seed, epoch)


class Examples:
    """A set in memory: `features`, one row of float32 each, and `labels`; `shape` is that of one example."""

    def __init__(self, features, shape, labels, fingerprint):
        self.features, self.shape, self.labels, self.fingerprint = features, shape, labels, fingerprint

    def __len__(self):
        return len(self.labels)


def hashed(seed, data):
    return xxhash.xxh64_intdigest(data, seed)


def fingerprint_of(sets):
    """JobPlan.data_fingerprint."""
    fingerprints = [examples.fingerprint for examples in sets]
    return max(hashed(0, struct.pack(f"<{len(sets)}Q", *fingerprints)), 1)


def selected(dataset, size, field):
    """The range of a Dataset, of files with `size` examples."""
    begin, end = dataset.range.begin, dataset.range.end or size
    if not begin < end <= size:
        raise DataError(f"{field}.range: [{begin}, {end}); the files have {size} examples")
    return slice(begin, end)


def open_examples(dataset, directory, field):
    """Reads a Dataset. `field`: its path in the job, for messages."""
    refuse_others(dataset, field, ["idx", "libsvm", "range"])
    if dataset.HasField("idx"):
        refuse_others(dataset.idx, field + ".idx", ["images", "labels"])
        return open_idx(dataset, pathlib.Path(directory), field)
    refuse_others(dataset.libsvm, field + ".libsvm", ["file", "features"])
    return open_libsvm(dataset, pathlib.Path(directory), field)


def read_idx(directory, name, dimensions):
    """The sizes and the bytes of an IDX file of unsigned bytes."""
    path = directory / name
    try:
        content = path.read_bytes() if path.exists() else (directory / (name + ".gz")).read_bytes()
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
    except (OSError, EOFError) as error:
        raise DataError(f"{path}: {error}") from error
    header = 4 + 4 * dimensions
    if len(content) < header or content[:4] != bytes([0, 0, 8, dimensions]):
        raise DataError(f"{path}: no IDX file of bytes with {dimensions} dimensions")
    sizes = struct.unpack(f">{dimensions}I", content[4:header])
    if len(content) != header + np.prod(sizes, dtype=U):
        raise DataError(f"{path}: {len(content)} bytes; its header says {sizes}")
    return sizes, content[header:]


def open_idx(dataset, directory, field):
    (count, rows, columns), pixels = read_idx(directory, dataset.idx.images, 3)
    (labelled,), labels = read_idx(directory, dataset.idx.labels, 1)
    if count != labelled:
        raise DataError(f"{field}: {count} images, {labelled} labels")
    chosen = selected(dataset, count, field)
    images = np.frombuffer(pixels, np.uint8).reshape(count, rows * columns)[chosen]
    classes = np.frombuffer(labels, np.uint8)[chosen]
    fingerprint = hashed(0, struct.pack("<3Q", rows, columns, 1))
    fingerprint = hashed(hashed(fingerprint, classes.tobytes()), images.tobytes())
    features = images.astype(np.float32) / np.float32(255)
    return Examples(features, [rows, columns, 1], classes.astype(np.int32), fingerprint)


def open_libsvm(dataset, directory, field):
    path = directory / dataset.libsvm.file
    try:
        rows = [line.split("#")[0].split() for line in path.read_text().splitlines()]
        rows = [row for row in rows if row]
        entries = [[entry.split(":") for entry in row[1:]] for row in rows]
        indices = [np.array([int(index) - 1 for index, _ in row], np.uint32) for row in entries]
        values = [np.array([value for _, value in row], np.float32) for row in entries]
        labels = np.array([int(float(row[0])) for row in rows], np.int32)
    except (OSError, ValueError, OverflowError) as error:
        raise DataError(f"{path}: {error}") from error
    if any((row >= dataset.libsvm.features).any() for row in indices):
        raise DataError(f"{path}: an index above {field}.libsvm.features, {dataset.libsvm.features}")
    labels = np.maximum(labels, 0)  # A file with -1 and +1 means 0 and 1.
    chosen = selected(dataset, len(labels), field)
    indices, values, labels = indices[chosen], values[chosen], labels[chosen]
    features = np.zeros((len(labels), dataset.libsvm.features), np.float32)
    for row, where, what in zip(features, indices, values):
        row[where] = what
    begins = np.cumsum([0] + [len(row) for row in indices], dtype=U)
    fingerprint = dataset.libsvm.features
    for part in (begins, np.concatenate(indices), np.concatenate(values), labels):
        fingerprint = hashed(fingerprint, part.tobytes())
    return Examples(features, [dataset.libsvm.features], labels, fingerprint)
