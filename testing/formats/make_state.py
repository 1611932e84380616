"""Keeps what a cluster of today leaves on disk, for state_test.py.

    bazel run //testing/formats:make_state -- $PWD/testing/formats/state-N.tar.gz

Files of RocksDB name the machine: give it another name meanwhile (unshare --uts). One job has ended, with a checkpoint; another one was under way when all servers were killed.
"""

import json
import pathlib
import shutil
import sys
import tarfile

import harness
import state

JOB = "testing/formats/job.textproto"
# Locks, and what RocksDB tells of itself: nobody reads them.
NOT_KEPT = ("LOG", "LOCK")


def submit(cluster, digits, name, *arguments):
    result = cluster.millrace("submit", JOB, f"--data={digits}", "--set", f"name={name}", *arguments)
    if result.returncode != 0:
        raise AssertionError(result.stderr)
    return result.stdout.strip()


def train(directory):
    digits = harness.make_digits(harness.temporary_directory(), train=64, evaluate=64)
    with harness.Cluster(ps=state.PS, workers=1, ps_flags=["--arena=off"], directory=directory) as cluster:
        ended = submit(cluster, digits, "ended", f"--checkpoints={directory}/checkpoints")
        assert list(cluster.watch(ended))[-1]["state"] == "SUCCEEDED"
        running = submit(cluster, digits, "running", "--set", "steps=0", "--set", "epochs=1000000",
                         "--set", "evaluation.every_steps=50")
        for event in cluster.watch(running):
            if event.get("step", 0) >= 100:
                break
        for process in cluster.started:
            process.kill()


def described(file):
    """A file as the archive has it: of nobody in particular. None: it is not kept."""
    if pathlib.Path(file.name).name in NOT_KEPT:
        return None
    file.uid = file.gid = 0
    file.uname = file.gname = ""
    return file


def keep(directory, path):
    copies = [harness.temporary_directory() / "state" for _ in range(2)]
    for copy in copies:
        shutil.copytree(directory, copy)
    expected, again = map(state.read, copies)
    # Where the cuts of the two shards differ, the job is cancelled before or after it has stepped back.
    assert expected == again, "what is read of this state depends on time; make another one"
    (directory / "expected.json").write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n")
    with tarfile.open(path, "w:gz") as archive:
        for name in ("coordinator", "ps-0", "ps-1", "checkpoints", "expected.json"):
            archive.add(directory / name, name, filter=described)


def main():
    if len(sys.argv) != 2 or not sys.argv[1].startswith("/"):
        sys.exit("usage: make_state /ABSOLUTE/PATH.tar.gz")
    directory = harness.temporary_directory()
    train(directory)
    keep(directory, sys.argv[1])


if __name__ == "__main__":
    main()
