"""A ps whose disk is full: training goes on, somebody says so, and cuts are written again when there is room."""

import contextlib
import ctypes
import os
import subprocess
import time
import unittest

import chaos
import harness

STEPS = 6000
SIZES = (300000, 200000)  # 2 MB, in two shards.
DISK = "64m"
CLONE_NEWNS = 0x20000  # <sched.h>


def hide_mounts():
    """What is mounted from now on is there for this process and its children alone, and goes with them.

    Others that saw it could not make sandboxes meanwhile, whose folders must have nothing mounted in them.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        return os.strerror(ctypes.get_errno())
    return run_mount("--make-rprivate", "/")


def run_mount(*arguments):
    """What went wrong; empty: nothing."""
    run = subprocess.run(["mount", *arguments], capture_output=True, text=True)
    return run.stderr.strip() if run.returncode != 0 else ""


@contextlib.contextmanager
def small_disk(path):
    """Mounts a small file system at `path`; skips the test where that is not allowed."""
    path.mkdir(parents=True)
    trouble = hide_mounts() or run_mount("-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", path)
    if trouble:
        raise unittest.SkipTest(f"skipped: no file system can be mounted here ({trouble})")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)


def fill(directory):
    """Takes all the room there is; returns what took it."""
    filler = directory / "filler"
    with open(filler, "wb", buffering=0) as file:
        size = 1 << 20
        while size:
            try:
                file.write(bytes(size))
            except OSError:
                size //= 2
    return filler


class SmallDiskCluster(chaos.ChaosCluster):
    """ps-0 has its directory on the small disk."""

    def __init__(self, disk, **kwargs):
        self.disk = disk
        super().__init__(**kwargs)

    def ps_directory(self, index):
        return self.disk / "ps-0" if index == 0 else super().ps_directory(index)


class FullDiskTest(unittest.TestCase):

    def wait_for(self, what, condition):
        deadline = time.monotonic() + harness.DEADLINE
        while not condition():
            self.assertLess(time.monotonic(), deadline, f"waited for {what}")
            time.sleep(0.1)

    def shard(self, cluster, job_id):
        """Of ps-0, once it has one and answers."""
        found = []

        def ask():
            found[:] = chaos.inspect([cluster.ps[0].address()], job_id, 2)
            return found

        self.wait_for("the shard of ps-0", ask)
        return found[0]

    def test_training_goes_on_while_a_disk_is_full(self):
        disk = harness.temporary_directory() / "disk"
        env = dict(os.environ, MILLRACE_SUM_STEP_MICROSECONDS="5000")
        with small_disk(disk), SmallDiskCluster(disk, workers=2, worker=chaos.SUM_WORKER, env=env) as cluster:
            job, steps = chaos.write_sum_job(cluster.directory, STEPS, SIZES, cut_period_ms=500)
            self.train_through_a_full_disk(cluster, cluster.submit(job, f"--data={steps}"), disk)

    def train_through_a_full_disk(self, cluster, job_id, disk):
        def version():
            return int(self.shard(cluster, job_id)["version"])

        def flushed():
            return int(self.shard(cluster, job_id)["flushed_version"])

        self.wait_for("the first cut", lambda: flushed() > 0)
        filler = fill(disk)
        self.wait_for("a word about the disk", lambda: self.shard(cluster, job_id)["trouble"])
        seen = version()
        self.wait_for("steps on a full disk", lambda: version() > seen + 200)
        self.wait_for("a warning", lambda: any("ps-0" in w for w in chaos.job_status(cluster, job_id)["warnings"]))
        self.assertEqual(chaos.job_status(cluster, job_id)["state"], "RUNNING", "the job ended: give it more steps")

        filler.unlink()
        seen = version()
        self.wait_for("cuts again", lambda: flushed() > seen)
        self.wait_for("no trouble", lambda: not self.shard(cluster, job_id)["trouble"])

        # Full again, with something to write that cannot wait: the generation of a new coordinator.
        filler = fill(disk)
        cluster.coordinator.kill()
        cluster.coordinator = cluster.start_coordinator()
        self.assertIn(chaos.job_status(cluster, job_id)["state"], ("PENDING", "RUNNING"))
        filler.unlink()
        self.assertEqual(harness.final_state(cluster.millrace("watch", job_id, "--json"))["state"], "SUCCEEDED")
        chaos.check_applied(cluster.addresses(), job_id, shards=2, steps=STEPS)
        chaos.check_sums(cluster.export(job_id), STEPS, SIZES)


if __name__ == "__main__":
    harness.main()
