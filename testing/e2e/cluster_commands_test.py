"""The client's commands against a cluster of the three real binaries."""

import json
import time
import unittest

import harness

JOB = "examples/digits.textproto"
# A job tells of its middle, however fast it is: when exactly so many steps are applied.
EVALUATIONS = "evaluation.every_steps=50"


class ClusterCommandsTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.directory = harness.temporary_directory()
        cls.digits = harness.make_digits(cls.directory / "digits")

    def submit(self, cluster, *overrides):
        arguments = []
        for override in overrides:
            arguments += ["--set", override]
        result = cluster.millrace("submit", JOB, f"--data={self.digits}", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout.strip()

    def status(self, cluster, job_id):
        result = cluster.millrace("status", job_id, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout.strip().splitlines()[-1])

    def test_a_job_is_submitted_watched_listed_and_cancelled(self):
        with harness.Cluster(ps=2, workers=2) as cluster:
            short = self.submit(cluster, "epochs=1", "name=short")
            watched = cluster.millrace("watch", short, "--json")
            self.assertEqual(watched.returncode, 0, watched.stderr)
            final = harness.final_state(watched)
            self.assertEqual(final["state"], "SUCCEEDED")
            self.assertIn("eval_accuracy", final["metrics"])

            endless = self.submit(cluster, "epochs=1000000", "name=endless", EVALUATIONS)
            for event in cluster.watch(endless):
                if event.get("step", 0) > 0:
                    break
            self.assertEqual(self.status(cluster, endless)["state"], "RUNNING")
            cancelled = cluster.millrace("cancel", endless)
            self.assertEqual(cancelled.returncode, 0, cancelled.stderr)
            self.assertEqual(harness.final_state(cluster.millrace("watch", endless, "--json"))["state"], "CANCELLED")

            listed = cluster.millrace("list")
            self.assertIn(short, listed.stdout)
            self.assertIn(endless, listed.stdout)

    def members(self, cluster):
        result = cluster.millrace("members", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return {member.get("name", "coordinator"): member for member in map(json.loads, result.stdout.splitlines())}

    def test_members_tell_who_is_there_and_who_was(self):
        with harness.Cluster(ps=2, workers=1) as cluster:
            self.submit(cluster, "epochs=1000000", "name=first")
            job = self.submit(cluster, "epochs=1000000", "name=endless")
            deadline = time.monotonic() + harness.DEADLINE
            while job not in (members := self.members(cluster)).get("worker-0", {}).get("jobs", []):
                self.assertLess(time.monotonic(), deadline, members)
                time.sleep(0.01)
            self.assertEqual(set(members), {"coordinator", "ps-0", "ps-1", "worker-0"})
            for member in members.values():
                self.assertTrue(member["is_there"])
                self.assertRegex(member["version"], r"^0\.\d+\.\d+ \(build [0-9a-f]{16}\)$")
            self.assertIn("cpu/", members["worker-0"]["device"])
            for index, name in enumerate(("ps-0", "ps-1")):
                self.assertEqual(members[name]["address"], cluster.ps[index].address())
                self.assertEqual(members[name]["shards"], 2, "one of each job")

            self.assertEqual(cluster.workers[0].terminate(), 0)
            gone = self.members(cluster)["worker-0"]
            self.assertEqual((gone["is_there"], gone["role"], gone["in_good_order"]), (False, "worker", True))
            text = cluster.millrace("members").stdout
            self.assertIn("no worker is there; start one", text)
            self.assertIn("worker-0", text)

            # Whom its jobs lack a coordinator tells that has never seen it.
            cluster.ps[1].kill()
            cluster.coordinator.kill()
            cluster.coordinator = cluster.start_coordinator()
            missing = self.members(cluster)["ps-1"]
            self.assertFalse(missing["is_there"])
            self.assertNotIn("gone_seconds", missing)
            self.assertEqual(missing["shards"], 2)

    def test_an_unknown_job_is_said_to_be_unknown(self):
        with harness.Cluster(ps=1, workers=0) as cluster:
            for command in ("status", "watch", "cancel"):
                with self.subTest(command):
                    result = cluster.millrace(command, "no-such-job")
                    self.assertEqual(result.returncode, 1)
                    self.assertIn("no-such-job", result.stderr)

    def test_workers_come_and_go_while_a_job_runs(self):
        with harness.Cluster(ps=1, workers=1) as cluster:
            job = self.submit(cluster, "steps=400", EVALUATIONS)
            changed = False
            final = None
            for event in cluster.watch(job):
                final = event
                if not changed and 0 < event.get("step", 0) < 400:
                    changed = True
                    cluster.start_worker(1)
                    self.assertEqual(cluster.workers[0].terminate(), 0)
            self.assertTrue(changed, "the job ended before workers could change")
            self.assertEqual(final["state"], "SUCCEEDED", final)
            self.assertEqual(final["step"], 400)

    def test_an_asynchronous_job_goes_on_when_a_ps_is_stopped_and_started_again(self):
        with harness.Cluster(ps=2, workers=2) as cluster:
            job = self.submit(cluster, "steps=400", EVALUATIONS)
            restarted = False
            final = None
            for event in cluster.watch(job):
                final = event
                if not restarted and 0 < event.get("step", 0) < 400:
                    restarted = True
                    self.assertEqual(cluster.ps[1].terminate(), 0)
                    cluster.ps[1] = cluster.start_ps(1)
            self.assertTrue(restarted, "the job ended before a ps could be restarted")
            self.assertEqual(final["state"], "SUCCEEDED", final)
            self.assertEqual(final["step"], 400)

    def test_the_coordinator_remembers_its_jobs(self):
        with harness.Cluster(ps=1, workers=1) as cluster:
            job = self.submit(cluster, "epochs=1")
            self.assertEqual(cluster.millrace("watch", job, "--json").returncode, 0)
            before = self.status(cluster, job)
            self.assertEqual(cluster.coordinator.terminate(), 0)
            cluster.coordinator = cluster.start_coordinator()
            after = self.status(cluster, job)
            self.assertEqual(after["state"], "SUCCEEDED")
            self.assertEqual(after["metrics"], before["metrics"])

    def test_every_server_stops_on_sigterm(self):
        with harness.Cluster(ps=1, workers=1) as cluster:
            # By then they have taken the signal over from the system.
            cluster.ps[0].address()
            cluster.workers[0].await_saying("has joined the cluster")
            for process in [*cluster.workers, *cluster.ps, cluster.coordinator]:
                self.assertEqual(process.terminate(), 0, process.name)


if __name__ == "__main__":
    harness.main()
