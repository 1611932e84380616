"""A residual network on CIFAR-10, here and in Keras, from equal initial values and in the same order of examples: the
losses of the first steps, one beside the other, and how fast both are. Keras is run once more with another number of
threads: what rounding alone does to its own losses is the yardstick.

    bazel run //testing/peers:resnet_losses -- --python=/path/to/python-with-tensorflow --data=DIR

DIR holds data_batch_1.bin and test_batch.bin. Losses of training batches are compared as means over the steps between
two events of progress, which come about once a second.
"""

import argparse
import json
import pathlib
import re
import subprocess
import tempfile

import harness

DATA = """
data {
  train { cifar { files: "data_batch_1.bin" } }
  evaluate { cifar { files: "test_batch.bin" } range { end: 256 } }
  no_shuffle: true
}
"""


def job(options, initial):
    """The network as examples/resnet.py writes it, without augmentation, in one replica."""
    text = subprocess.run(
        ["python3", "examples/resnet.py", f"--depth={options.depth}"], check=True, capture_output=True, text=True).stdout
    model = re.search(r"^model \{.*?^\}$", text, re.DOTALL | re.MULTILINE).group(0)
    return model + DATA + f"""
optimizer {{ sgd {{ learning_rate: {options.learning_rate} momentum: 0.9 }} }}
synchronous {{ replicas: 1 }}
batch_size: {options.batch}
steps: {options.steps}
warm_start {{ path: "{initial}" }}
"""


def ours(options, directory, initial):
    path = pathlib.Path(directory) / "job.textproto"
    path.write_text(job(options, initial))
    result = harness.millrace(
        "train", path, f"--data={options.data}", "--ps=2", "--workers=1", "--json", timeout=7200)
    if result.returncode != 0:
        raise SystemExit(result.stderr)
    return [json.loads(line) for line in result.stdout.splitlines()]


def keras(options, initial, threads):
    result = subprocess.run(
        [options.python, "testing/peers/keras_resnet.py", f"--train={options.data}/data_batch_1.bin",
         f"--evaluate={options.data}/test_batch.bin", f"--initial={initial}", f"--depth={options.depth}",
         f"--steps={options.steps}", f"--batch={options.batch}", f"--learning_rate={options.learning_rate}",
         f"--threads={threads}"], capture_output=True, text=True, timeout=7200)
    if result.returncode != 0:
        raise SystemExit(result.stderr)
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]


def mean_loss(lines, steps):
    return sum(lines[step]["loss"] for step in steps) / len(steps)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", required=True, help="one that has TensorFlow")
    parser.add_argument("--data", required=True)
    parser.add_argument("--depth", type=int, default=20)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--learning_rate", type=float, default=0.1)
    parser.add_argument("--threads", type=int, default=1, help="of Keras")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        initial = f"{directory}/initial.safetensors"
        theirs = keras(options, initial, options.threads)
        again = keras(options, f"{directory}/again.safetensors", options.threads + 1)
        events = ours(options, directory, initial)
    worst, worst_of_keras, done = 0.0, 0.0, 0
    for event in events:
        if event["event"] != "progress" or event["step"] <= done:
            continue
        steps = range(done, event["step"])
        done = event["step"]
        keras_mean, again_mean = mean_loss(theirs, steps), mean_loss(again, steps)
        mine = event["metrics"]["loss"]
        error, error_of_keras = (abs(loss - keras_mean) / keras_mean for loss in (mine, again_mean))
        worst, worst_of_keras = max(worst, error), max(worst_of_keras, error_of_keras)
        print(f"steps {steps[0]:3} to {steps[-1]:3}: {mine:.6f} here, {keras_mean:.6f} in Keras, {error:.1e} apart; "
              f"Keras from itself {error_of_keras:.1e}")
    seconds = sorted(line["seconds"] for line in theirs[1:])
    step = events[-1]["step_times"]
    print(f"the largest distance: {worst:.1e}; of Keras with {options.threads} and {options.threads + 1} threads: "
          f"{worst_of_keras:.1e}")
    print(f"a step: {seconds[len(seconds) // 2]:.3f} s in Keras with {options.threads} threads (median), "
          f"{step['forward'] + step['backward']:.3f} s of computing here with one")


if __name__ == "__main__":
    main()
