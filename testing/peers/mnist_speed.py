"""The network of examples/mnist_cnn.textproto: how fast it trains here, as a multiple of TensorFlow.

    bazel run //testing/peers:mnist_speed -- --python=/path/to/python-with-tensorflow --data=/path/to/mnist

Runs, one after the other, again and again: our embedded cluster of 2 ps servers and 2 workers, Keras's
Model.fit, our cluster of processes (2 + 2), and ParameterServerStrategy (2 + 2). Without evaluations and
checkpoints; the first fifth of each run's steps does not count.
"""

import argparse
import datetime
import json
import pathlib
import re
import statistics
import subprocess
import tempfile

import harness


def job_without_evaluation(steps):
    text = pathlib.Path("examples/mnist_cnn.textproto").read_text()
    text = re.sub(r"  evaluate \{.*?\n  \}\n", "", text, flags=re.DOTALL)
    text = re.sub(r"evaluation \{.*\}", "", text)
    return re.sub(r"epochs: \d+", f"steps: {steps}", text)


def seconds_of(event):
    return datetime.datetime.fromisoformat(event["time"][:26] + "+00:00").timestamp()


def rate_of(result, steps):
    """Steps a second, from the first event after a fifth of the steps to the last one."""
    if result.returncode != 0:
        raise SystemExit(result.stderr)
    events = [json.loads(line) for line in result.stdout.splitlines()]
    told = [e for e in events if e["event"] == "progress" and e["step"] >= steps // 5]
    if len(told) < 2:
        raise SystemExit(f"{steps} steps are too few: they are over within a second")
    return (told[-1]["step"] - told[0]["step"]) / (seconds_of(told[-1]) - seconds_of(told[0]))


def embedded(job, options):
    result = harness.millrace(
        "train", job, f"--data={options.data}", "--ps=2", "--workers=2", "--json", timeout=3600)
    return rate_of(result, options.steps)


def processes(job, options):
    with harness.Cluster(ps=2, workers=2, ps_flags=["--arena=/dev/shm"]) as cluster:
        result = cluster.millrace("train", job, f"--data={options.data}", "--json", timeout=3600)
        for process in reversed(cluster.started):
            process.terminate()
    return rate_of(result, options.steps)


def tensorflow(how, options):
    result = subprocess.run(
        [options.python, "testing/peers/tensorflow_mnist.py", how, str(options.steps)], capture_output=True, text=True,
        timeout=3600)
    if result.returncode != 0:
        raise SystemExit(result.stderr)
    return json.loads(result.stdout.splitlines()[-1])["steps_per_second"]


def show(name, ours, theirs):
    ratios = [a / b for a, b in zip(ours, theirs)]
    print(f"{name}: {statistics.median(ours):.1f} steps/s, TensorFlow {statistics.median(theirs):.1f}; "
          f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}, {len(ratios)} runs)", flush=True)


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
            ours.append(embedded(job, options))
            fit.append(tensorflow("fit", options))
            ours_of_processes.append(processes(job, options))
            strategy.append(tensorflow("parameter_servers", options))
            show("embedded, 2 + 2, and Model.fit", ours, fit)
            show("processes, 2 + 2, and ParameterServerStrategy", ours_of_processes, strategy)


if __name__ == "__main__":
    main()
