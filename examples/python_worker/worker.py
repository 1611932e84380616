"""A Millrace worker of another make: softmax regression in numpy, from protos/*.proto and docs/protocol.md alone.

    examples/python_worker/generate.sh OUT
    PYTHONPATH=OUT /usr/bin/python3 examples/python_worker/worker.py --name=python-0 --coordinator=HOST:PORT

It joins any cluster, beside the C++ workers or without them, takes the jobs whose model it knows, and leaves in good
order on SIGTERM. One thread computes, one listens to the coordinator, one sends heartbeats. docs/own_workers.md says
more.
"""

import argparse
import os
import pathlib
import queue
import signal
import sys
import threading
import time

import grpc
import job_data
import numpy as np
import parameters
import softmax
from protos import cluster_pb2 as pb
from protos import cluster_pb2_grpc

Code = grpc.StatusCode
RETRY_SECONDS = 5.0  # Until a job is tried again that could not be prepared.
STOP_SECONDS = 5.0  # That a stopping worker's push may still wait for a server.
GOODBYE_SECONDS = 1.0


def say(text):
    print(text, file=sys.stderr, flush=True)


def error_fields(code, message):
    return {"code": code.value[0], "message": str(message)}


def clipped(spec, gradients):
    """What is pushed: asynchronous steps are clipped here by the norm of all gradients, synchronous ones by the servers."""
    limit = spec.optimizer.global_clip_norm
    if not spec.optimizer.HasField("global_clip_norm") or spec.HasField("synchronous"):
        return gradients
    norm = np.sqrt(sum(np.sum(np.square(gradient, dtype=np.float64)) for gradient in gradients))
    return gradients if norm <= limit else [gradient * np.float32(limit / norm) for gradient in gradients]


class Job:
    """A job's data, open, and its model. Raises DataError and Unknown."""

    def __init__(self, spec):
        self.spec = spec
        data = spec.data
        job_data.refuse_others(data, "data", ["directory", "train", "evaluate", "no_shuffle"])
        if spec.precision.wire and spec.HasField("synchronous") and not spec.synchronous.allow_mixed_workers:
            raise job_data.Unknown(
                "precision.wire: this worker pushes FLOAT32, which the servers refuse in a synchronous job that is "
                "rounded; set it to FLOAT32, or synchronous.allow_mixed_workers")
        self.train = job_data.open_examples(data.train, data.directory, "data.train")
        self.sets = [self.train]
        if data.HasField("evaluate"):
            self.sets.append(job_data.open_examples(data.evaluate, data.directory, "data.evaluate"))
        self.model = softmax.Softmax(spec.model, self.train.shape)
        for examples in self.sets:
            if examples.shape != self.train.shape or examples.labels.max() >= self.model.classes:
                raise job_data.DataError(
                    f"data: examples {examples.shape} with labels up to {examples.labels.max()}; the model takes "
                    f"{self.train.shape} and {self.model.classes} classes")

    def plan(self):
        return pb.JobPlan(
            variables=self.model.variables, train_examples=len(self.train),
            evaluate_examples=len(self.sets[1]) if len(self.sets) > 1 else 0,
            data_fingerprint=job_data.fingerprint_of(self.sets), numerics=f"numpy {np.__version__}, softmax.py")

    def check(self, planned):
        """Whether this worker computes what the job was planned with; the message says what differs.

        Returns a remark for people, where there is one. It pulls and pushes float32, also where the job's
        precision.wire is another: who rounds says so in his numerics."""
        own = self.plan()
        parts = ["train_examples", "evaluate_examples"]
        if planned.data_fingerprint:
            parts.append("data_fingerprint")
        others = self.spec.HasField("synchronous") and planned.numerics not in ("", own.numerics)
        if others and not self.spec.synchronous.allow_mixed_workers:
            parts.append("numerics")
        pairs = [(part, getattr(own, part), getattr(planned, part)) for part in parts]
        pairs.append(("variables", *([(v.name, list(v.shape)) for v in plan.variables] for plan in (own, planned))))
        for part, ours, theirs in pairs:
            if ours != theirs:
                raise job_data.DataError(f"{part}: this worker has {ours}, the job was planned with {theirs}")
        if not others:
            return ""
        return (f"computes on '{own.numerics}', and the job was planned on '{planned.numerics}': its bits depend on which "
                "worker has a step (synchronous.allow_mixed_workers)")


class RoutedJob:
    """A job's newest route, and what is there to compute its steps with."""

    def __init__(self, route):
        self.route, self.job, self.servers = route, None, None
        self.retry_at = None  # None: it is prepared.
        self.held = (None, None)  # Synchronous: a version's values.

    def close(self):
        if self.servers is not None:
            self.servers.close()
            self.servers = None


class Session:
    """One Membership stream; what was asked on another one is void."""

    def __init__(self, coordinator, security, registration):
        self.over = threading.Event()
        self._outbox = queue.SimpleQueue()
        self._channel = parameters.open_channel(coordinator, security)
        self.send(register_worker=registration)
        self.answers = cluster_pb2_grpc.MembershipStub(self._channel).Join(iter(self._outbox.get, None))

    def send(self, **kind):
        self._outbox.put(pb.MemberMessage(**kind))

    def beat(self, period):
        while not self.over.wait(period):
            self.send(heartbeat=pb.Heartbeat())

    def half_close(self):
        self._outbox.put(None)

    def close(self):
        self.over.set()
        self.half_close()
        self._channel.close()


class Worker:

    def __init__(self, name, coordinator, security=None):
        self._name, self._coordinator, self._security = name, coordinator, security
        self._incarnation = parameters.random_id()
        self._stopping, self._stop_by = threading.Event(), None
        self._inbox = queue.Queue()  # (session, message, when it came)
        self._session = None  # The one that is welcomed.
        self._generations = {}  # Of each job, as the newest SetRoute has it: known before that has its turn.
        self._jobs = {}  # The computing thread alone uses these two.
        self._opened = {}
        self.refusal = None

    # The thread that listens.

    def listen(self):
        """Returns when the worker has left, or was refused for good."""
        said = None
        while not self._stopping.is_set():
            session = Session(self._coordinator, self._security, pb.RegisterWorker(
                name=self._name, incarnation=self._incarnation, lease_slots=1, device="numpy/1",
                version="example"))
            try:
                for message in session.answers:
                    self._receive(session, message)
            except grpc.RpcError as error:
                if error.details() != said:
                    said = error.details()
                    say(f"{self._name}: {error.code().name}: {said}")
                if error.code() == Code.INVALID_ARGUMENT:
                    self.refusal = error.details()
                    self._stop()
            self._session = None
            session.close()
            time.sleep(0.1)

    def _receive(self, session, message):
        kind = message.WhichOneof("kind")
        if kind == "welcome":
            self._session, self._generations = session, {}
            period = message.welcome.heartbeat_period.ToMicroseconds() / 1e6
            threading.Thread(target=session.beat, args=(period,), daemon=True).start()
            say(f"{self._name} has joined {self._coordinator}")
        elif kind == "set_route":
            self._generations[message.set_route.job_id] = message.set_route.routing.generation
        elif kind == "forget_job":
            self._generations.pop(message.forget_job.job_id, None)
        self._inbox.put((session, message, time.monotonic()))

    # The thread that computes.

    def compute(self):
        """Does what the coordinator asks for, in order, until the worker stops; leases that are left go back then."""
        handlers = {"welcome": self._begin_anew, "plan_job": self._plan, "set_route": self._route, "lease": self._lease,
                    "evaluate": self._evaluate, "forget_job": self._forget}
        while not (self._stopping.is_set() and self._inbox.empty()):
            try:
                session, message, received = self._inbox.get(timeout=0.5)
            except queue.Empty:
                self._retry()
                continue
            kind = message.WhichOneof("kind")
            if session is self._session and kind in handlers:
                handlers[kind](session, getattr(message, kind), received)

    def _begin_anew(self, *_):
        """Jobs that still run are routed again."""
        for routed in self._jobs.values():
            routed.close()
        self._jobs.clear()

    def _open(self, spec):
        """The job, which is kept between its plan and its route."""
        key = spec.SerializeToString(deterministic=True)
        return self._opened.pop(key, None) or Job(spec)

    def _plan(self, session, request, _):
        try:
            job = self._open(request.spec)
            self._opened = {request.spec.SerializeToString(deterministic=True): job}
            answer = {"plan": job.plan()}
        except job_data.Unknown as error:
            answer = error_fields(Code.UNAVAILABLE, error)  # Another worker may know it.
        except job_data.DataError as error:
            answer = error_fields(Code.INVALID_ARGUMENT, error)
        session.send(plan_result=pb.PlanResult(request_id=request.request_id, **answer))

    def _route(self, session, route, _):
        routed = self._jobs.setdefault(route.job_id, RoutedJob(route))
        routed.close()
        routed.route, routed.held = route, (None, None)
        self._prepare(session, routed, tell_failure=True)

    def _prepare(self, session, routed, tell_failure):
        job_id = routed.route.job_id
        try:
            routed.job = routed.job or self._open(routed.route.spec)
            answer = {"message": routed.job.check(routed.route.plan)}
            routed.retry_at = None
        except (job_data.Unknown, job_data.DataError) as error:
            routed.job, routed.retry_at = None, time.monotonic() + RETRY_SECONDS
            answer = error_fields(Code.FAILED_PRECONDITION, error)
        if tell_failure or routed.retry_at is None:
            session.send(job_prepared=pb.JobPrepared(job_id=job_id, **answer))

    def _retry(self):
        for routed in self._jobs.values():
            due = routed.retry_at is not None and routed.retry_at <= time.monotonic()
            if due and self._session is not None:
                self._prepare(self._session, routed, tell_failure=False)

    def _forget(self, _, request, __):
        routed = self._jobs.pop(request.job_id, None)
        if routed is not None:
            routed.close()

    def _is_void(self, session, work):
        return session is not self._session or self._generations.get(work.job_id) != work.generation

    def _wanted(self, session, work, until=None):
        """A function that raises Refused once the lease or the evaluation is void, or has waited for too long.

        `until`: of what can be begun anew elsewhere at no cost."""
        def check():
            if self._is_void(session, work):
                raise parameters.Refused(Code.CANCELLED, "void")
            if self._stopping.is_set() and (until is not None or time.monotonic() > self._stop_by):
                raise parameters.Refused(Code.CANCELLED, "the worker stops")
            if until is not None and time.monotonic() > until:
                raise parameters.Refused(Code.DEADLINE_EXCEEDED, "its values did not come within the lease")
        return check

    def _ready(self, work):
        """The job, with streams to its servers. Refused: there is none, or not in this generation."""
        routed = self._jobs.get(work.job_id)
        if routed is None or routed.job is None or routed.route.routing.generation != work.generation:
            raise parameters.Refused(Code.FAILED_PRECONDITION, "this worker is not prepared for the job")
        if routed.servers is None:
            sizes = [int(np.prod(variable.shape)) for variable in routed.job.model.variables]
            routed.servers = parameters.Parameters(work.job_id, routed.route.routing, sizes, self._security)
        return routed

    def _lease(self, session, lease, received):
        """Steps in order. What is not done goes back, unless it is void."""
        step = lease.begin
        try:
            while step < lease.end and not self._stopping.is_set():
                result = self._step(session, lease, step, received + lease.duration.ToMicroseconds() / 1e6)
                session.send(step_result=result)
                received = time.monotonic()
                step += 1
        except parameters.Refused as error:
            if self._is_void(session, lease):
                return
            say(f"{self._name}: step {step}: {error.code.name}: {error}")
            fields = {} if self._stopping.is_set() else error_fields(error.code, f"step {step}: {error}")
            self._give_back(session, lease, step, **fields)
        else:
            if step < lease.end:
                self._give_back(session, lease, step)

    def _give_back(self, session, lease, step, **error):
        session.send(lease_returned=pb.LeaseReturned(
            job_id=lease.job_id, lease_id=lease.lease_id, step=step, **error))

    def _step(self, session, lease, step, deadline):
        """Computes and pushes a step; returns its StepResult."""
        routed = self._ready(lease)
        job = routed.job
        begin = time.monotonic()
        indices = job_data.examples_of_step(job.spec, len(job.train), step)
        features, labels = job.train.features[indices], job.train.labels[indices]
        read = time.monotonic()
        values = self._values(routed, step, self._wanted(session, lease, until=deadline))
        pulled = time.monotonic()
        gradients, loss, right = job.model.gradient(values, features, labels)
        if not np.isfinite(loss) or not all(np.isfinite(gradient).all() for gradient in gradients):
            raise parameters.Refused(Code.OUT_OF_RANGE, f"the loss is {loss}, or a gradient is not finite")
        computed = time.monotonic()
        gradients = clipped(job.spec, gradients)
        routed.servers.push(self._wanted(session, lease), step, len(indices), gradients)
        result = pb.StepResult(
            job_id=lease.job_id, lease_id=lease.lease_id, step=step, examples=len(indices), loss_sum=loss)
        if job.model.wants_accuracy:
            result.accuracy_sum = right
        result.times.read, result.times.pull = read - begin, pulled - read
        result.times.compute, result.times.push = computed - pulled, time.monotonic() - computed
        return result

    def _values(self, routed, step, wanted):
        """What the step is computed on: exactly its version, or the newest."""
        if not routed.job.spec.HasField("synchronous"):
            return routed.servers.pull(wanted)
        version = step // routed.job.spec.synchronous.replicas
        if routed.held[0] != version:
            routed.held = (version, routed.servers.pull(wanted, version=version))
        return routed.held[1]

    def _evaluate(self, session, work, _):
        result = pb.EvaluationResult(job_id=work.job_id, evaluation_id=work.evaluation_id)
        try:
            routed = self._ready(work)
            job, examples = routed.job, routed.job.sets[-1]
            values = routed.servers.pull(self._wanted(session, work), cut_id=work.cut_id)
            loss, right = job.model.sums(values, examples.features, examples.labels)
            result.examples = len(examples)
            result.metrics["loss"] = loss / len(examples)
            if job.model.wants_accuracy:
                result.metrics["accuracy"] = right / len(examples)
        except parameters.Refused as error:
            result.code, result.message = error.code.value[0], f"evaluation: {error}"
        if not self._is_void(session, work):
            session.send(evaluation_result=result)

    # The main thread.

    def _stop(self):
        self._stop_by = self._stop_by or time.monotonic() + STOP_SECONDS
        self._stopping.set()

    def run(self):
        """Until SIGTERM or SIGINT; returns the exit status."""
        # A handler could come while this thread holds a lock that it needs: signals are waited for instead.
        numbers = {signal.SIGTERM, signal.SIGINT}
        signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
        listener = threading.Thread(target=self.listen, daemon=True)
        computer = threading.Thread(target=self.compute)
        listener.start()
        computer.start()
        while not self._stopping.is_set():
            if signal.sigtimedwait(numbers, 0.5) is not None:
                self._stop()
            elif not computer.is_alive():
                return 1  # Its exception is on standard error; a worker that only listens would be of no use.
        if self._session is not None:
            self._session.send(draining=pb.Draining())
        computer.join()
        if self._session is not None:
            self._session.send(leaving=pb.Leaving())
            self._session.half_close()
        listener.join(GOODBYE_SECONDS)
        if self.refusal is not None:
            say(f"{self._name}: refused: {self.refusal}")
            return 1
        return 0


def channel_security(flags):
    """None: plain text."""
    files = [flags.tls_ca, flags.tls_key, flags.tls_certificate]
    if not any(files):
        return None
    if not all(files):
        sys.exit("worker.py: give --tls_ca, --tls_certificate and --tls_key, or none of them")
    return grpc.ssl_channel_credentials(*(pathlib.Path(file).read_bytes() for file in files))


def main():
    parser = argparse.ArgumentParser(description="A Millrace worker in Python: softmax regression.")
    parser.add_argument("--coordinator", required=True, help="HOST:PORT of the coordinator.")
    parser.add_argument("--name", default="python-0", help="Unique among the live workers.")
    for flag, what in [("ca", "The cluster's authority"), ("certificate", "A certificate to show"), ("key", "Its key")]:
        variable = f"MILLRACE_TLS_{flag.upper()}"
        parser.add_argument(f"--tls_{flag}", default=os.environ.get(variable), help=f"{what} (PEM); also {variable}.")
    flags = parser.parse_args()
    return Worker(flags.name, flags.coordinator, channel_security(flags)).run()


if __name__ == "__main__":
    sys.exit(main())
