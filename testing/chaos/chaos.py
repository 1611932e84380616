"""Runs a job while blows fall on its cluster (see blows.py), and looks at what comes out.

Whatever falls, the job must succeed with every step applied exactly once. Every wait has a deadline, and
a run in which a blow did not fall is a failure.
"""

import array
import hashlib
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import time

import harness

SUM_WORKER = "testing/chaos/sum_worker"
INSPECT = "testing/chaos/inspect_shards"
# A job that makes no step for this long is stuck.
PATIENCE = 120.0
KINDS = 16


def say(text):
    print(text, file=sys.stderr, flush=True)


def ps_has_arena():
    return "--arena" in subprocess.run(["ps/ps", "--help"], capture_output=True, text=True, check=True).stdout


class ChaosCluster(harness.Cluster):
    """A cluster whose processes can be hit by name, and come back as they are told to."""

    def __init__(self, ps=2, workers=3, heartbeat="500ms", **kwargs):
        self.arena_root = pathlib.Path("/dev/shm") / f"millrace-chaos-{time.monotonic_ns()}"
        self.has_arena = ps_has_arena()
        super().__init__(ps=ps, workers=workers, flags=[f"--heartbeat_period={heartbeat}"], **kwargs)
        # Where jobs have their checkpoints, unless they are given another place.
        self.checkpoints = self.directory / "checkpoints"

    def arena(self, index):
        return self.arena_root / f"ps-{index}"

    def start_ps(self, index, listen="127.0.0.1:0", flags=(), arena="keep"):
        if not self.has_arena:
            return super().start_ps(index, listen, flags)
        if arena == "remove":
            shutil.rmtree(self.arena(index), ignore_errors=True)
        value = "off" if arena == "off" else self.arena(index)
        self.arena(index).mkdir(parents=True, exist_ok=True)
        return super().start_ps(index, listen, [*flags, f"--arena={value}"])

    def process(self, name):
        if name == "coordinator":
            return self.coordinator
        role, index = name.split("-")
        return {"ps": self.ps, "worker": self.workers}[role][int(index)]

    def restart(self, victim):
        """Starts a killed process again."""
        if victim.name == "coordinator":
            self.coordinator = self.start_coordinator()
            return
        role, index = victim.name.split("-")
        index = int(index)
        if role == "worker":
            self.workers[index] = self.start_worker(index)
            return
        # Where it was; one that was killed before it served has been nowhere.
        if victim.disk == "remove":
            shutil.rmtree(self.ps_directory(index), ignore_errors=True)
        self.keep_copy(index, put_back=victim.disk == "old")
        where = self.ps[index].known_address() if victim.same_port else None
        listen = where or "127.0.0.1:0"
        self.ps[index] = self.start_ps(index, listen, arena=victim.arena)

    def keep_copy(self, index, put_back):
        """Copies the directory of a ps that does not run; first puts back what was copied before."""
        disk = pathlib.Path(self.ps_directory(index))
        copy = self.directory / f"copy-of-ps-{index}"
        if put_back and copy.exists():
            shutil.rmtree(disk)
            shutil.copytree(copy, disk)
        elif disk.exists():
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(disk, copy)

    def submit(self, job, *arguments):
        result = self.millrace("submit", job, *arguments)
        if result.returncode != 0:
            raise AssertionError(f"submit: {result.stderr}")
        return result.stdout.strip()

    def export(self, job_id):
        path = self.directory / f"{job_id}.safetensors"
        result = self.millrace("export", job_id, f"--export={path}")
        if result.returncode != 0:
            raise AssertionError(f"export: {result.stderr}")
        return path

    def addresses(self):
        """Of the ps servers, once all of them serve."""
        return [process.address() for process in self.ps]

    def known_addresses(self):
        return [address for address in (process.known_address() for process in self.ps) if address]

    def __exit__(self, kind, *rest):
        super().__exit__(kind, *rest)
        shutil.rmtree(self.arena_root, ignore_errors=True)


class Poller:
    """Runs a command that prints lines of JSON again and again, and waits for none."""

    def __init__(self, arguments):
        self.arguments = arguments  # A function: they change.
        self.process = None

    def poll(self):
        """The objects of a run that has ended since; None when there is none."""
        if self.process is None:
            self.process = subprocess.Popen(
                self.arguments(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if self.process.poll() is None:
            return None
        output = self.process.communicate()[0]
        self.process = None
        return [json.loads(line) for line in output.splitlines()]

    def ask(self):
        """The objects of a run that begins now."""
        self.close()
        while (answer := self.poll()) is None:
            self.process.wait(PATIENCE)
        return answer

    def close(self):
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


def inspect_command(addresses, job_id, shards):
    return [INSPECT, f"--job={job_id}", f"--shards={shards}", *(f"--ps={address}" for address in addresses)]


class Progress:
    """How far a job is, as its ps servers say: at once, and while the coordinator is away too."""

    def __init__(self, cluster, job_id, shards):
        self.step = 0
        self.poller = Poller(lambda: inspect_command(cluster.known_addresses(), job_id, shards))

    def poll(self):
        """The most steps, from the first on, that a shard has ever had, as known some time ago."""
        return self._take(self.poller.poll() or [])

    def now(self):
        """The same as of now, where a server answers."""
        return self._take(self.poller.ask())

    def _take(self, shards):
        for shard in shards:
            self.step = max(self.step, int(shard.get("applied", {}).get("watermark", 0)))
        return self.step

    def close(self):
        self.poller.close()


class Run:
    """A job under blows."""

    def __init__(self, cluster, job_id, blows, shards):
        self.cluster = cluster
        self.job_id = job_id
        self.blows = list(blows)
        self.planned = len(self.blows)
        self.shards = shards
        self.down = []  # (when to come back, kind, victim)
        self.step = 0
        self.due = None  # When the next blow falls, once the job has come to its step.
        self.started = time.monotonic()
        self.moved = self.started

    def to_end(self):
        """Returns the final status, once the job has ended and everybody is back."""
        progress = Progress(self.cluster, self.job_id, self.shards)
        watch = subprocess.Popen(
            [harness.MILLRACE, "watch", self.job_id, f"--cluster={self.cluster.address}", "--json"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while watch.poll() is None:
                self.look(progress.poll())
                self.come_back()
                self.check_alive()
                self.strike()
                time.sleep(0.02)
        finally:
            progress.close()
            watch.kill()
            watch.wait()
        while self.down:
            self.come_back()
            time.sleep(0.02)
        return self.check(job_status(self.cluster, self.job_id))

    def look(self, step):
        now = time.monotonic()
        if step > self.step:
            self.step, self.moved = step, now
        if now - self.moved > PATIENCE:
            raise AssertionError(
                f"{self.job_id}: no step for {PATIENCE:.0f} s: {job_status(self.cluster, self.job_id)}; "
                f"{inspect(self.cluster.known_addresses(), self.job_id, self.shards)}")

    def strike(self):
        """Lets the next blow fall when it is due. On a process that is down it waits until that is back, and one that
        takes disks until there is a checkpoint: before that the job could not come back, on a machine that is slow."""
        if not self.blows or self.step < self.blows[0].step:
            return
        now = time.monotonic()
        blow = self.blows[0]
        if self.due is None:
            self.due = now + blow.delay
        names = {victim.name for victim in blow.victims}
        if now < self.due or any(victim.name in names for _, _, victim in self.down):
            return
        if blow.takes_disks and not self.has_checkpoint():
            return
        self.blows.pop(0)
        self.due = None
        say(f"{now - self.started:7.2f} s, step {self.step}: {blow}")
        for victim in blow.victims:
            self.hit(blow.kind, victim)

    def has_checkpoint(self):
        if any(victim.name == "coordinator" for _, _, victim in self.down):
            return False
        return bool(newest_checkpoint(self.cluster, self.job_id))

    def hit(self, kind, victim):
        process = self.cluster.process(victim.name)
        process.kill() if kind == "kill" else process.stop()
        self.down.append((time.monotonic() + victim.pause, kind, victim))

    def check_alive(self):
        down = {victim.name for _, _, victim in self.down}
        for process in [self.cluster.coordinator, *self.cluster.ps, *self.cluster.workers]:
            if process.name not in down and process.process.poll() is not None:
                raise AssertionError(f"{process.name} has ended by itself, exit code {process.process.returncode}")

    def come_back(self):
        """Brings back who is due."""
        now = time.monotonic()
        due = [entry for entry in self.down if entry[0] <= now]
        self.down = [entry for entry in self.down if entry[0] > now]
        for _, kind, victim in due:
            if kind == "kill":
                self.cluster.restart(victim)
            else:
                self.cluster.process(victim.name).go_on()

    def check(self, status):
        if status["state"] != "SUCCEEDED":
            raise AssertionError(f"{self.job_id}: {status}")
        if self.blows:
            raise AssertionError(f"only {self.planned - len(self.blows)} of {self.planned} blows fell")
        if status["step"] != status["total_steps"]:
            raise AssertionError(f"{self.job_id} succeeded with {status['step']} steps: {status}")
        return status


def inspect(addresses, job_id, shards):
    """The ShardStatus of each shard, as those of the ps servers have it that answer."""
    result = subprocess.run(inspect_command(addresses, job_id, shards),
                            capture_output=True, text=True, timeout=harness.DEADLINE)
    if result.returncode != 0:
        raise AssertionError(f"inspect_shards: {result.stderr}")
    return [json.loads(line) for line in result.stdout.splitlines()]


def check_applied(addresses, job_id, shards, steps):
    """Each shard has applied all steps, and nothing else."""
    statuses = inspect(addresses, job_id, shards)
    found = sorted(status["shard"] for status in statuses)
    if found != list(range(shards)):
        raise AssertionError(f"shards found: {found}, of {shards}")
    for status in statuses:
        applied = status.get("applied", {})
        if int(applied.get("watermark", 0)) != steps or applied.get("above"):
            raise AssertionError(f"shard {status['shard']} has applied {applied} of {steps} steps")


def job_status(cluster, job_id):
    result = cluster.millrace("status", job_id, "--json")
    if result.returncode != 0:
        raise AssertionError(f"status: {result.stderr}")
    return json.loads(result.stdout.strip().splitlines()[-1])


def newest_checkpoint(cluster, job_id):
    """That this job has made; a restored one has at first none of its own."""
    return job_status(cluster, job_id).get("checkpoint")


def sha256(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def checkpoints_text(directory, every_steps):
    """The field of a job that has checkpoints after so many steps; none for 0."""
    return f'checkpoints {{ directory: "{directory}" every_steps: {every_steps} }}' if every_steps else ""


# The sum model: see sum_model.h.

def split_mix(x):
    mask = (1 << 64) - 1
    x = (x + 0x9e3779b97f4a7c15) & mask
    x = ((x ^ (x >> 30)) * 0xbf58476d1ce4e5b9) & mask
    x = ((x ^ (x >> 27)) * 0x94d049bb133111eb) & mask
    return x ^ (x >> 31)


def sums(steps):
    """Of the gradients of all steps, for each kind of element."""
    total = [steps] * KINDS
    for step in range(steps):
        mixed = split_mix(step)
        for kind in range(KINDS):
            total[kind] += (mixed >> (4 * kind)) & 7
    return total


SUM_SIZES = (1000, 37, 5000)
# And of a frozen variable, which has a shard of its own where there are a few.
FROZEN_SIZE = 6000
FROZEN_VALUE = 7


def write_sum_job(directory, steps, sizes=SUM_SIZES, replicas=0, cut_period_ms=2000, evaluate_every=0, shards=0,
                  checkpoints="", pull_ahead=False):
    """Writes a job of the sum model and its data; returns the job's path and the data's folder."""
    data = directory / f"steps-{steps}"
    data.mkdir(exist_ok=True)
    (data / "steps").write_text("".join(f"{step} 1:1\n" for step in range(steps)))
    layers = " ".join(f'layers {{ name: "v{i}" dense {{ units: {size} }} }}' for i, size in enumerate(sizes))
    layers += f' layers {{ name: "frozen" dense {{ units: {FROZEN_SIZE} no_bias: true }} }}'
    mode = (f"synchronous {{ replicas: {replicas} }}" if replicas else
            f"asynchronous {{ staleness_bound: 4 pull_ahead: {str(pull_ahead).lower()} }}")
    dataset = 'libsvm { file: "steps" features: 1 }'
    job = directory / f"sum-{steps}-{replicas}.textproto"
    job.write_text(f"""
name: "sum"
model {{ {layers} loss: SPARSE_CATEGORICAL_CROSSENTROPY }}
data {{ train {{ {dataset} }} evaluate {{ {dataset} range {{ begin: 0 end: 1 }} }} no_shuffle: true }}
optimizer {{ sgd {{ learning_rate: 1 }} }}
{mode}
batch_size: 1
epochs: 1
evaluation {{ every_steps: {evaluate_every} }}
placement {{ shards: {shards} }}
cuts {{ period {{ seconds: {cut_period_ms // 1000} nanos: {cut_period_ms % 1000 * 1000000} }} }}
{checkpoints}
""")
    return job, data


def check_sums(path, steps, sizes=SUM_SIZES, contributions=1):
    """Every element of the exported file is minus the exact sum of its gradients, or frozen."""
    total = sums(steps)
    tensors = harness.read_safetensors(path)
    if set(array.array("f", tensors["frozen"][1])) != {FROZEN_VALUE}:
        raise AssertionError("a frozen variable has changed")
    for v, size in enumerate(sizes):
        values = array.array("f", tensors[f"v{v}"][1])
        if len(values) != size:
            raise AssertionError(f"v{v} has {len(values)} elements instead of {size}")
        wrong = [(i, value, -total[(i + 5 * v) % KINDS] / contributions) for i, value in enumerate(values)
                 if value != -total[(i + 5 * v) % KINDS] / contributions]
        if wrong:
            raise AssertionError(f"v{v}: {len(wrong)} of {size} elements differ; (element, value, sum): {wrong[:5]}")


# A real model, whose every bit depends on every step and their order.

def write_digits_job(directory, steps, evaluate_every=0, cut_period_ms=2000, checkpoints="", global_clip_norm=0):
    """Writes a synchronous job that learns digits with a small network; returns its path and its data."""
    clipping = f"global_clip_norm: {global_clip_norm}" if global_clip_norm else ""
    digits = directory / "digits"
    if not digits.exists():
        harness.make_digits(digits)
    job = directory / f"digits-{steps}.textproto"
    sets = {"train": "train", "evaluate": "t10k"}
    data = " ".join(
        f'{name} {{ idx {{ images: "{file}-images-idx3-ubyte" labels: "{file}-labels-idx1-ubyte" }} }}'
        for name, file in sets.items())
    job.write_text(f"""
name: "digits"
model {{
  layers {{ flatten {{}} }} layers {{ dense {{ units: 32 activation: RELU }} }} layers {{ dense {{ units: 10 }} }}
  loss: SPARSE_CATEGORICAL_CROSSENTROPY metrics: ACCURACY
}}
data {{ {data} }}
optimizer {{ adam {{ learning_rate: 0.001 }} {clipping} }}
synchronous {{ replicas: 4 }}
batch_size: 16
steps: {steps}
seed: 1
evaluation {{ every_steps: {evaluate_every} }}
cuts {{ period {{ seconds: {cut_period_ms // 1000} nanos: {cut_period_ms % 1000 * 1000000} }} }}
{checkpoints}
""")
    return job, digits


# Whole runs, for the tests and for the long forms.

def run_sums(seed, make_blows, steps, replicas=0, step_microseconds=1000, checkpoint_every=0, **job):
    """A job of the sum model under the blows of a plan; returns its final status."""
    env = dict(os.environ, MILLRACE_SUM_STEP_MICROSECONDS=str(step_microseconds))
    blows = make_blows(seed, steps)
    say(f"sums, {'synchronous' if replicas else 'asynchronous'}: seed {seed}, {steps} steps, {len(blows)} blows")
    with ChaosCluster(worker=SUM_WORKER, env=env) as cluster:
        checkpoints = checkpoints_text(cluster.checkpoints, checkpoint_every)
        path, data = write_sum_job(cluster.directory, steps, replicas=replicas, checkpoints=checkpoints, **job)
        job_id = cluster.submit(path, f"--data={data}")
        status = Run(cluster, job_id, blows, shards=2).to_end()
        check_applied(cluster.addresses(), job_id, shards=2, steps=steps)
        check_sums(cluster.export(job_id), steps, contributions=replicas or 1)
        return status


def run_digits(seed, make_blows, steps, checkpoint_every=0, ps=2, **job):
    """A synchronous job under the blows of a plan; returns its final status and its file's hash."""
    blows = make_blows(seed, steps)
    say(f"digits, synchronous: seed {seed}, {steps} steps, {len(blows)} blows")
    with ChaosCluster(ps=ps) as cluster:
        checkpoints = checkpoints_text(cluster.checkpoints, checkpoint_every)
        path, data = write_digits_job(cluster.directory, steps, checkpoints=checkpoints, **job)
        job_id = cluster.submit(path, f"--data={data}")
        status = Run(cluster, job_id, blows, shards=ps).to_end()
        check_applied(cluster.addresses(), job_id, shards=ps, steps=steps)
        return status, sha256(cluster.export(job_id))


class Journey:
    """A job that goes from cluster to cluster by its checkpoints: each cluster is lost with all that it has."""

    def __init__(self, seed, steps, servers, write_job, **cluster):
        self.random = random.Random(seed)
        self.steps = steps
        self.servers = servers  # ps servers of each cluster.
        self.write_job = write_job  # (directory, checkpoints) -> (job, data)
        self.cluster = cluster
        self.directory = harness.temporary_directory()
        self.checkpoints = self.directory / "checkpoints"

    def run(self, finish):
        """Returns finish(cluster, job_id, ps servers) of the last cluster, once the job has ended."""
        stages = len(self.servers)
        for stage, ps in enumerate(self.servers):
            with ChaosCluster(ps=ps, **self.cluster) as cluster:
                job_id = self.submit(cluster, restore=stage > 0)
                if stage + 1 == stages:
                    Run(cluster, job_id, blows=[], shards=ps).to_end()
                    return finish(cluster, job_id, ps)
                self.go_on_to(cluster, job_id, ps, self.random.randrange(
                    self.steps * (3 * stage + 1) // (3 * stages), self.steps * (3 * stage + 3) // (3 * stages)))

    def submit(self, cluster, restore):
        job, data = self.write_job(self.directory, self.checkpoints)
        return cluster.submit(job, f"--data={data}", *([f"--restore={self.checkpoints}"] if restore else []))

    def go_on_to(self, cluster, job_id, ps, step):
        """Waits until the job has come to the step, and until there is a checkpoint of this cluster."""
        progress = Progress(cluster, job_id, ps)
        begin = time.monotonic()
        try:
            while progress.poll() < step or not newest_checkpoint(cluster, job_id):
                if time.monotonic() - begin > PATIENCE:
                    raise AssertionError(f"{job_id} stands: {job_status(cluster, job_id)}")
                time.sleep(0.01)
        finally:
            progress.close()
        say(f"{job_id} on {ps} ps servers is lost at step {progress.step}, its checkpoint at "
            f"{newest_checkpoint(cluster, job_id)['step']}")


def journey_of_digits(seed, steps, servers, checkpoint_every):
    """The hash of the exported variables."""
    def write(directory, checkpoints):
        return write_digits_job(directory, steps, checkpoints=checkpoints_text(checkpoints, checkpoint_every))

    def finish(cluster, job_id, shards):
        check_applied(cluster.addresses(), job_id, shards=shards, steps=steps)
        return sha256(cluster.export(job_id))

    return Journey(seed, steps, servers, write).run(finish)


def journey_of_sums(seed, steps, servers, checkpoint_every, step_microseconds=1000):
    def write(directory, checkpoints):
        return write_sum_job(directory, steps, checkpoints=checkpoints_text(checkpoints, checkpoint_every))

    def finish(cluster, job_id, _):
        check_sums(cluster.export(job_id), steps)

    env = dict(os.environ, MILLRACE_SUM_STEP_MICROSECONDS=str(step_microseconds))
    Journey(seed, steps, servers, write, worker=SUM_WORKER, env=env).run(finish)
