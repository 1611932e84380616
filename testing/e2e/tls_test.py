"""A cluster whose processes show each other certificates, and whoever has none or others."""

import os
import subprocess
import unittest

import harness

JOB = "examples/digits.textproto"
STEPS = 400
# The job is evaluated when exactly these steps are applied: it tells of its middle.
EVALUATE_EVERY = 100


class TlsTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.directory = harness.temporary_directory()
        cls.digits = harness.make_digits(cls.directory / "digits")
        cls.certificates = cls.directory / "certificates"
        cls.member = harness.make_certificate(cls.certificates, "member", "127.0.0.1")

    def test_a_job_is_trained_by_processes_that_are_killed_and_get_new_certificates(self):
        with harness.Cluster(ps=2, workers=2, env=self.member) as cluster:
            submitted = cluster.millrace("submit", JOB, f"--data={self.digits}", "--set", f"steps={STEPS}", "--set",
                                         f"evaluation.every_steps={EVALUATE_EVERY}")
            self.assertEqual(submitted.returncode, 0, submitted.stderr)
            final, disturbed = None, False
            for final in cluster.watch(submitted.stdout.strip()):
                if disturbed or not EVALUATE_EVERY <= final.get("step", 0) < STEPS:
                    continue
                disturbed = True
                harness.make_certificate(self.certificates, "member", "127.0.0.1")
                cluster.ps[0].kill()
                cluster.ps[0] = cluster.start_ps(0)
                cluster.workers[0].kill()
                cluster.workers[0] = cluster.start_worker(0)
            self.assertTrue(disturbed)
            self.assertEqual((final["state"], final["step"]), ("SUCCEEDED", STEPS), final)

    def test_members_without_the_clusters_certificates_are_told_why_they_wait(self):
        with harness.Cluster(ps=1, workers=0, env=self.member) as cluster:
            cluster.env = dict(os.environ)
            cluster.start_worker(0).await_saying("it speaks TLS and this process does not")
            cluster.env = harness.make_certificate(self.directory / "elsewhere", "stranger", "127.0.0.1")
            cluster.start_worker(1).await_saying("certificate is not from an authority of --tls_ca")
            cluster.env = self.member
            members = cluster.millrace("members")
            self.assertEqual(members.returncode, 0, members.stderr)
            self.assertIn("1 ps server, 0 workers", members.stdout)

    def test_a_server_of_another_host_is_not_believed_unless_its_name_is_given(self):
        trainer = harness.make_certificate(self.certificates, "trainer", "trainer")
        with harness.Cluster(ps=1, workers=0, env=trainer) as cluster:
            cluster.ps[0].await_saying("give that as --tls_server_name")
            named = cluster.millrace("members", "--tls_server_name=trainer")
            self.assertEqual(named.returncode, 0, named.stderr)
            self.assertIn("0 ps servers, 0 workers", named.stdout)

    def test_an_embedded_cluster_is_of_one_process_whatever_the_environment_says(self):
        trained = harness.millrace("train", JOB, f"--data={self.digits}", "--set", "steps=20", env=self.member)
        self.assertEqual(trained.returncode, 0, trained.stderr)

    def test_certificates_are_not_made_of_what_makes_no_sense(self):
        def fails(*arguments, code=2):
            result = subprocess.run(["deploy/make_certificates.sh", *arguments], capture_output=True, text=True)
            self.assertEqual(result.returncode, code, result.stderr)
            return result.stderr

        place = self.directory / "broken"
        self.assertIn("HOST: '10.0.0.1:2220'; must be a name or an IP address", fails(place, "a", "10.0.0.1:2220"))
        self.assertIn("NAME: 'ca'", fails(place, "ca", "host"))
        self.assertIn("bad ip address", fails(place, "a", "1.2.3", code=1))
        (place / "ca.pem").unlink()
        self.assertIn("ca.pem is missing or empty", fails(place, "a", "host", code=1))
        self.assertEqual({file.name for file in place.iterdir()}, {"ca.key"})

    def test_what_cannot_be_used_is_named(self):
        ca = self.member["MILLRACE_TLS_CA"]
        for flags, code, says in [
                ([f"--tls_ca={ca}"], 2, "--tls_certificate: missing"),
                (["--tls_server_name=trainer"], 2, "--tls_server_name"),
                ([f"--tls_ca={ca}", f"--tls_certificate={ca}", "--tls_key=/none"], 1, "--tls_key: '/none' cannot be read")]:
            for server in (["coordinator/coordinator", f"--data_dir={self.directory}/c"],
                           ["ps/ps", f"--data_dir={self.directory}/p", "--coordinator=127.0.0.1:1"],
                           ["worker/worker", "--coordinator=127.0.0.1:1"],
                           [harness.MILLRACE, "list", "--cluster=127.0.0.1:1"]):
                with self.subTest(server=server[0], flags=flags):
                    result = subprocess.run([*server, *flags], capture_output=True, text=True, timeout=harness.DEADLINE)
                    self.assertEqual(result.returncode, code, result.stderr)
                    self.assertIn(says, result.stderr)


if __name__ == "__main__":
    harness.main()
