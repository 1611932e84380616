"""What checkpoints cost a job whose workers compute: its steps a second while one is written, as a share of
those in between.

    bazel run //testing/benchmarks:checkpoint_training -- --mebibytes=2048

A cluster of processes trains a network of dense layers, of that size with Adam's slots. The time of a
checkpoint is that of its event: from its beginning, the wait for its cut included, to its end.
"""

import argparse
import datetime
import json
import math
import tempfile

import harness

JOB = """
name: "checkpoint_training"
model {{
  layers {{ flatten {{}} }}
  layers {{ dense {{ units: {units} activation: RELU }} }}
  layers {{ dense {{ units: {units} activation: RELU }} }}
  layers {{ dense {{ units: 10 }} }}
  loss: SPARSE_CATEGORICAL_CROSSENTROPY
}}
data {{ train {{ idx {{ images: "train-images-idx3-ubyte" labels: "train-labels-idx1-ubyte" }} }} }}
optimizer {{ adam {{ learning_rate: 0.0002 }} }}
asynchronous {{ staleness_bound: 4 }}
batch_size: 16
steps: {steps}
seed: 1
checkpoints {{ every_steps: {every} keep: 1 }}
"""
PIXELS = 28 * 28
FLOATS = 3  # A variable's element and Adam's two slots.


def units_for(mebibytes):
    """The width of two layers whose state has about that size."""
    parameters = mebibytes * 2**20 / 4 / FLOATS
    return round((math.sqrt(PIXELS**2 + 4 * parameters) - PIXELS) / 2)


def seconds_of(event):
    return datetime.datetime.fromisoformat(event["time"][:26] + "+00:00").timestamp()


def steps_at(progress, second):
    """Interpolated between two events of progress."""
    for (before, steps), (after, more) in zip(progress, progress[1:]):
        if before <= second <= after:
            return steps + (more - steps) * (second - before) / (after - before)
    return progress[0][1] if second < progress[0][0] else progress[-1][1]


def report(events, warm_up):
    """Of the steps from `warm_up` on; the checkpoint of the job's end counts for nothing."""
    progress = [(seconds_of(e), e["step"]) for e in events if e["event"] == "progress" and e["step"] >= warm_up]
    written = [e for e in events if e["event"] == "checkpoint" and e["cause"].startswith("every")]
    windows = [(seconds_of(e) - e["seconds"], seconds_of(e)) for e in written]
    busy_steps = sum(steps_at(progress, end) - steps_at(progress, begin) for begin, end in windows)
    busy_time = sum(end - begin for begin, end in windows)
    calm_steps = progress[-1][1] - progress[0][1] - busy_steps
    calm_time = progress[-1][0] - progress[0][0] - busy_time
    for event in written:
        print(f"checkpoint of {event['bytes_written'] / 2**20:.0f} MiB: {event['seconds']:.1f} s, held up training for "
              f"{event['held_up_seconds']:.3f} s, extra memory {event['extra_memory'] / 2**20:.1f} MiB")
    print(f"{calm_steps / calm_time:.3f} steps/s in {calm_time:.0f} s without, {busy_steps / busy_time:.3f} in {busy_time:.0f} s "
          f"with a checkpoint")
    print(f"throughput while writing  {busy_steps / busy_time / (calm_steps / calm_time):.2f} of that without")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mebibytes", type=int, default=2048, help="size of a checkpoint")
    parser.add_argument("--checkpoints", type=int, default=3)
    parser.add_argument("--every", type=int, default=40, help="steps")
    parser.add_argument("--arena", default="/dev/shm", help="the ps server's")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, harness.Cluster(
            workers=2, ps_flags=[f"--arena={options.arena}"]) as cluster:
        harness.make_digits(f"{directory}/data")
        steps = options.every * (options.checkpoints + 1)
        with open(f"{directory}/job.textproto", "w") as job:
            job.write(JOB.format(units=units_for(options.mebibytes), steps=steps, every=options.every))
        result = cluster.millrace(
            "train", f"{directory}/job.textproto", f"--data={directory}/data", f"--checkpoints={directory}/checkpoints",
            "--json", timeout=3600)
        if result.returncode != 0:
            raise SystemExit(result.stderr)
        report([json.loads(line) for line in result.stdout.splitlines()], warm_up=options.every // 2)
        for process in reversed(cluster.started):  # So that the arena goes.
            process.terminate()


if __name__ == "__main__":
    main()
