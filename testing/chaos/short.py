"""What the short forms share: seeds, and ten kills in each job.

MILLRACE_CHAOS_SEED=N runs that seed alone.
"""

import os

import blows

ARENAS = ("keep", "keep", "remove", "off")


def seeds():
    given = os.environ.get("MILLRACE_CHAOS_SEED")
    return [int(given)] if given else [1, 2, 3]


def mixed(seed, steps):
    return blows.Plan(seed, steps, arenas=ARENAS, longest_pause=0.5).mixed(kills=10, stops=2)


def all_ps(seed, steps):
    return blows.Plan(seed, steps, arenas=("remove",), longest_pause=0.2).all_ps(kills=5)


def disks(seed, steps):
    return blows.Plan(seed, steps, arenas=ARENAS, longest_pause=0.5).disks(losses=2, kills=5)


def old_disks(seed, steps):
    return blows.Plan(seed, steps, arenas=ARENAS, longest_pause=0.5).old_disks(times=4, kills=6)


def none(seed, steps):
    return []
