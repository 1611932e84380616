"""How much of what a job pushes and pulls is hidden behind its computing: an embedded cluster of ps servers and one
worker on this machine.

    python3 gpu_overlap.py --millrace=PATH --make_digits=PATH [--device=cuda] [--precision=FLOAT32] [--job=JOB]
        [--batch=N] [--ps=N]

Trains an asynchronous job on drawn digits and takes what it says in the end of its mean step (StepTimes in
protos/events.proto): without and with asynchronous.pull_ahead. Before that, once with batches of one example, whose
pulls have next to nothing to hide behind. A worker's time is `wait`, `read`, `pull`, `forward` and `backward`, one after
the other; `push`, from the last gradient to the last acknowledgement, goes on beside the next step's. Prints a line of
JSON without and one with `pull_ahead`, which have

    computing    (forward + backward) / all: 1 if everything else is hidden behind it
    waiting      (pull + wait) / all: for values, and for a step that may be begun
    pulling      pull / all: for values alone
    pull_hidden  1 - pull / that of steps of one example: how much less a step waits for its values than one without
                 work, at least 0
    push_hidden  1 - wait / push: how much of a push passes while the worker has other work, at least 0

Pieces of a push that leave before the last gradient are hidden too, and not counted.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent / "root"


# Of the mean step of a job with such batches.
def step_times(options, batch, pull_ahead=False):
    with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")) as data:
        subprocess.run([options.make_digits, f"--out={data}", "--train=1", f"--evaluate={options.examples + 16}"], check=True,
                       stdout=subprocess.DEVNULL)
        job = pathlib.Path(data) / "job.textproto"
        text = pathlib.Path(options.job).read_text()
        job.write_text(text)
        result = subprocess.run(
            [options.millrace, "train", job, f"--data={data}", f"--ps={options.ps}", "--workers=1",
             f"--device={options.device}", "--set", f"batch_size={batch}", "--set", f"steps={options.steps}",
             "--set", f"precision.compute={options.precision}", "--set",
             f"evaluation.every_steps={options.steps}", "--set", "data.train.range.begin=0",
             "--set", f"data.train.range.end={options.examples}", "--set",
             f"data.evaluate.range.begin={options.examples}", "--set",
             f"asynchronous.pull_ahead={str(pull_ahead).lower()}", "--json"], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(result.stderr)
    return json.loads(result.stdout.splitlines()[-1])["step_times"]


# What of `whole` is not waited for.
def hidden(waited, whole):
    return max(0, 1 - waited / whole) if whole > 0 else 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--millrace", required=True)
    parser.add_argument("--make_digits", required=True)
    parser.add_argument("--job", default=str(ROOT / "examples/wide_mlp.textproto"), help="asynchronous, of digits")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", default="FLOAT32", choices=("FLOAT32", "TF32", "BFLOAT16"))
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--examples", type=int, default=8192)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--ps", type=int, default=2)
    options = parser.parse_args()
    alone = step_times(options, 1)
    for pull_ahead in (False, True):
        times = step_times(options, options.batch, pull_ahead)
        parts = sum(times[part] for part in ("wait", "read", "pull", "forward", "backward"))
        print(json.dumps({
            "what": "hidden", "job": pathlib.Path(options.job).stem, "device": options.device,
            "precision": options.precision.lower(), "batch": options.batch,
            "ps": options.ps, "pull_ahead": pull_ahead, "step_seconds": parts,
            "computing": (times["forward"] + times["backward"]) / parts,
            "waiting": (times["pull"] + times["wait"]) / parts, "pulling": times["pull"] / parts,
            "pull_hidden": hidden(times["pull"], alone["pull"]), "push_hidden": hidden(times["wait"], times["push"]),
            "step_times": times, "step_times_of_one_example": alone}), flush=True)


if __name__ == "__main__":
    main()
