"""Starts Millrace's binaries as processes, for end-to-end tests.

Tests run with the runfiles' root as the working directory: binaries and examples have the paths that
they have in the source tree. Every wait has a deadline, and a failure shows the logs of all processes.
"""

import json
import os
import pathlib
import random
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

MILLRACE = "client/millrace"
SERVES = r" serves on (\S+)\s"
DEADLINE = 240.0  # Seconds, for any single wait; sanitized binaries are slow.


def temporary_directory():
    return pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))


def free_ports(count):
    """Ports for servers that must know their addresses beforehand; others take port 0. They are none of
    those that the system gives away by itself, so that nobody gets one by chance."""
    free = []
    for port in random.sample(range(20000, 32000), 1000):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                free.append(port)
            except OSError:
                continue
        if len(free) == count:
            return free
    raise AssertionError(f"{count} ports are not free")


def make_digits(directory, train=600, evaluate=200, seed=1):
    """Writes a small set of digits as MNIST files."""
    subprocess.run(
        ["testing/digits/make_digits", f"--out={directory}", f"--train={train}", f"--evaluate={evaluate}", f"--seed={seed}"],
        check=True, stdout=subprocess.DEVNULL)
    return directory


def make_certificate(directory, name, *hosts):
    """For processes on these hosts; returns the environment of one. The test needs //deploy:make_certificates.sh."""
    subprocess.run(["deploy/make_certificates.sh", directory, name, *hosts], check=True, stdout=subprocess.DEVNULL)
    files = {"CA": "ca.pem", "CERTIFICATE": f"{name}.pem", "KEY": f"{name}.key"}
    return {**os.environ, **{f"MILLRACE_TLS_{kind}": f"{directory}/{file}" for kind, file in files.items()}}


def real_data(name):
    """The folder of a real data set; skips the test where there is none."""
    root = os.environ.get("MILLRACE_TEST_DATA", "")
    if not root:
        raise unittest.SkipTest(f"MILLRACE_TEST_DATA is not set: skipping the test on {name}")
    folder = pathlib.Path(root) / name
    if not folder.is_dir():
        raise unittest.SkipTest(f"{folder} does not exist: skipping the test on {name}")
    return folder


def millrace(*arguments, env=None, timeout=DEADLINE):
    """Runs the client to its end."""
    return subprocess.run([MILLRACE, *map(str, arguments)], capture_output=True, text=True, timeout=timeout, env=env)


def final_state(result):
    """The last JSON line that a --json run printed."""
    lines = result.stdout.strip().splitlines()
    if not lines:
        raise AssertionError(f"no JSON on stdout, exit code {result.returncode}; stderr:\n{result.stderr}")
    return json.loads(lines[-1])


def read_safetensors(path):
    """{name: (shape, bytes)} of a safetensors file."""
    content = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8:8 + length])
    header.pop("__metadata__", None)
    body = content[8 + length:]
    return {name: (entry["shape"], body[slice(*entry["data_offsets"])]) for name, entry in header.items()}


class Process:
    """A server process with its log in a file."""

    def __init__(self, name, arguments, log_directory, env=None):
        self.name = name
        self.ended_by_test = False
        self.log = pathlib.Path(log_directory) / f"{name}-{time.monotonic_ns()}.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [str(a) for a in arguments], stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=env)

    def said(self, pattern):
        """The first match of the pattern in its log; None before there is one."""
        return re.search(pattern, self.log.read_text(errors="replace"))

    def await_saying(self, pattern):
        """The same, once there is one."""
        deadline = time.monotonic() + DEADLINE
        while time.monotonic() < deadline:
            found = self.said(pattern)
            if found:
                return found
            if self.process.poll() is not None:
                break
            time.sleep(0.01)
        raise AssertionError(f"{self.name} does not say '{pattern}':\n{self.log.read_text(errors='replace')}")

    def known_address(self):
        """HOST:PORT that it says it serves on; None before it does."""
        found = self.said(SERVES)
        return found.group(1) if found else None

    def address(self):
        """The same, once it serves."""
        return self.await_saying(SERVES).group(1)

    def terminate(self):
        """SIGTERM; returns the exit code."""
        if self.process.poll() is None:
            self.ended_by_test = True
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=DEADLINE)

    def stop(self):
        """SIGSTOP: it does nothing more, and its connections stay."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        if self.process.poll() is None:
            self.ended_by_test = True
            self.process.kill()
        self.process.wait(timeout=DEADLINE)


class Cluster:
    """A coordinator, ps servers and workers on loopback. Use it as a context manager.

    `flags` are the coordinator's; `worker` is the worker binary; `directory` has what a cluster left there."""

    def __init__(self, ps=1, workers=1, flags=None, env=None, worker="worker/worker", worker_flags=(), ps_flags=(),
                 directory=None):
        self.directory = directory or temporary_directory()
        # It must be free when the coordinator is started again.
        self.address = f"127.0.0.1:{free_ports(1)[0]}"
        self.env = env
        self.worker_binary = worker
        self.worker_flags = worker_flags
        self.started = []
        self.coordinator_flags = [f"--min_ps={ps}", *(flags or [])]
        self.coordinator = self.start_coordinator()
        self.address = self.coordinator.address()
        self.ps = [self.start_ps(i, flags=ps_flags) for i in range(ps)]
        self.workers = [self.start_worker(i) for i in range(workers)]

    def start(self, name, arguments):
        process = Process(name, arguments, self.directory, self.env)
        self.started.append(process)
        return process

    def start_coordinator(self):
        """Starts the coordinator on its data directory, and where it was before."""
        return self.start("coordinator", [
            "coordinator/coordinator", f"--listen={self.address}", f"--data_dir={self.directory}/coordinator",
            *self.coordinator_flags])

    def ps_directory(self, index):
        return self.directory / f"ps-{index}"

    def start_ps(self, index, listen="127.0.0.1:0", flags=()):
        """Starts ps `index` on its data directory; unless `listen` says otherwise, on any free port."""
        own = any(flag.startswith("--arena=") for flag in flags)
        arena = [] if own else [f"--arena={self.directory}"]  # Goes with the cluster's directory.
        return self.start(f"ps-{index}", [
            "ps/ps", f"--listen={listen}", f"--name=ps-{index}", f"--data_dir={self.ps_directory(index)}",
            f"--coordinator={self.address}", *arena, *flags])

    def start_worker(self, index):
        return self.start(f"worker-{index}", [
            self.worker_binary, f"--name=worker-{index}", f"--coordinator={self.address}", *self.worker_flags])

    def millrace(self, command, *arguments, timeout=DEADLINE):
        return millrace(command, *arguments, f"--cluster={self.address}", env=self.env, timeout=timeout)

    def watch(self, job_id):
        """Yields the events of a job as they come, until its end."""
        watcher = subprocess.Popen(
            [MILLRACE, "watch", job_id, f"--cluster={self.address}", "--json"], stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, env=self.env)
        pipe, rest = watcher.stdout.fileno(), b""
        try:
            while True:
                if not select.select([pipe], [], [], DEADLINE)[0]:
                    raise AssertionError(f"{job_id}: no event for {DEADLINE} s{self.ended_by_themselves()}")
                read = os.read(pipe, 1 << 16)
                if not read:
                    return
                *lines, rest = (rest + read).split(b"\n")
                for line in lines:
                    yield json.loads(line)
        finally:
            watcher.kill()
            watcher.wait()
            watcher.stdout.close()

    def ended_by_themselves(self):
        """The processes that did, for a message."""
        ended = [f"{each.name} ({each.process.returncode})" for each in self.started
                 if each.process.poll() is not None and not each.ended_by_test]
        return f"; ended by themselves, with exit codes: {', '.join(ended)}" if ended else ""

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        for process in reversed(self.started):
            process.kill()
        if kind is not None and not issubclass(kind, unittest.SkipTest):
            for process in self.started:
                sys.stderr.write(f"---- {process.name} ({process.log})\n{process.log.read_text(errors='replace')[-4000:]}\n")


def main():
    unittest.main(verbosity=2)
