"""`millrace why` names who keeps a job waiting: real processes that stand still, or are killed."""

import json
import re
import time
import unittest

import harness

JOB = "examples/digits.textproto"


class WhyTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.directory = harness.temporary_directory()
        cls.digits = harness.make_digits(cls.directory / "digits", train=600, evaluate=100)

    def submit(self, cluster, *overrides):
        arguments = [argument for override in overrides for argument in ("--set", override)]
        submitted = cluster.millrace("submit", JOB, f"--data={self.digits}", *arguments)
        self.assertEqual(submitted.returncode, 0, submitted.stderr)
        return submitted.stdout.strip()

    def await_verdict(self, cluster, job_id, pattern):
        """Asks until the pattern is found in the verdict; returns what was told then."""
        deadline = time.monotonic() + harness.DEADLINE
        while True:
            why = cluster.millrace("why", job_id, "--json")
            self.assertEqual(why.returncode, 0, why.stderr)
            told = json.loads(why.stdout)
            if re.search(pattern, told["verdict"]):
                return told
            self.assertLess(time.monotonic(), deadline, f"not {pattern}: {why.stdout}")

    def await_steps(self, cluster, job_id):
        deadline = time.monotonic() + harness.DEADLINE
        while json.loads(cluster.millrace("why", job_id, "--json").stdout)["step"] < 50:
            self.assertLess(time.monotonic(), deadline)

    def test_members_that_stand_still_and_a_server_that_is_killed(self):
        with harness.Cluster(ps=2, workers=2, flags=["--heartbeat_period=1s"]) as cluster:
            job_id = self.submit(cluster, "steps=1000000", "synchronous.replicas=2")
            self.await_steps(cluster, job_id)

            cluster.workers[1].stop()
            # Not as the slowest worker of a job that is well. Where asking takes long it is gone by then.
            self.await_verdict(cluster, job_id, "worker-1 (has had step|is gone)")
            cluster.workers[1].go_on()
            self.await_verdict(cluster, job_id, "gets on")

            cluster.ps[1].stop()
            self.await_verdict(cluster, job_id, r"ps-1, which has shard \d, does not answer|waits for ps-1 \(")
            cluster.ps[1].go_on()
            self.await_verdict(cluster, job_id, "gets on")

            cluster.ps[0].kill()
            told = self.await_verdict(cluster, job_id, r"waits for ps-0 \(.*\), gone")
            troubles = {shard["server"]: shard["trouble"] for shard in told["shards"]}
            self.assertIn("is gone", troubles["ps-0"])
            cluster.ps[0] = cluster.start_ps(0)
            told = self.await_verdict(cluster, job_id, "gets on")
            self.assertTrue(any("ps-0" in event["text"] for event in told["recent"]), told)

            text = cluster.millrace("why", job_id).stdout
            self.assertIn("WORKER", text)
            self.assertIn("goodput", text)
            self.assertEqual(cluster.millrace("cancel", job_id).returncode, 0)
            for event in cluster.watch(job_id):
                final = event
            spent = final["time_spent"]
            parts = sum(spent[part] for part in ("training", "running_again", "recovering", "evaluating",
                                                 "checkpointing"))
            self.assertAlmostEqual(parts + sum(spent["waiting"].values()), spent["wall"], places=6)
            self.assertGreater(spent["recovering"], 0)


if __name__ == "__main__":
    harness.main()
