"""A residual network on CIFAR-10: how fast it trains here, as a multiple of Keras.

    bazel run //testing/peers:resnet_speed -- --python=/path/to/python-with-tensorflow --data=DIR

DIR holds data_batch_1.bin. Runs, one after the other, again and again: our embedded cluster of 2 ps servers and 2
workers, synchronously (2 replicas of 64 examples) and asynchronously (128 examples a step), and Keras's Model.fit with
two threads and 128 examples a step. All augment their images, moved by up to 4 pixels and mirrored; --plain: none does.
What is compared is how often a second 128 examples are trained on. Without evaluations; the first fifth of each run's
steps does not count.
"""

import argparse
import pathlib
import tempfile

import resnet_job
import speed


def ours(mode, directory, options):
    job = pathlib.Path(directory) / f"{mode}.textproto"
    job.write_text(resnet_job.text(mode, options.steps, options.depth, augmented=not options.plain))
    steps = resnet_job.steps_of(mode, options.steps)
    rate = speed.rate_of(speed.embedded(job, options.data), steps)
    return rate * options.steps / steps


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", required=True, help="one that has TensorFlow")
    parser.add_argument("--data", required=True)
    parser.add_argument("--depth", type=int, default=20)
    parser.add_argument("--steps", type=int, default=150, help="of 128 examples")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--plain", action="store_true", help="without augmentation")
    options = parser.parse_args()
    rates = {mode: [] for mode in resnet_job.MODES}
    fit = []
    with tempfile.TemporaryDirectory() as directory:
        for _ in range(options.runs):
            for mode, measured in rates.items():
                measured.append(ours(mode, directory, options))
            fit.append(speed.python(
                options, "keras_resnet_fit.py", f"--train={options.data}/data_batch_1.bin", f"--depth={options.depth}",
                f"--steps={options.steps}", *(["--plain"] if options.plain else []))["steps_per_second"])
            for mode, measured in rates.items():
                speed.show(f"{mode}, 2 + 2, and Model.fit", measured, fit, "steps/s of 128 examples")


if __name__ == "__main__":
    main()
