"""Small data files that NumPy and TensorFlow write, for the tests of the readers (worker/input).

    python3 testing/reference/data_files.py FOLDER      (needs tensorflow; the files were made with 2.21)

What is in them follows from the number i of an example: see the functions below, and the tests.
"""

import os
import sys

import numpy as np

EXAMPLES = 5


def floats(i):
    return [i + 0.25, -i / 8, 3.0]


def words(i):
    return list(range(i % 3))


def image(i):
    return bytes((i * 50 + j) % 256 for j in range(4))


def write_numpy(folder):
    rows = np.arange(24, dtype=np.float32).reshape(4, 3, 2) - 5
    for name, array in {
            "f2": rows.astype("<f2") / 16,
            "f4": rows,
            "f8": rows.astype("<f8"),
            "f4_big": rows.astype(">f4"),
            "f4_fortran": np.asfortranarray(rows),
            "i8": np.array([3, 0, 2, 7], "<i8"),
            "i4_big": np.array([3, 0, 2, 7], ">i4"),
            "u1": np.arange(8, dtype=np.uint8).reshape(4, 2) * 36,
            "bool": np.array([True, False, False, True]),
            "u8": np.array([3, 0, 2, 7], "<u8"),
    }.items():
        np.save(os.path.join(folder, name + ".npy"), array)
    for version in (2, 3):
        with open(os.path.join(folder, f"version_{version}.npy"), "wb") as file:
            np.lib.format.write_array(file, rows, version=(version, 0))
    labels = np.array([3, 0, 2, 7], "<i8")
    np.savez(os.path.join(folder, "stored.npz"), x=rows, y=labels)
    zeros = np.zeros((1000, 500), np.uint8)
    np.savez_compressed(os.path.join(folder, "bomb.npz"), x=zeros)
    np.savez_compressed(os.path.join(folder, "bomb_fortran.npz"), x=np.asfortranarray(zeros))
    np.savez_compressed(os.path.join(folder, "deflated.npz"), x=np.asfortranarray(rows), y=labels)


def write_records(folder):
    import tensorflow as tf

    def feature(**kind):
        (name, values), = kind.items()
        lists = {"float": tf.train.FloatList, "int64": tf.train.Int64List, "bytes": tf.train.BytesList}
        return tf.train.Feature(**{name + "_list": lists[name](value=values)})

    for name, compression in (("plain.tfrecord", ""), ("compressed.tfrecord", "GZIP")):
        with tf.io.TFRecordWriter(os.path.join(folder, name), tf.io.TFRecordOptions(compression)) as writer:
            for i in range(EXAMPLES):
                features = {
                    "floats": feature(float=floats(i)),
                    "words": feature(int64=words(i)),
                    "image": feature(bytes=[image(i)]),
                    "label": feature(int64=[i * i % 7]),
                }
                if i != 2:
                    features["sometimes"] = feature(int64=[10 + i])
                example = tf.train.Example(features=tf.train.Features(feature=features))
                writer.write(example.SerializeToString(deterministic=True))


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    write_numpy(sys.argv[1])
    write_records(sys.argv[1])
