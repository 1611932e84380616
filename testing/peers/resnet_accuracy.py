"""A residual network on CIFAR-10's data_batch_1.bin: how well it has learned after some epochs, here and in Keras, from
equal initial values.

    bazel run //testing/peers:resnet_accuracy -- --python=/path/to/python-with-tensorflow --data=DIR --epochs=5 --seeds=3

DIR holds data_batch_1.bin and test_batch.bin. For each seed, Keras makes the initial values and trains with Model.fit;
then our embedded cluster of 2 ps servers and 2 workers does, synchronously and asynchronously, from these values. The
orders of examples and their augmentation differ. The learning rate goes down to 0 by a cosine: with one that stays, what
comes out depends on the last steps more than on anything else. Prints the accuracy on all of test_batch.bin, as mean
and spread.
"""

import argparse
import pathlib
import statistics
import tempfile

import resnet_job
import speed

EXAMPLES = 10000


def ours(mode, directory, initial, seed, options):
    batches = EXAMPLES // resnet_job.BATCH * options.epochs
    steps = resnet_job.steps_of(mode, batches)
    more = f'evaluation {{ every_steps: {steps} }}\nwarm_start {{ path: "{initial}" }}'
    job = pathlib.Path(directory) / f"{mode}.textproto"
    job.write_text(resnet_job.text(
        mode, batches, options.depth, options.optimizer, options.learning_rate, seed, momentum=options.momentum,
        decay=True, staleness_bound=options.staleness_bound, more=more))
    told = speed.events_of(speed.embedded(job, options.data))
    return told[-1]["metrics"]["eval_accuracy"]


def keras(initial, seed, options):
    return speed.python(
        options, "keras_resnet_fit.py", f"--train={options.data}/data_batch_1.bin",
        f"--evaluate={options.data}/test_batch.bin", f"--initial={initial}", f"--depth={options.depth}",
        f"--epochs={options.epochs}", f"--optimizer={options.optimizer}", f"--learning_rate={options.learning_rate}",
        f"--momentum={options.momentum}", "--decay", f"--seed={seed}")["accuracy"]


def show(name, values):
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    each = ", ".join(f"{value:.3f}" for value in values)
    print(f"{name}: mean {statistics.mean(values):.3f}, standard deviation {spread:.3f} ({each})", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", required=True, help="one that has TensorFlow")
    parser.add_argument("--data", required=True)
    parser.add_argument("--depth", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--optimizer", choices=["sgd", "adam"], default="sgd")
    parser.add_argument("--learning_rate", type=float, default=0.1)
    parser.add_argument(
        "--momentum", type=float, default=0.9, help="of sgd; stale gradients add some to the asynchronous one's")
    parser.add_argument("--staleness_bound", type=int, help="of the asynchronous job; by default the job's own default")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    accuracies = {"Keras": [], **{mode: [] for mode in resnet_job.MODES}}
    with tempfile.TemporaryDirectory() as directory:
        initial = f"{directory}/initial.safetensors"
        for seed in range(1, options.seeds + 1):
            accuracies["Keras"].append(keras(initial, seed, options))
            for mode in resnet_job.MODES:
                accuracies[mode].append(ours(mode, directory, initial, seed, options))
            for name, values in accuracies.items():
                show(name, values)


if __name__ == "__main__":
    main()
