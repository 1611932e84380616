"""How much memory a worker takes for a residual network on CIFAR-10, beside what `millrace summary` says before.

    bazel run //testing/benchmarks:worker_memory -- --data=DIR

DIR holds data_batch_1.bin. A cluster of processes, with one worker, trains the network of examples/resnet.py of depth
56 with batches of 128, without evaluations, for a few steps. Counted is the largest resident size (VmHWM) of the worker,
less what it had before the job and less the files of its data.
"""

import argparse
import pathlib
import re
import subprocess
import tempfile

import harness

MIB = 1024 * 1024


def job(options):
    """The network as examples/resnet.py writes it."""
    text = subprocess.run(
        ["python3", "examples/resnet.py", f"--depth={options.depth}"], check=True, capture_output=True, text=True).stdout
    model = re.search(r"^model \{.*?^\}$", text, re.DOTALL | re.MULTILINE).group(0)
    return model + f"""
data {{ train {{ cifar {{ files: "data_batch_1.bin" }} augmentation {{ crop_padding: 4 horizontal_flip: true }} }} }}
optimizer {{ sgd {{ learning_rate: 0.1 momentum: 0.9 }} }}
synchronous {{ replicas: 1 }}
batch_size: {options.batch}
steps: {options.steps}
"""


def told(path, options):
    """MiB beside the data, as `millrace summary` says."""
    result = harness.millrace("summary", path, f"--data={options.data}")
    return int(re.search(r"memory of a worker +([\d,]+) MiB", result.stdout).group(1).replace(",", ""))


def largest_size(process):
    status = pathlib.Path(f"/proc/{process.process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) * 1024 / MIB


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--depth", type=int, default=56)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--steps", type=int, default=5)
    options = parser.parse_args()
    files = (pathlib.Path(options.data) / "data_batch_1.bin").stat().st_size / MIB
    with tempfile.TemporaryDirectory() as directory, harness.Cluster(ps=1, workers=1) as cluster:
        path = pathlib.Path(directory) / "job.textproto"
        path.write_text(job(options))
        before = largest_size(cluster.workers[0])
        result = cluster.millrace("train", path, f"--data={options.data}", "--json", timeout=3600)
        if result.returncode != 0:
            raise SystemExit(result.stderr)
        taken = largest_size(cluster.workers[0]) - before - files
        said = told(path, options)
        for process in reversed(cluster.started):
            process.terminate()
    print(f"said before: {said} MiB; taken: {taken:.0f} MiB beside {before:.0f} MiB before the job and {files:.0f} MiB of "
          f"data; {taken / said:.2f} of what was said")


if __name__ == "__main__":
    main()
