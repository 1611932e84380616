"""How long recovery takes, and what it costs: bazel run //testing/chaos:times

  worker   a worker is killed, or stopped: until its steps are computed elsewhere
  goodput  one kill a minute: steps done, of those that the calm stretches of the same run would have done
  memory   a ps and its memory are lost every 1 to 2.5 s, for a minute: how far a synchronous job gets
  burner   both cores busy with something else: how many members are lost without having failed
"""

import argparse
import contextlib
import os
import random
import statistics
import subprocess
import sys
import time

import blows
import chaos

REPLICAS = 4


@contextlib.contextmanager
def training(steps, step_microseconds, replicas=0, heartbeat="500ms", cut_period_ms=10000, sizes=chaos.SUM_SIZES):
    """A cluster that trains sums, and its job."""
    env = dict(os.environ, MILLRACE_SUM_STEP_MICROSECONDS=str(step_microseconds))
    with chaos.ChaosCluster(heartbeat=heartbeat, worker=chaos.SUM_WORKER, env=env) as cluster:
        job, data = chaos.write_sum_job(cluster.directory, steps, sizes, replicas, cut_period_ms)
        yield cluster, cluster.submit(job, f"--data={data}")


def until(progress, step):
    """Waits until the job has come so far; returns the seconds."""
    begin = time.monotonic()
    while progress.poll() < step:
        if time.monotonic() - begin > chaos.PATIENCE:
            raise AssertionError(f"the job stands at step {progress.step}")
        time.sleep(0.005)
    return time.monotonic() - begin


def worker(_):
    """Synchronous, so that the job stands until the lost contribution is computed by somebody else."""
    with training(steps=100000, step_microseconds=10000, replicas=REPLICAS) as (cluster, job_id):
        progress = chaos.Progress(cluster, job_id, shards=2)
        until(progress, 200)
        for kind in ("killed", "stopped"):
            took = []
            for i in range(6):
                process = cluster.workers[i % 3]
                step = progress.poll()
                process.kill() if kind == "killed" else process.stop()
                # Steps may have been reported meanwhile; past the window, everything lost was computed.
                took.append(until(progress, step + 4 * REPLICAS))
                process.kill()
                cluster.workers[i % 3] = cluster.start_worker(i % 3)
                until(progress, progress.step + 200)
            print(f"worker {kind}: its steps were done elsewhere within {statistics.median(took):.2f} s (median), "
                  f"{max(took):.2f} s (longest of {len(took)})", flush=True)


def goodput(flags):
    """Steps take 20 ms, mostly of sleep, so that the machine's noise counts for little."""
    with training(steps=300000, step_microseconds=20000) as (cluster, job_id):
        progress = chaos.Progress(cluster, job_id, shards=2)
        until(progress, 500)
        first, begin = progress.now(), time.monotonic()
        calm = []
        victims = ["ps-0", "worker-0", "ps-1", "worker-1", "coordinator", "worker-2"]
        for minute in range(flags.minutes):
            name = victims[minute % len(victims)]
            cluster.process(name).kill()
            cluster.restart(blows.Victim(name, pause=0))
            time.sleep(max(0, begin + 60 * minute + 30 - time.monotonic()))
            before, at = progress.now(), time.monotonic()
            time.sleep(max(0, begin + 60 * (minute + 1) - time.monotonic()))
            step = progress.now()
            calm.append((step - before) / (time.monotonic() - at))
            print(f"minute {minute}: {name} killed; {step} steps, {calm[-1]:.1f} a second when calm", flush=True)
        steps, seconds = progress.now() - first, time.monotonic() - begin
        rate = statistics.median(calm)
        again = chaos.job_status(cluster, job_id)["steps_run_again"]
        print(f"goodput: {steps} steps in {seconds:.0f} s, {rate:.2f} a second when calm: "
              f"{steps / (rate * seconds):.4f}; steps run again: {again}", flush=True)


def memory(_):
    """Shards of 8 MiB, whose cuts take their time."""
    draw = random.Random(1)
    with training(steps=400000, step_microseconds=5000, replicas=REPLICAS, cut_period_ms=1000,
                  sizes=[1 << 22]) as (cluster, job_id):
        until(chaos.Progress(cluster, job_id, shards=2), 20)
        end = time.monotonic() + 60
        kills = 0
        while time.monotonic() < end:
            time.sleep(draw.uniform(1, 2.5))
            name = draw.choice(["ps-0", "ps-1"])
            cluster.process(name).kill()
            cluster.restart(blows.Victim(name, pause=0, arena="remove"))
            kills += 1
        status = chaos.job_status(cluster, job_id)
        print(f"memory: {status['step']} steps after {kills} losses, {status['steps_run_again']} run again, "
              f"goodput {status['time_spent']['goodput']:.2f}", flush=True)


def burner(flags):
    """With the default heartbeats."""
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count())]
    try:
        with training(steps=400000, step_microseconds=5000, heartbeat="2s") as (cluster, job_id):
            progress = chaos.Progress(cluster, job_id, shards=2)
            end = time.monotonic() + 60 * flags.minutes
            while time.monotonic() < end:
                progress.poll()
                time.sleep(0.5)
            status = chaos.job_status(cluster, job_id)
            coordinator = cluster.coordinator.log.read_text(errors="replace")
            lost = [line for line in coordinator.splitlines() if " is gone: " in line]
            print(f"burner: {flags.minutes} minutes, {progress.poll()} steps, state {status['state']}, "
                  f"members lost: {len(lost)} {lost[:3]}", flush=True)
            cluster.millrace("cancel", job_id)
    finally:
        for process in burners:
            process.kill()
            process.wait()


WHAT = {"worker": worker, "goodput": goodput, "memory": memory, "burner": burner}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=list(WHAT), nargs="*", default=list(WHAT))
    parser.add_argument("--minutes", type=int, default=20)
    flags = parser.parse_args()
    for name in flags.what:
        WHAT[name](flags)


if __name__ == "__main__":
    main()
