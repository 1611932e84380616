"""Makes resize.txt: pictures, and what tf.image.resize makes of them.

    python3 testing/reference/resize.py > testing/reference/resize.txt

Made with TensorFlow 2.21. Each case is three lines: height, width, channels, new height, new width; the bytes;
the bytes of the result, which is rounded to whole numbers, halves up.
"""

import numpy as np
import tensorflow as tf

CASES = [
    (1, 1, 1, 3, 2),
    (2, 3, 1, 2, 3),
    (3, 2, 3, 5, 7),
    (7, 5, 3, 3, 2),
    (4, 9, 1, 8, 3),
    (16, 13, 3, 10, 11),
    (5, 6, 1, 1, 1),
]


def main():
    rng = np.random.default_rng(20240901)
    for height, width, channels, new_height, new_width in CASES:
        image = rng.integers(0, 256, (height, width, channels), dtype=np.uint8)
        resized = tf.image.resize(image, (new_height, new_width), method="bilinear", antialias=False).numpy()
        resized = np.floor(resized + np.float32(0.5)).astype(np.uint8)
        print(height, width, channels, new_height, new_width)
        print(*image.ravel())
        print(*resized.ravel())


if __name__ == "__main__":
    main()
