"""worker.py against the real binaries: alone, beside a C++ worker, and among processes that die."""

import array
import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys
import time
import unittest

import harness

JOB = "examples/python_worker/softmax.textproto"
NEEDED = ["google.protobuf", "grpc", "numpy", "xxhash"]


def is_missing(module):
    try:
        return importlib.util.find_spec(module) is None
    except ModuleNotFoundError:
        return True


def setUpModule():
    missing = [module for module in NEEDED if is_missing(module)]
    if not shutil.which("grpc_python_plugin"):
        missing.append("grpc_python_plugin")
    if missing:
        raise unittest.SkipTest(f"not installed: {', '.join(missing)}; tools/install_dependencies.sh installs them")


def variables(path):
    return {name: array.array("f", data) for name, (_, data) in harness.read_safetensors(path).items()}


class PythonCluster(harness.Cluster):
    """With workers in Python, called python-0 and so on."""

    def __init__(self, generated, pythons=0, env=os.environ, **kwargs):
        # One thread for each, as beside them are other processes.
        env = {**env, "PYTHONPATH": str(generated), "OPENBLAS_NUM_THREADS": "1"}
        super().__init__(ps=2, env=env, **kwargs)
        self.pythons = [self.start_python(i) for i in range(pythons)]

    def start_python(self, index):
        return self.start(f"python-{index}", [
            sys.executable, "-B", "examples/python_worker/worker.py", f"--name=python-{index}",
            f"--coordinator={self.address}"])

    def submit(self, data, *overrides, job=JOB):
        arguments = [argument for override in overrides for argument in ("--set", override)]
        submitted = self.millrace("submit", job, f"--data={data}", *arguments)
        if submitted.returncode != 0:
            raise AssertionError(submitted.stderr)
        return submitted.stdout.strip()

    def status(self, job_id):
        return json.loads(self.millrace("status", job_id, "--json").stdout.strip().splitlines()[-1])

    def await_steps_of(self, job_id, *names):
        """Until each of these workers has done steps of the job."""
        deadline = time.monotonic() + harness.DEADLINE
        while True:
            why = self.millrace("why", job_id, "--json").stdout
            done = {worker["name"] for worker in json.loads(why)["workers"] if worker["steps_done"] > 0}
            if done >= set(names):
                return
            if time.monotonic() > deadline:
                raise AssertionError(why)


class PythonWorkerTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.directory = harness.temporary_directory()
        cls.digits = harness.make_digits(cls.directory / "digits")
        cls.generated = cls.directory / "generated"
        subprocess.run(["examples/python_worker/generate.sh", cls.generated], check=True)

    def cluster(self, **kwargs):
        return PythonCluster(self.generated, **kwargs)

    def train(self, cluster, name, *overrides, at_middle=lambda cluster: None):
        """Trains to the job's end; calls at_middle(cluster) once. Returns the final status and the variables."""
        job_id = cluster.submit(self.digits, *overrides)
        called, final, self.events = False, None, []
        for event in cluster.watch(job_id):
            final = event
            self.events.append(event)
            if not called and 100 <= event.get("step", 0) < 380:
                called = True
                at_middle(cluster)
        self.assertTrue(called)
        self.assertEqual(final["state"], "SUCCEEDED", final)
        self.assertEqual(final["step"], 380)
        path = self.directory / f"{name}.safetensors"
        exported = cluster.millrace("export", job_id, f"--export={path}")
        self.assertEqual(exported.returncode, 0, exported.stderr)
        return final, variables(path)

    def assert_close(self, a, b, distance=1e-5):
        self.assertEqual(a.keys(), b.keys())
        for name, values in a.items():
            self.assertLess(max(abs(x - y) for x, y in zip(values, b[name], strict=True)), distance, name)

    def by_cpp(self):
        """What a C++ worker makes of the job."""
        if not hasattr(type(self), "_by_cpp"):
            with self.cluster(workers=1) as cluster:
                type(self)._by_cpp = self.train(cluster, "cpp")
        return type(self)._by_cpp

    def test_by_itself_it_trains_what_a_cpp_worker_does(self):
        expected, values = self.by_cpp()
        with self.cluster(workers=0, pythons=1) as cluster:
            final, own = self.train(cluster, "python")
            self.assertEqual(cluster.pythons[0].terminate(), 0)
        self.assert_close(own, values)
        self.assertAlmostEqual(final["metrics"]["eval_loss"], expected["metrics"]["eval_loss"], places=5)
        self.assertGreater(final["metrics"]["eval_accuracy"], 0.7)

    def test_a_cpp_worker_that_joins_its_job_goes_on_with_it_on_secured_connections(self):
        _, values = self.by_cpp()
        secured = harness.make_certificate(self.directory / "certificates", "member", "127.0.0.1")
        with self.cluster(workers=0, pythons=1, env=secured) as cluster:
            def join_and_leave(cluster):
                cluster.workers.append(cluster.start_worker(0))
                self.assertEqual(cluster.pythons[0].terminate(), 0)

            _, mixed = self.train(cluster, "mixed", at_middle=join_and_leave)
        self.assert_close(mixed, values)

    def test_it_takes_part_in_float32_where_others_round_on_the_wire(self):
        _, values = self.by_cpp()

        def join_and_leave(cluster):
            cluster.pythons.append(cluster.start_python(0))
            self.assertEqual(cluster.workers[0].terminate(), 0)

        for wire in ("BFLOAT16", "FLOAT16"):
            with self.subTest(wire), self.cluster(workers=1) as cluster:
                final, mixed = self.train(cluster, wire, f"precision.wire={wire}", at_middle=join_and_leave)
            self.assertRegex(json.dumps(self.events), f"python-0.{{,3}} computes on 'numpy.*{wire} on the wire': its bits")
            self.assertGreater(final["metrics"]["eval_accuracy"], 0.7)
            self.assert_close(mixed, values, 0.05)

    def test_killed_in_the_middle_it_loses_no_step_and_has_none_applied_twice(self):
        _, values = self.by_cpp()
        with self.cluster(workers=0, pythons=2) as cluster:
            _, disturbed = self.train(cluster, "killed", at_middle=lambda cluster: cluster.pythons[0].kill())
        self.assert_close(disturbed, values)

    def test_killed_beside_a_worker_of_the_other_make_it_leaves_its_steps_to_that_one(self):
        _, values = self.by_cpp()

        def start_cpp_and_kill_python(cluster):
            cluster.workers.append(cluster.start_worker(0))
            cluster.pythons[0].kill()

        def start_python_and_kill_cpp(cluster):
            cluster.pythons.append(cluster.start_python(0))
            cluster.workers[0].kill()

        for name, cpps, swap in (("killed_python", 0, start_cpp_and_kill_python),
                                 ("killed_cpp", 1, start_python_and_kill_cpp)):
            with self.subTest(name), self.cluster(workers=cpps, pythons=1 - cpps) as cluster:
                _, disturbed = self.train(cluster, name, at_middle=swap)
            self.assert_close(disturbed, values)

    def test_it_goes_on_when_a_ps_and_the_coordinator_come_back(self):
        def kill_both(cluster):
            cluster.ps[0].kill()
            cluster.ps[0] = cluster.start_ps(0)
            cluster.coordinator.kill()
            cluster.coordinator = cluster.start_coordinator()

        with self.cluster(workers=0, pythons=1) as cluster:
            final, _ = self.train(cluster, "restarted", "asynchronous.staleness_bound=4", at_middle=kill_both)
        self.assertGreater(final["metrics"]["eval_accuracy"], 0.7)

    def write_libsvm(self):
        """200 examples with labels -1 and +1, which count as 0 and 1, and comments."""
        directory = self.directory / "libsvm"
        directory.mkdir(exist_ok=True)
        draw = random.Random(1)
        lines = []
        for _ in range(200):
            indices = sorted(draw.sample(range(1, 13), draw.randint(0, 6)))
            entries = " ".join(f"{index}:{draw.uniform(-2, 2):.7g}" for index in indices)
            lines.append(f"{draw.choice(['-1', '+1'])} {entries}  # a person\n")
        (directory / "examples").write_text("".join(lines))
        job = directory / "job.textproto"
        job.write_text("""
            model { layers { dense { units: 2 } } loss: SPARSE_CATEGORICAL_CROSSENTROPY }
            data { train { libsvm { file: "examples" features: 12 } range { begin: 10 end: 190 } } }
            optimizer { sgd {} } asynchronous { staleness_bound: 8 } batch_size: 8 steps: 1000000""")
        return job, directory

    def test_it_joins_jobs_that_a_cpp_worker_planned_with_the_same_fingerprint(self):
        libsvm, directory = self.write_libsvm()
        # Asynchronous: in a synchronous job a worker that is so much faster may get all steps.
        digits = ["steps=1000000", "asynchronous.staleness_bound=8"]
        with self.cluster(workers=1) as cluster:
            jobs = [cluster.submit(self.digits, *digits), cluster.submit(directory, job=libsvm)]
            for job_id in jobs:
                cluster.await_steps_of(job_id, "worker-0")
            cluster.pythons.append(cluster.start_python(0))
            for job_id in jobs:
                cluster.await_steps_of(job_id, "worker-0", "python-0")
                self.assertEqual(cluster.millrace("cancel", job_id).returncode, 0)

    def assert_waits_for_other_workers(self, why, *overrides, job=JOB):
        """The job's message says `why`, until a C++ worker comes."""
        with self.cluster(workers=0, pythons=1) as cluster:
            cluster.pythons.append(cluster.start_python(1))
            job_id = cluster.submit(self.digits, *overrides, job=job)
            deadline = time.monotonic() + harness.DEADLINE
            while why not in (status := cluster.status(job_id))["message"]:
                self.assertLess(time.monotonic(), deadline, status)
            cluster.workers.append(cluster.start_worker(0))
            *_, final = cluster.watch(job_id)
            self.assertEqual(final["state"], "SUCCEEDED", final)

    def test_jobs_of_other_models_wait_for_other_workers(self):
        self.assert_waits_for_other_workers("softmax regression", "epochs=1", job="examples/digits.textproto")

    def test_synchronous_jobs_that_are_rounded_wait_for_workers_that_round(self):
        self.assert_waits_for_other_workers(
            "precision.wire: this worker pushes FLOAT32", "epochs=1", "precision.wire=BFLOAT16",
            "synchronous.allow_mixed_workers=false")


if __name__ == "__main__":
    harness.main()
