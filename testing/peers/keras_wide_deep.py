"""Trains the model of examples/census_wide_deep.textproto with Keras, and prints what it comes to.

    PYTHON keras_wide_deep.py DIR [EPOCHS [SEED]]

DIR holds adult.data and adult.test. Layers, optimizer, batches and columns are the example's; where that
hashes words and crosses, each word and each cross that occurs has an id of its own here.
"""

import bisect
import csv
import json
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np

NAMES = [
    "age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship", "race",
    "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country", "income"]
NUMBERS = {
    "age": (38.6, 13.6), "education_num": (10.1, 2.6), "capital_gain": (1077.6, 7385.2), "capital_loss": (87.3, 403.0),
    "hours_per_week": (40.4, 12.3)}
DEEP = ["workclass", "education", "marital_status", "occupation", "relationship", "race", "sex", "native_country"]
WIDE = ["workclass", "education", "marital_status", "occupation", "relationship", "native_country", "age_bucket"]
CROSSES = [["education", "occupation"], ["age_bucket", "education", "occupation"]]
AGES = [18, 25, 30, 35, 40, 45, 50, 55, 60, 65]


def read(path):
    with open(path) as file:
        rows = [dict(zip(NAMES, row)) for row in csv.reader(file, skipinitialspace=True) if len(row) == len(NAMES)]
    for row in rows:
        row["age_bucket"] = str(bisect.bisect_right(AGES, float(row["age"])))
    return rows


class Ids:
    """Numbers what occurs, from 0 on."""

    def __init__(self):
        self.ids = {}

    def of(self, rows, groups):
        keys = [[(tuple(group), *(row[name] for name in group)) for group in groups] for row in rows]
        return np.array([[self.ids.setdefault(key, len(self.ids)) for key in row] for row in keys])


def inputs(rows, deep, wide):
    numbers = [[(float(row[name]) - mean) / deviation for name, (mean, deviation) in NUMBERS.items()] for row in rows]
    return [
        np.array(numbers, dtype=np.float32), deep.of(rows, [[name] for name in DEEP]),
        wide.of(rows, [[name] for name in WIDE] + CROSSES)]


def labels(rows):
    return np.array([[float(row["income"].startswith(">"))] for row in rows], dtype=np.float32)


def model():
    numbers = keras.Input((len(NUMBERS),))
    deep_ids = keras.Input((len(DEEP),), dtype="int32")
    wide_ids = keras.Input((len(WIDE) + len(CROSSES),), dtype="int32")
    weights = keras.layers.Embedding(4000, 1, embeddings_initializer="zeros")(wide_ids)
    wide = keras.layers.Lambda(lambda x: keras.ops.sum(x, axis=1))(weights)
    words = keras.layers.Flatten()(keras.layers.Embedding(200, 8)(deep_ids))
    x = keras.layers.Concatenate()([words, numbers])
    x = keras.layers.Dense(64, activation="relu")(x)
    x = keras.layers.Dense(32, activation="relu")(x)
    logit = keras.layers.Add()([wide, keras.layers.Dense(1)(x)])
    return keras.Model([numbers, deep_ids, wide_ids], logit)


def main():
    directory = sys.argv[1]
    epochs = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    keras.utils.set_random_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    train, test = read(f"{directory}/adult.data"), read(f"{directory}/adult.test")
    deep, wide = Ids(), Ids()
    x, held_out = inputs(train, deep, wide), inputs(test, deep, wide)
    wide_and_deep = model()
    wide_and_deep.compile(
        keras.optimizers.Adam(0.001), keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=[keras.metrics.BinaryAccuracy(threshold=0.0), keras.metrics.AUC(num_thresholds=10000, from_logits=True)])
    wide_and_deep.fit(x, labels(train), batch_size=128, epochs=epochs, verbose=0)
    loss, accuracy, auc = wide_and_deep.evaluate(held_out, labels(test), batch_size=1024, verbose=0)
    print(json.dumps({"loss": loss, "accuracy": accuracy, "auc": auc, "wide_ids": len(wide.ids)}))


if __name__ == "__main__":
    main()
