"""A residual network on CIFAR-10's data_batch_1.bin: how well it has learned after some epochs, here and in Keras, from
equal initial values.

    bazel run //testing/peers:resnet_accuracy -- --python=/path/to/python-with-tensorflow --data=DIR --epochs=5 --seeds=3

DIR holds data_batch_1.bin and test_batch.bin. For each seed, Keras makes the initial values. From these train
- Keras, with Model.fit;
- our embedded cluster of 2 ps servers and 2 workers, synchronously and asynchronously;
- Keras, asynchronously: TensorFlow's ParameterServerStrategy with 2 parameter servers and 2 workers.
--runs=Keras,asynchronous leaves out the others. The orders of examples and their augmentation differ. The learning rate
goes down to 0 by a cosine: with one that stays, what comes out depends on the last steps more than on anything else.
Prints the accuracy on all of test_batch.bin, as mean and spread; of Keras's also "averaged again", with statistics of
the training images through the trained network in place of BatchNormalization's moving averages.
"""

import argparse
import pathlib
import statistics
import tempfile

import resnet_job
import speed

EXAMPLES = 10000
KERAS = {  # The name to show and the program.
    "Keras": ("Keras", "keras_resnet_fit.py"),
    "parameter_servers": ("ParameterServerStrategy", "keras_resnet_parameter_servers.py"),
}
RUNS = ["Keras", *resnet_job.MODES, "parameter_servers"]


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


def keras(program, initial, seed, options, *more):
    return speed.python(
        options, program, f"--train={options.data}/data_batch_1.bin", f"--evaluate={options.data}/test_batch.bin",
        f"--initial={initial}", f"--depth={options.depth}", f"--optimizer={options.optimizer}",
        f"--learning_rate={options.learning_rate}", f"--momentum={options.momentum}", "--decay", f"--seed={seed}", *more)


def accuracies(run, directory, initial, seed, options):
    """By the name to show each with."""
    if run in KERAS:
        name, program = KERAS[run]
        told = keras(program, initial, seed, options, f"--epochs={options.epochs}")
        return {name: told["accuracy"], f"{name}, averaged again": told["averaged_again"]["accuracy"]}
    return {run: ours(run, directory, initial, seed, options)}


def show(name, values):
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    each = ", ".join(f"{value:.3f}" for value in values)
    print(f"{name}: mean {statistics.mean(values):.3f}, standard deviation {spread:.3f} ({each})", flush=True)


def runs_of(text):
    runs = text.split(",")
    for run in runs:
        if run not in RUNS:
            raise argparse.ArgumentTypeError(f"'{run}' is none of {', '.join(RUNS)}")
    return runs


def parsed_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", required=True, help="one that has TensorFlow")
    parser.add_argument("--data", required=True)
    parser.add_argument("--runs", type=runs_of, default=RUNS, help=f"some of {','.join(RUNS)}; by default all")
    parser.add_argument("--depth", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--optimizer", choices=["sgd", "adam"], default="sgd")
    parser.add_argument("--learning_rate", type=float, default=0.1)
    parser.add_argument(
        "--momentum", type=float, default=0.9, help="of sgd; stale gradients add some to the asynchronous one's")
    parser.add_argument("--staleness_bound", type=int, help="of the asynchronous job; by default the job's own default")
    parser.add_argument("--seeds", type=int, default=3)
    return parser.parse_args()


def main():
    options = parsed_options()
    found = {}
    with tempfile.TemporaryDirectory() as directory:
        initial = f"{directory}/initial.safetensors"
        for seed in range(1, options.seeds + 1):
            keras("keras_resnet_fit.py", initial, seed, options)  # Without epochs: the initial values alone.
            for run in options.runs:
                for name, accuracy in accuracies(run, directory, initial, seed, options).items():
                    found.setdefault(name, []).append(accuracy)
            for name, values in found.items():
                show(name, values)


if __name__ == "__main__":
    main()
