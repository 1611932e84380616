"""What the programs that compare speeds share."""

import datetime
import json
import statistics
import subprocess

import harness


def seconds_of(event):
    return datetime.datetime.fromisoformat(event["time"][:26] + "+00:00").timestamp()


def events_of(result):
    """Those that a run with --json printed."""
    if result.returncode != 0:
        raise SystemExit(result.stderr)
    return [json.loads(line) for line in result.stdout.splitlines()]


def rate_of(result, steps):
    """Steps a second, from the first event after a fifth of the steps to the last one."""
    told = [e for e in events_of(result) if e["event"] == "progress" and e["step"] >= steps // 5]
    if len(told) < 2:
        raise SystemExit(f"{steps} steps are too few: they are over within a second")
    return (told[-1]["step"] - told[0]["step"]) / (seconds_of(told[-1]) - seconds_of(told[0]))


def embedded(job, data):
    """Trains a job on an embedded cluster of 2 ps servers and 2 workers."""
    return harness.millrace("train", job, f"--data={data}", "--ps=2", "--workers=2", "--json", timeout=7200)


def python(options, program, *arguments):
    """The last line, as JSON, that a program of this folder prints in the Python with TensorFlow."""
    result = subprocess.run(
        [options.python, f"testing/peers/{program}", *map(str, arguments)], capture_output=True, text=True, timeout=7200)
    if result.returncode != 0:
        raise SystemExit(result.stderr)
    return json.loads(result.stdout.splitlines()[-1])


def show(name, ours, theirs, unit="steps/s"):
    ratios = [a / b for a, b in zip(ours, theirs)]
    print(f"{name}: {statistics.median(ours):.2f} {unit}, TensorFlow {statistics.median(theirs):.2f}; "
          f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}, {len(ratios)} runs)", flush=True)
