"""The long runs, by one command: bazel run //testing/chaos:long

Prints a line for each run, and exits with 1 when one has failed. --only=NAME,... runs some of them;
--scale=0.1 makes all of them shorter; --seed=N repeats a seed.
"""

import argparse
import sys
import time
import traceback

import blows
import chaos
import network

ARENAS = ("keep", "keep", "keep", "remove", "off")
DIGITS_STEPS = 8000


def mixed(kills):
    return lambda seed, steps: blows.Plan(seed, steps, arenas=ARENAS).mixed(kills=kills, stops=kills // 5)


def all_ps(kills):
    return lambda seed, steps: blows.Plan(seed, steps, arenas=("remove",), longest_pause=0.2).all_ps(kills)


def scaled(count, scale):
    return max(1, round(count * scale))


def check_bits(seed, make_blows, steps, **job):
    undisturbed = chaos.run_digits(0, lambda *_: [], steps)[1]
    status, disturbed = chaos.run_digits(seed, make_blows, steps, evaluate_every=steps // 5, **job)
    if disturbed != undisturbed:
        raise AssertionError(f"seed {seed}: SHA-256 {disturbed}, undisturbed {undisturbed}")
    return f"SHA-256 {disturbed} as undisturbed, {status['steps_run_again']} steps run again"


def synchronous(seed, scale):
    return check_bits(seed, mixed(scaled(100, scale)), scaled(DIGITS_STEPS, scale))


def synchronous_all_ps(seed, scale):
    return "; ".join(
        check_bits(seed + job, all_ps(scaled(30, scale)), scaled(DIGITS_STEPS // 2, scale)) for job in range(3))


def synchronous_sums(seed, scale):
    steps = scaled(10000, scale) // 4 * 4
    status = chaos.run_sums(seed, mixed(scaled(100, scale)), steps, replicas=4, evaluate_every=steps // 5)
    return f"sums exact, {status['steps_run_again']} steps run again"


def asynchronous(seed, scale):
    steps = scaled(30000, scale)
    again = []
    for pull_ahead in (False, True):
        status = chaos.run_sums(seed, mixed(scaled(50, scale)), steps // 2, evaluate_every=steps // 10,
                                pull_ahead=pull_ahead)
        again.append(status["steps_run_again"])
    return f"sums exact, {again[0]} steps run again, and {again[1]} where pulls begin ahead"


def disks(losses, kills):
    return lambda seed, steps: blows.Plan(seed, steps, arenas=ARENAS).disks(losses, kills)


def lost_disks(seed, scale):
    """In each of two jobs all data directories go ten times, among 60 kills."""
    make_blows, steps = disks(scaled(10, scale), scaled(60, scale)), scaled(DIGITS_STEPS, scale)
    bits = check_bits(seed, make_blows, steps, checkpoint_every=40)
    steps = scaled(30000, scale)
    status = chaos.run_sums(seed, make_blows, steps, evaluate_every=steps // 5, checkpoint_every=100)
    return f"{bits}; sums exact, {status['steps_run_again']} steps run again"


def journeys(seed, scale):
    """From cluster to cluster, of 3, 5, 2, 1 and 4 ps servers."""
    servers, steps = (3, 5, 2, 1, 4), scaled(DIGITS_STEPS, scale)
    undisturbed = chaos.run_digits(0, lambda *_: [], steps)[1]
    found = chaos.journey_of_digits(seed, steps, servers, checkpoint_every=40)
    if found != undisturbed:
        raise AssertionError(f"seed {seed}: SHA-256 {found}, undisturbed {undisturbed}")
    chaos.journey_of_sums(seed, scaled(20000, scale), servers, checkpoint_every=100)
    return f"SHA-256 {found} as undisturbed; sums exact"


def bad_network(seed, scale):
    """100,000 pushes: each fault in each direction has its eighth, on two shards."""
    steps = scaled(6250, scale)
    messages = hit = 0
    for fault in network.FAULTS:
        for direction in network.DIRECTIONS:
            counts = network.run(fault, direction, network.DATA_PLANE, steps, seed)
            messages += counts[direction]
            hit += counts["faults"]
    return f"{16 * steps} pushes exact; {hit} of {messages} messages hit"


def lost_messages(seed, scale):
    for direction in network.DIRECTIONS:
        network.run("lose", direction, network.DATA_PLANE, scaled(2000, scale), seed, **network.LOST)
    return "sums exact"


def bad_admin_plane(seed, scale):
    steps = scaled(2000, scale)
    for fault in network.FAULTS:
        for direction in network.DIRECTIONS:
            if fault != "duplicate" or direction == "requests":  # No reply comes twice: see proxied_call.cc.
                network.run(fault, direction, network.ADMIN_PLANE, steps, seed, evaluate_every=max(1, steps // 50))
    return "sums exact"


def bad_membership(seed, scale):
    for fault in ("drop", "delay"):
        for direction in network.DIRECTIONS:
            network.run(fault, direction, network.MEMBERSHIP, scaled(2000, scale), seed, probability=0.05,
                        proxied="coordinator")
    return "sums exact"


RUNS = (synchronous, synchronous_all_ps, synchronous_sums, asynchronous, lost_disks, journeys, bad_network,
        lost_messages, bad_admin_plane, bad_membership)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 1000000)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--only", default="", help=", ".join(run.__name__ for run in RUNS))
    flags = parser.parse_args()
    wanted = flags.only.split(",") if flags.only else [run.__name__ for run in RUNS]
    failed = 0
    for run in RUNS:
        if run.__name__ not in wanted:
            continue
        start = time.monotonic()
        try:
            result = run(flags.seed, flags.scale)
        except Exception:  # Whatever went wrong, the other runs tell more.
            traceback.print_exc()
            result, failed = "FAILED", failed + 1
        print(f"{run.__name__}, seed {flags.seed}: {result} ({time.monotonic() - start:.0f} s)", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
