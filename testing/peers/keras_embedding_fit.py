"""How fast Keras's Model.fit trains the model of embedding_speed.py; prints {"steps_per_second": ...}.

    PYTHON keras_embedding_fit.py DATA OPTIMIZER STEPS BATCH
"""

import json
import os
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np


class Clock(keras.callbacks.Callback):
    """Notes when each batch has ended."""

    def __init__(self):
        super().__init__()
        self.ends = []

    def on_train_batch_end(self, batch, logs=None):
        self.ends.append(time.monotonic())


def main():
    data, optimizer, steps, batch = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    file = np.load(data)
    ids, labels = file["ids"], file["labels"]
    model = keras.Sequential([
        keras.Input((ids.shape[1],), dtype="int32"),
        keras.layers.Embedding(int(file["rows"]), int(file["width"])),
        keras.layers.GlobalAveragePooling1D(),
        keras.layers.Dense(1)])
    made = {"sgd": keras.optimizers.SGD, "adagrad": keras.optimizers.Adagrad, "adam": keras.optimizers.Adam}[optimizer]
    model.compile(made(0.01), keras.losses.BinaryCrossentropy(from_logits=True))
    clock = Clock()
    examples = steps * batch
    repeated = np.resize(np.arange(len(ids)), examples)
    model.fit(ids[repeated], labels[repeated], batch_size=batch, verbose=0, callbacks=[clock])
    begin = steps // 5
    print(json.dumps({"steps_per_second": (steps - 1 - begin) / (clock.ends[-1] - clock.ends[begin])}))


if __name__ == "__main__":
    main()
