"""Floats rounded to float16 and bfloat16, which //common/wire:wire_test compares ours with.

To make encodings.txt again, as in optimizers.py:

    /tmp/venv/bin/python testing/reference/encodings.py > testing/reference/encodings.txt

NumPy rounds to float16, ml_dtypes (which TensorFlow uses) to bfloat16. A line has the bits of a float32, of the float16
and of the bfloat16 that it is rounded to, each in hexadecimal. NaN is among them only as what it is: its bits differ
between libraries.
"""

import ml_dtypes
import numpy as np

# Around the ends of float16's and bfloat16's ranges, and numbers of all sizes with endings that round up, down and to
# even.
EDGES = [0x00000000, 0x00000001, 0x007fffff, 0x00800000, 0x33000000, 0x33000001, 0x33800000, 0x33c00000, 0x387fc000,
         0x387fe000, 0x387fffff, 0x38800000, 0x477fe000, 0x477fefff, 0x477ff000, 0x47800000, 0x7f7f0000, 0x7f7f7fff,
         0x7f7f8000, 0x7f7fffff, 0x7f800000]


def table():
    random = np.random.default_rng(20240501)
    exponents = np.arange(1, 255, dtype=np.uint32) << 23
    endings = np.array([0x0fff, 0x1000, 0x1001, 0x3000, 0x7fff, 0x8000, 0x8001, 0x18000], np.uint32)
    ordinary = exponents | (random.integers(0, 1 << 7, len(exponents), np.uint32) << 16)
    return np.concatenate([np.array(EDGES, np.uint32), ordinary + random.choice(endings, len(ordinary))])


magnitudes = table()
bits = np.concatenate([magnitudes, magnitudes | np.uint32(0x80000000)])
floats = bits.view(np.float32)
with np.errstate(over="ignore"):
    halves = floats.astype(np.float16).view(np.uint16)
    brains = floats.astype(ml_dtypes.bfloat16).view(np.uint16)
for each in zip(bits, halves, brains):
    print("%08x %04x %04x" % each)
