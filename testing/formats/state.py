"""What a cluster has left on disk, and what its jobs' variables are: for make_state.py and state_test.py."""

import hashlib
import json
import pathlib

import harness

PS = 2


def variables(path):
    """{name: SHA-256 of shape and values} of a safetensors file."""
    return {name: hashlib.sha256(repr(shape).encode() + values).hexdigest()
            for name, (shape, values) in harness.read_safetensors(path).items()}


def export(command, *arguments):
    """The variables that `command` exports; it is a Cluster's millrace, or the harness's."""
    path = harness.temporary_directory() / "variables.safetensors"
    result = command(*arguments, "--to", path)
    if result.returncode != 0:
        raise AssertionError(result.stderr)
    return variables(path)


def read(directory):
    """What is in the directory: by the name of each job its state and its variables, once it has been cancelled if it
    ran; and the variables of the checkpoint."""
    found = {}
    with harness.Cluster(ps=PS, workers=0, directory=pathlib.Path(directory)) as cluster:
        jobs = [json.loads(line) for line in cluster.millrace("list", "--json").stdout.splitlines()]
        for job in jobs:
            if job["state"] not in ("SUCCEEDED", "FAILED", "CANCELLED"):
                cancelled = cluster.millrace("cancel", job["job_id"])
                if cancelled.returncode != 0:
                    raise AssertionError(cancelled.stderr)
            found[job["name"]] = {"state": job["state"], "variables": export(cluster.millrace, "export", job["job_id"])}
    checkpoints = f"{directory}/checkpoints"
    verified = harness.millrace("checkpoints", "verify", checkpoints)
    if verified.returncode != 0:
        raise AssertionError(verified.stderr)
    found["checkpoint"] = export(harness.millrace, "checkpoints", "export", checkpoints, "--slots")
    return found
