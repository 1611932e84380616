"""A large embedding and a layer of one unit: how fast they train here, as a multiple of Keras.

    bazel run //testing/peers:embedding_speed -- --python=/path/to/python-with-tensorflow

Runs, one after the other, again and again, for each optimizer: our embedded cluster of 2 ps servers and 2
workers, our cluster of processes (2 + 2), and Keras's Model.fit. The data are random ids. The first fifth
of each run's steps does not count.
"""

import argparse
import pathlib
import subprocess
import tempfile

import harness
import speed

JOB = """
name: "embedding"
model {
  layers { name: "table" embedding { input_dim: %(rows)d output_dim: %(width)d pooling: MEAN } }
  layers { dense { units: 1 } }
  loss: BINARY_CROSSENTROPY
}
data {
  train {
    numpy {
      features { files: "data.npz" array: "ids" }
      label { files: "data.npz" array: "labels" }
    }
  }
}
optimizer { %(optimizer)s { learning_rate: 0.01 } }
batch_size: %(batch)d
steps: %(steps)d
seed: 1
"""

MAKE_DATA = """
import sys
import numpy as np
path, rows, width, ids = sys.argv[1], *map(int, sys.argv[2:])
random = np.random.default_rng(1)
np.savez(path, ids=random.integers(0, rows, (20000, ids), dtype=np.int32),
         labels=random.integers(0, 2, 20000, dtype=np.int32), rows=rows, width=width)
"""


def processes(job, directory, steps):
    with harness.Cluster(ps=2, workers=2, ps_flags=["--arena=/dev/shm"]) as cluster:
        result = cluster.millrace("train", job, f"--data={directory}", "--json", timeout=3600)
        for process in reversed(cluster.started):
            process.terminate()
    return speed.rate_of(result, steps)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", required=True, help="one that has TensorFlow")
    parser.add_argument("--rows", type=int, default=500000)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--ids", type=int, default=20, help="of an example")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--optimizers", default="sgd,adagrad,adam")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        data = f"{directory}/data.npz"
        subprocess.run([options.python, "-c", MAKE_DATA, data, *map(str, (options.rows, options.width, options.ids))],
                       check=True)
        for optimizer in options.optimizers.split(","):
            job = pathlib.Path(directory) / "job.textproto"
            job.write_text(JOB % {**vars(options), "optimizer": optimizer})
            ours, ours_of_processes, fit = [], [], []
            for _ in range(options.runs):
                ours.append(speed.rate_of(speed.embedded(job, directory), options.steps))
                ours_of_processes.append(processes(job, directory, options.steps))
                fit.append(speed.python(options, "keras_embedding_fit.py", data, optimizer, options.steps,
                                        options.batch)["steps_per_second"])
            speed.show(f"{optimizer}: embedded, 2 + 2, and Model.fit", ours, fit)
            speed.show(f"{optimizer}: processes, 2 + 2, and Model.fit", ours_of_processes, fit)


if __name__ == "__main__":
    main()
