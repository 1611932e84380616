"""When processes are killed and stopped, and how they come back: all of it follows from a seed.

A blow falls when the job has come to a step, so that a slow machine sees the same blows at the same
places of the training as a fast one. Where exactly in a step it falls is the machine's business: a seed
repeats the plan, not the interleaving.
"""

import dataclasses
import random


@dataclasses.dataclass
class Victim:
    """A process, and how it comes back."""
    name: str
    pause: float  # Seconds until it is started again, or goes on.
    same_port: bool = True  # A ps: at the port where it was.
    arena: str = "keep"  # A ps: what becomes of its memory: keep, remove, off (started without).
    disk: str = "keep"  # A ps: what becomes of its data directory: keep, remove, old (as it was at the kill before).


@dataclasses.dataclass
class Blow:
    step: int
    kind: str  # kill or stop.
    victims: list
    delay: float = 0  # Seconds from when the job has come to the step.

    @property
    def takes_disks(self):
        return any(victim.disk == "remove" for victim in self.victims)

    def __str__(self):
        return f"at step {self.step}: {self.kind} " + ", ".join(
            victim.name + (f" [{'same' if victim.same_port else 'other'} port, arena: {victim.arena}, disk: {victim.disk}]"
                           if victim.name.startswith("ps-") and self.kind == "kill" else "")
            for victim in self.victims)


class Plan:
    """Blows at random steps between the first tenth and the last fifth of a job."""

    def __init__(self, seed, total_steps, ps=2, workers=3, arenas=("keep",), longest_pause=1.0):
        self.random = random.Random(seed)
        self.total_steps = total_steps
        self.ps = [f"ps-{i}" for i in range(ps)]
        self.workers = [f"worker-{i}" for i in range(workers)]
        self.arenas = arenas
        self.longest_pause = longest_pause

    def victim(self, name):
        return Victim(name, pause=self.random.uniform(0, self.longest_pause),
                      same_port=self.random.random() < 0.5, arena=self.random.choice(self.arenas))

    def stopped(self, name):
        """At times for longer than three heartbeats, so that it is taken for dead and comes back."""
        return Victim(name, pause=self.random.uniform(0.1, 2.5))

    def delay(self):
        return self.random.uniform(0, 0.2)

    def steps(self, count):
        first, last = self.total_steps // 10, self.total_steps * 8 // 10
        return sorted(self.random.randrange(first, last) for _ in range(count))

    def who(self):
        """Mostly one process; at times all ps servers, or the coordinator with somebody."""
        everybody = self.ps * 3 + self.workers + ["coordinator"] * 2
        draw = self.random.random()
        if draw < 0.1:
            return list(self.ps)
        if draw < 0.2:
            return ["coordinator", self.random.choice(self.ps + self.workers)]
        return [self.random.choice(everybody)]

    def mixed(self, kills, stops):
        """Kills of so many processes in all, and stops among them."""
        blows = []
        left = kills
        while left > 0:
            names = self.who()[:left]
            left -= len(names)
            blows.append(("kill", names))
        blows += [("stop", [self.random.choice(self.ps + self.workers + ["coordinator"])]) for _ in range(stops)]
        self.random.shuffle(blows)
        make = {"kill": self.victim, "stop": self.stopped}
        return [Blow(step, kind, [make[kind](name) for name in names], self.delay())
                for step, (kind, names) in zip(self.steps(len(blows)), blows)]

    def disks(self, losses, kills):
        """Losses of all that the ps servers have, so many times, among kills of everybody. What has gone comes back
        at once: nobody else has it."""
        lost = [Victim(name, pause=0, same_port=False, arena="remove", disk="remove") for name in self.ps]
        blows = self.mixed(kills, stops=0) + [Blow(step, "kill", lost, self.delay()) for step in self.steps(losses)]
        return sorted(blows, key=lambda blow: blow.step)

    def old_disks(self, times, kills):
        """So many times a ps server comes back with an older copy of its data directory, among kills of everybody."""
        blows = self.mixed(kills, stops=0)
        blows.append(Blow(0, "kill", [self.victim(name) for name in self.ps]))  # Of each there is a copy from then on.
        for step in self.steps(times):
            victim = Victim(self.random.choice(self.ps), pause=0, arena="remove", disk="old")
            blows.append(Blow(step, "kill", [victim], self.delay()))
        return sorted(blows, key=lambda blow: blow.step)

    def all_ps(self, kills):
        """Kills of all ps servers at once, so many times."""
        return [Blow(step, "kill", [self.victim(name) for name in self.ps], self.delay())
                for step in self.steps(kills)]
