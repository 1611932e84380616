"""Ps servers that are taken away for good while a job trains: it loses no step, and repeats none."""

import filecmp
import json
import shutil
import time
import unittest

import harness

JOB = "examples/digits.textproto"
STEPS = 800
# The job is evaluated when exactly these steps are applied: however fast it is, it tells of its middle.
EVALUATE_EVERY = 100


class EvacuateTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.directory = harness.temporary_directory()
        cls.digits = harness.make_digits(cls.directory / "digits", train=1500, evaluate=400)

    def submit(self, cluster, *overrides):
        arguments = []
        for override in (f"steps={STEPS}", f"evaluation.every_steps={EVALUATE_EVERY}", *overrides):
            arguments += ["--set", override]
        submitted = cluster.millrace("submit", JOB, f"--data={self.digits}", *arguments)
        self.assertEqual(submitted.returncode, 0, submitted.stderr)
        return submitted.stdout.strip()

    def train_through(self, disturb, *overrides, ps=3, export=None):
        """Trains on a cluster, and calls each of `disturb` with it, at different moments of the middle."""
        with harness.Cluster(ps=ps, workers=2) as cluster:
            job_id = self.submit(cluster, *overrides)
            waiting, moment, final = list(disturb), EVALUATE_EVERY, None
            for final in cluster.watch(job_id):
                if waiting and moment <= final.get("step", 0) < STEPS:
                    moment = final["step"] + EVALUATE_EVERY
                    waiting.pop(0)(cluster)
            self.assertFalse(waiting, "the job ended before everything could happen")
            self.assertEqual((final["state"], final["step"]), ("SUCCEEDED", STEPS), final)
            if export:
                exported = cluster.millrace("export", job_id, f"--export={export}")
                self.assertEqual(exported.returncode, 0, exported.stderr)
            status = cluster.millrace("status", job_id, "--json")
            return json.loads(status.stdout)

    def evacuate(self, cluster, index):
        """Takes the server away, with its machine."""
        evacuated = cluster.millrace("evacuate", f"ps-{index}")
        self.assertEqual(evacuated.returncode, 0, evacuated.stderr)
        self.assertIn(f"no job that runs has shards on ps-{index}, and none gets any there: it can be stopped",
                      evacuated.stdout)
        cluster.ps[index].kill()
        shutil.rmtree(cluster.ps_directory(index))

    def members_once_there(self, cluster, name):
        deadline = time.monotonic() + harness.DEADLINE
        while time.monotonic() < deadline:
            members = cluster.millrace("members").stdout
            if f"\n{name} " in members.split("GONE")[0]:
                return members
        self.fail(f"{name} has not come back: {members}")

    def test_a_synchronous_job_has_the_same_bits_on_whichever_servers_it_was(self):
        synchronous = ("synchronous.replicas=4", "optimizer={adam { learning_rate: 0.001 }}")
        calm, moved = self.directory / "calm.safetensors", self.directory / "moved.safetensors"
        self.train_through([], *synchronous, export=calm)
        status = self.train_through([lambda cluster: self.evacuate(cluster, 1),
                                     lambda cluster: self.evacuate(cluster, 0)], *synchronous, export=moved)
        self.assertTrue(filecmp.cmp(calm, moved, shallow=False))
        self.assertEqual(status["steps_run_again"], 0, status)

    def test_an_asynchronous_job_goes_back_and_forth_while_its_coordinator_is_killed(self):
        def leave(cluster):
            self.assertEqual(cluster.millrace("evacuate", "ps-0").returncode, 0)
            cluster.coordinator.kill()
            cluster.coordinator = cluster.start_coordinator()

        def come_back(cluster):
            # It has no shards, so the job has gone on before it has joined again.
            self.assertIn(" evacuated\n", self.members_once_there(cluster, "ps-0"))
            undone = cluster.millrace("evacuate", "ps-0", "--undo")
            self.assertEqual(
                (undone.returncode, undone.stdout),
                (0, "ps-0 gets shards again; `millrace rebalance JOB_ID` moves some of a running job there\n"),
                undone.stderr)
            self.evacuate(cluster, 1)

        status = self.train_through([leave, come_back], ps=2)
        self.assertEqual(status["steps_run_again"], 0, status)

    def test_shards_stay_where_there_is_nowhere_to_go(self):
        with harness.Cluster(ps=1, workers=1) as cluster:
            job_id = self.submit(cluster, "steps=1000000")
            next(event for event in cluster.watch(job_id) if event.get("step", 0) >= EVALUATE_EVERY)
            stuck = cluster.millrace("evacuate", "ps-0", "--timeout=1s")
            self.assertEqual(stuck.returncode, 1)
            self.assertIn(f"ps-0 still has 1 shard of job {job_id} (no other ps server is there that could take them)",
                          stuck.stderr)
            cluster.ps.append(cluster.start_ps(1))
            self.evacuate(cluster, 0)
            self.assertEqual(cluster.millrace("cancel", job_id).returncode, 0)

    def test_servers_that_there_are_not_are_named(self):
        with harness.Cluster(ps=1, workers=0) as cluster:
            unknown = cluster.millrace("evacuate", "ps-7")
            self.assertEqual(unknown.returncode, 1)
            self.assertIn("ps_server: ps-7; no ps server of that name", unknown.stderr)
            self.evacuate(cluster, 0)


if __name__ == "__main__":
    harness.main()
