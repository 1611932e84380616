"""What docs/protocol.md says, computed from that page alone, and compared with what our binaries compute.

    python3 testing/reference/protocol.py VALUES

VALUES is the output of //testing/reference:protocol_values: lines of a kind, its arguments and what C++ made of
them. Plain Python, without any library, so that nothing is taken over by accident.
"""

import math
import struct
import sys

MASK = (1 << 64) - 1
MASK32 = (1 << 32) - 1
GOLDEN = 0x9e3779b97f4a7c15


def mix(x):
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9 & MASK
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb & MASK
    return x ^ (x >> 31)


def split(x):
    return mix((x + GOLDEN) & MASK)


def mix32(x):
    x = (x ^ (x >> 16)) * 0x7feb352d & MASK32
    x = (x ^ (x >> 15)) * 0x846ca68b & MASK32
    return x ^ (x >> 16)


def float32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def bits(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def permute(n, seed, epoch, p):
    key = mix((split(seed) + epoch) & MASK)
    h = ((n - 1).bit_length() + 1) // 2
    while True:
        left, right = p >> h, p % 2**h
        k = key
        for _ in range(12):
            k = (k + GOLDEN) & MASK
            left, right = right, left ^ (mix((k + right) & MASK) % 2**h)
        p = left * 2**h + right
        if p < n:
            break
    return 1 - p if key >> 63 and n > 1 and p < 2 else p


def examples(n, batch, seed, step):
    steps = (n - 1) // batch + 1
    epoch, b = step // steps, step % steps
    return [permute(n, seed, epoch, p) for p in range(b * batch, min(n, (b + 1) * batch))]


def dropped(rate, seed, step, layer, row, elements):
    threshold = min(int(rate * 2**32 + 0.5), MASK32)
    key = split((split((split(split(split(seed) ^ step)) + layer) & MASK) + row) & MASK)
    return [
        int(mix32(mix32((i + key % 2**32) & MASK32) ^ (key >> 32)) < threshold)
        for i in range(elements)
    ]


def changed_picture(height, width, padding, flip, seed, step, row):
    """Of a picture whose pixels are numbered from 1; 0: none of them."""
    key = split((split((split(split(split(seed) ^ step)) + 2**32) & MASK) + row) & MASK)
    top = (split(key) >> 32) * (2 * padding + 1) >> 32
    left = (split((key + 1) & MASK) >> 32) * (2 * padding + 1) >> 32
    mirrored = flip and split((key + 2) & MASK) >> 63 == 1
    pixels = []
    for y in range(height):
        for x in range(width):
            a = y + top - padding
            b = (width - 1 - x if mirrored else x) + left - padding
            pixels.append(a * width + b + 1 if 0 <= a < height and 0 <= b < width else 0)
    return pixels


def philox(key, low, high):
    x0, x1, x2, x3 = low & MASK32, low >> 32, high & MASK32, high >> 32
    k0, k1 = key & MASK32, key >> 32
    for _ in range(10):
        a, b = 0xd2511f53 * x0, 0xcd9e8d57 * x2
        x0, x1, x2, x3 = (b >> 32) ^ x1 ^ k0, b & MASK32, (a >> 32) ^ x3 ^ k1, a & MASK32
        k0, k1 = (k0 + 0x9e3779b9) & MASK32, (k1 + 0xbb67ae85) & MASK32
    return x0, x1, x2, x3


def hash_name(name):
    h = 0xcbf29ce484222325
    for byte in name.encode():
        h = (h ^ byte) * 0x100000001b3 & MASK
    return h


def uniform(low, high, seed, name, i):
    value = float32(low + (high - low) * (philox(seed, i, hash_name(name))[0] / 2**32))
    if value < high:
        return value
    # The float32 before `high`, which is positive in the values compared.
    return struct.unpack("<f", struct.pack("<I", bits(high) - 1))[0]


def exponential(y):
    x, s = y / 4, 1.0
    for k in range(10, 0, -1):
        s = 1 + (x * (1 / k)) * s
    return (s * s) * (s * s)


def truncated_normal(stddev, seed, name, i):
    draw = 0
    while True:
        words = philox(seed, i, (hash_name(name) + draw) & MASK)
        for first, second in (words[:2], words[2:]):
            z = (first - 2**32 if first >> 31 else first) / 2**30
            if second / 2**32 * exponential(z * z / 2) < 1:
                return float32(stddev * z)
        draw += 1


def xxh64(seed, data):
    primes = (0, 0x9e3779b185ebca87, 0xc2b2ae3d27d4eb4f, 0x165667b19e3779f9, 0x85ebca77c2b2ae63, 0x27d4eb2f165667c5)

    def rotate(x, by):
        return (x << by | x >> (64 - by)) & MASK

    def lane_round(lane, word):
        return rotate((lane + word * primes[2]) & MASK, 31) * primes[1] & MASK

    rest = data
    if len(data) >= 32:
        lanes = [(seed + primes[1] + primes[2]) & MASK, (seed + primes[2]) & MASK, seed, (seed - primes[1]) & MASK]
        while len(rest) >= 32:
            lanes = [lane_round(lane, word) for lane, word in zip(lanes, struct.unpack("<4Q", rest[:32]))]
            rest = rest[32:]
        h = sum(rotate(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18))) & MASK
        for lane in lanes:
            h = ((h ^ lane_round(0, lane)) * primes[1] + primes[4]) & MASK
    else:
        h = (seed + primes[5]) & MASK
    h = (h + len(data)) & MASK
    while len(rest) >= 8:
        h = (rotate(h ^ lane_round(0, struct.unpack("<Q", rest[:8])[0]), 27) * primes[1] + primes[4]) & MASK
        rest = rest[8:]
    if len(rest) >= 4:
        h = (rotate(h ^ struct.unpack("<I", rest[:4])[0] * primes[1] & MASK, 23) * primes[2] + primes[3]) & MASK
        rest = rest[4:]
    for byte in rest:
        h = rotate(h ^ byte * primes[5] & MASK, 11) * primes[1] & MASK
    h = (h ^ (h >> 33)) * primes[2] & MASK
    h = (h ^ (h >> 29)) * primes[3] & MASK
    return h ^ (h >> 32)


def idx_fingerprint(rows, columns, labels, pixels):
    return xxh64(xxh64(xxh64(0, struct.pack("<3Q", rows, columns, 1)), labels), pixels)


def libsvm_fingerprint(features, examples_):
    """`examples_`: (label, [(index from 0, value), ...])."""
    begins = [0]
    for _, entries in examples_:
        begins.append(begins[-1] + len(entries))
    entries = [entry for _, row in examples_ for entry in row]
    labels = [max(label, 0) for label, _ in examples_]
    h = xxh64(features, struct.pack(f"<{len(begins)}Q", *begins))
    h = xxh64(h, struct.pack(f"<{len(entries)}I", *(index for index, _ in entries)))
    h = xxh64(h, struct.pack(f"<{len(entries)}f", *(value for _, value in entries)))
    return xxh64(h, struct.pack(f"<{len(labels)}i", *labels))


def csv_fingerprint(columns, labels, weights, numbers=()):
    """`columns`: (ids, values); `ids` 0: float32, else ids of 32 bits. `numbers`: of a second label."""
    h = xxh64(0, struct.pack(f"<{len(columns)}Q", *(ids for ids, _ in columns)))
    for ids, values in columns:
        h = xxh64(h, struct.pack(f"<{len(values)}{'i' if ids else 'f'}", *values))
    h = xxh64(h, struct.pack(f"<{len(labels)}i", *labels))
    if numbers:
        h = xxh64(h, struct.pack(f"<{len(numbers)}f", *numbers))
    return xxh64(h, struct.pack(f"<{len(weights)}f", *weights))


def hash_texts(texts, buckets):
    h = 0
    for text in texts:
        h = xxh64(h, text.encode())
    return h % buckets


def held_out(fraction, seed, n):
    return [i for i in range(n) if (split((split(seed) + i) & MASK) >> 11) * 2**-53 < fraction]


def fingerprint(features, labels, examples_):
    """`features`, `labels`: (type, dimensions); `examples_`: lists of the values of each, as bytes."""
    shapes = [len(features), len(labels)]
    for type_, dimensions in features + labels:
        shapes += [type_, len(dimensions), *dimensions]
    h = xxh64(0, struct.pack(f"<{len(shapes)}Q", *shapes))
    for example in examples_:
        for values in example:
            h = xxh64(h, values)
    return h


def cifar_fingerprint(examples_):
    """`examples_`: (labels, 3072 bytes, colour after colour)."""
    values = []
    for labels, planes in examples_:
        pixels = [planes[colour * 1024 + i] / 255 for i in range(1024) for colour in range(3)]
        values.append([struct.pack("<3072f", *pixels), *(struct.pack("<q", label) for label in labels)])
    return fingerprint([(0, [32, 32, 3])], [(1, [])] * len(examples_[0][0]), values)


def numpy_fingerprint(rows, labels, rows_too=False):
    """A feature of floats that are divided by 3, and a label of ids; `rows_too`: and one of the floats as they are."""
    values = [[struct.pack(f"<{len(row)}f", *(float32(float32(x) / 3) for x in row)), struct.pack("<q", label)]
              for row, label in zip(rows, labels)]
    if not rows_too:
        return fingerprint([(0, [len(rows[0])])], [(1, [])], values)
    for value, row in zip(values, rows):
        value.append(struct.pack(f"<{len(row)}f", *row))
    return fingerprint([(0, [len(rows[0])])], [(1, []), (0, [len(rows[0])])], values)


def resized(rows, height, width):
    """Grey pixels, as bytes."""

    def between(size, new_size, i):
        at = float32(float32(float32(i + 0.5) * float32(size / new_size)) - 0.5)
        lower, upper = math.floor(at), math.ceil(at)
        return max(lower, 0), min(max(upper, 0), size - 1), float32(at - lower)

    def mix(a, b, weight):
        return float32(a + float32(float32(b - a) * weight))

    pixels = []
    for y in range(height):
        a, b, v = between(len(rows), height, y)
        for x in range(width):
            c, d, u = between(len(rows[0]), width, x)
            value = mix(mix(rows[a][c], rows[a][d], u), mix(rows[b][c], rows[b][d], u), v)
            pixels.append(math.floor(float32(value + 0.5)))
    return bytes(pixels)


def image_folder_fingerprint(shape, classes, labels, pixels):
    h = xxh64(0, struct.pack("<4Q", *shape, classes))
    return xxh64(xxh64(h, struct.pack(f"<{len(labels)}i", *labels)), pixels)


def plan_fingerprint(sets):
    return max(xxh64(0, struct.pack(f"<{len(sets)}Q", *sets)), 1)


# The data that //testing/reference:protocol_values writes: 5 images of 3x2, a LIBSVM file, 2 images of CIFAR-10, one of
# CIFAR-100 (fine label, then coarse), and 3 rows of 2 float64 with labels.
IMAGES = dict(rows=3, columns=2, labels=bytes([3, 1, 4, 1, 5]), pixels=bytes(i * 37 % 256 for i in range(30)))
ROWS = [(-1, [(0, 0.5), (4, -2.25)]), (1, []), (1, [(1, 0.0), (2, 3.0)])]
CIFAR = [([3], bytes(i * 37 % 256 for i in range(3072))), ([9], bytes(i * 41 % 256 for i in range(3072)))]
CIFAR_100 = [([99, 19], bytes(i * 43 % 256 for i in range(3072)))]
NUMPY = [[0.1, -2.5], [1e10, 0.0], [7.0, 1 / 3]], [2, 0, 5]

TABLE = dict(
    columns=[
        (0, [(x - 1.5) / 4 for x in (2.0, -7.25, 3.0)]),
        (3, [0, 1, 2]),
        (1000, [hash_texts([word], 1000) for word in ("red", "blue", "a, long \"word\" of more than 32 bytes")]),
        (99, [hash_texts(texts, 99) for texts in (("red", "1"), ("blue", "0"), ("a, long \"word\" of more than 32 bytes", "2"))]),
    ],
    labels=[1, 0, 4],
    weights=[1.0, 0.5, 2.0],
)


def expected(kind, arguments):
    """What a line of VALUES should say, as a list of numbers."""
    if kind == "examples":
        return examples(*map(int, arguments))
    if kind == "dropped":
        rate, *numbers = arguments
        return dropped(float(rate), *map(int, numbers))
    if kind == "changed":
        return changed_picture(*map(int, arguments))
    if kind == "uniform":
        low, high, seed, name, i = arguments
        return [bits(uniform(float(low), float(high), int(seed), name, int(i)))]
    if kind == "truncated_normal":
        stddev, seed, name, i = arguments
        return [bits(truncated_normal(float32(float(stddev)), int(seed), name, int(i)))]
    if kind == "idx":
        return [idx_fingerprint(**IMAGES)]
    if kind == "idx_range":  # Examples 1 to 3.
        return [idx_fingerprint(3, 2, IMAGES["labels"][1:4], IMAGES["pixels"][6:24])]
    if kind == "libsvm":
        return [libsvm_fingerprint(5, ROWS)]
    if kind == "csv":
        return [csv_fingerprint(**TABLE)]
    if kind == "csv_labels":
        return [csv_fingerprint(**TABLE, numbers=[2.0, -7.25, 3.0])]
    if kind == "held_out":
        fraction, seed, n = arguments
        return held_out(float(fraction), int(seed), int(n))
    if kind == "libsvm_part":  # Of the range [1, 3), the part that seed 7 and fraction 0.5 do not hold out.
        held = held_out(0.5, 7, 3)
        return [libsvm_fingerprint(5, [ROWS[i] for i in (1, 2) if i not in held])]
    if kind == "cifar":
        return [cifar_fingerprint(CIFAR)]
    if kind == "numpy":
        return [numpy_fingerprint(*NUMPY)]
    if kind == "cifar_labels":
        return [cifar_fingerprint(CIFAR_100)]
    if kind == "numpy_labels":
        return [numpy_fingerprint(*NUMPY, rows_too=True)]
    if kind == "image_folder":
        pixels = resized([[0, 50, 255], [200, 7, 90]], 3, 2)
        return [image_folder_fingerprint((3, 2, 1), 2, [1], pixels)]
    if kind == "plan":
        return [plan_fingerprint([idx_fingerprint(**IMAGES), libsvm_fingerprint(5, ROWS)])]
    raise ValueError(f"no such kind: {kind}")


def main():
    with open(sys.argv[1], encoding="utf-8") as values:
        lines = [line.split() for line in values]
    wrong = 0
    for words in lines:
        at = words.index("=")
        kind, arguments, computed = words[0], words[1:at], list(map(int, words[at + 1:]))
        by_the_page = expected(kind, arguments)
        if computed != by_the_page:
            wrong += 1
            print(f"{kind} {arguments}: C++ has {computed[:8]}, docs/protocol.md says {by_the_page[:8]}")
    kinds = {words[0] for words in lines}
    print(f"{len(lines)} values of {len(kinds)} kinds, {wrong} differ")
    return 0 if wrong == 0 and len(kinds) == 18 else 1


if __name__ == "__main__":
    sys.exit(main())
