"""The network of examples/mnist_cnn.textproto: how fast it trains here, as a multiple of TensorFlow.

    bazel run //testing/peers:mnist_speed -- --python=/path/to/python-with-tensorflow --data=/path/to/mnist

Runs, one after the other, again and again: our embedded cluster of 2 ps servers and 2 workers, Keras's
Model.fit, our cluster of processes (2 + 2), and ParameterServerStrategy (2 + 2). Without evaluations and
checkpoints; the first fifth of each run's steps does not count.
"""

import argparse
import pathlib
import re
import tempfile

import harness
import speed


def job_without_evaluation(steps):
    text = pathlib.Path("examples/mnist_cnn.textproto").read_text()
    text = re.sub(r"  evaluate \{.*?\n  \}\n", "", text, flags=re.DOTALL)
    text = re.sub(r"evaluation \{.*\}", "", text)
    return re.sub(r"epochs: \d+", f"steps: {steps}", text)


def processes(job, options):
    with harness.Cluster(ps=2, workers=2, ps_flags=["--arena=/dev/shm"]) as cluster:
        result = cluster.millrace("train", job, f"--data={options.data}", "--json", timeout=3600)
        for process in reversed(cluster.started):
            process.terminate()
    return speed.rate_of(result, options.steps)


def tensorflow(how, options):
    return speed.python(options, "tensorflow_mnist.py", how, options.steps)["steps_per_second"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", required=True, help="one that has TensorFlow")
    parser.add_argument("--data", required=True, help="the folder of MNIST's t10k files")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    ours, fit, ours_of_processes, strategy = [], [], [], []
    with tempfile.TemporaryDirectory() as directory:
        job = pathlib.Path(directory) / "job.textproto"
        job.write_text(job_without_evaluation(options.steps))
        for _ in range(options.runs):
            ours.append(speed.rate_of(speed.embedded(job, options.data), options.steps))
            fit.append(tensorflow("fit", options))
            ours_of_processes.append(processes(job, options))
            strategy.append(tensorflow("parameter_servers", options))
            speed.show("embedded, 2 + 2, and Model.fit", ours, fit)
            speed.show("processes, 2 + 2, and ParameterServerStrategy", ours_of_processes, strategy)


if __name__ == "__main__":
    main()
