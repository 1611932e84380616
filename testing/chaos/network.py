"""Clusters whose messages go through the proxy: dropped, delayed, duplicated, reordered.

What is a fair fault depends on what a protocol may rely on.

- The data plane (Push, Pull) numbers its requests, and nothing depends on their order; of the small
  variables here each push is one message. All four faults are fair, one at a time, in each direction.
  A dropped message takes its stream with it, as that of a broken connection does. On a stream that
  goes on, gRPC itself would have to lose it; where something does, a worker's --step_timeout gives the
  step back, so that is tried too (`lose`), with a short timeout and less often.
- The admin plane is unary calls that may all be repeated: the same.
- Membership is one stream for each member, and relies on its order, which gRPC keeps. There messages
  are delayed, or dropped with the stream; but not one in four, since a member that loses its stream
  begins anew with its registration.
"""

import json

import chaos
import harness

PROXY = "testing/chaos/proxy/proxy"
FAULTS = ("drop", "delay", "duplicate", "reorder")
DIRECTIONS = ("requests", "replies")
DATA_PLANE = "/millrace.ParameterServer/"
ADMIN_PLANE = "/millrace.ParameterServerAdmin/"
MEMBERSHIP = "/millrace.Membership/"
SIZES = (100, 7, 300)
# For messages that are lost and nobody is told.
LOST = {"probability": 0.05, "worker_flags": ("--step_timeout=300ms",)}


class ProxiedCluster(harness.Cluster):
    """A cluster in which workers and the coordinator reach each ps, or members the coordinator, through
    a proxy with `proxy_flags`."""

    def __init__(self, proxy_flags, proxied="ps", workers=3, **kwargs):
        self.proxy_flags = proxy_flags
        self.proxied = proxied
        self.proxies = []
        self.client_address = None
        super().__init__(ps=2, workers=workers, flags=["--heartbeat_period=500ms"], worker=chaos.SUM_WORKER, **kwargs)

    def start_proxy(self, upstream):
        proxy = self.start("proxy", [PROXY, f"--upstream={upstream}", *self.proxy_flags])
        self.proxies.append(proxy)
        return proxy.address()

    def start_coordinator(self):
        coordinator = super().start_coordinator()
        self.client_address = coordinator.address()
        if self.proxied != "coordinator":
            return coordinator
        proxy_address = self.start_proxy(self.client_address)

        class Proxied:
            """What members dial."""
            address = staticmethod(lambda: proxy_address)

        return Proxied

    def start_ps(self, index, listen=None, flags=()):
        if self.proxied != "ps":
            return super().start_ps(index)
        listen = f"127.0.0.1:{harness.free_ports(1)[0]}"
        return super().start_ps(index, listen, [f"--advertise={self.start_proxy(listen)}"])

    def millrace(self, command, *arguments, timeout=harness.DEADLINE):
        return harness.millrace(command, *arguments, f"--cluster={self.client_address}", env=self.env, timeout=timeout)

    def faults(self):
        """Stops the proxies and returns their counts, added up."""
        total = {"requests": 0, "replies": 0, "faults": 0}
        for proxy in self.proxies:
            proxy.terminate()
            counts = json.loads(proxy.log.read_text().strip().splitlines()[-1])
            for name in total:
                total[name] += counts[name]
        return total


def run(fault, direction, methods, steps, seed, probability=0.25, proxied="ps", evaluate_every=0, worker_flags=()):
    """A job of the sum model over a network with one fault; returns the proxies' counts."""
    flags = [f"--fault={fault}", f"--direction={direction}", f"--methods={methods}", f"--seed={seed}",
             f"--probability={probability}"]
    with ProxiedCluster(flags, proxied, worker_flags=worker_flags) as cluster:
        job, data = chaos.write_sum_job(cluster.directory, steps, SIZES, evaluate_every=evaluate_every)
        submitted = cluster.millrace("submit", job, f"--data={data}")
        if submitted.returncode != 0:
            raise AssertionError(f"submit: {submitted.stderr}")
        job_id = submitted.stdout.strip()
        watched = cluster.millrace("watch", job_id, "--json", timeout=3600)
        final = harness.final_state(watched)
        if final["state"] != "SUCCEEDED" or final["step"] != steps:
            raise AssertionError(f"{fault} of {direction}, seed {seed}: {final}")
        chaos.check_applied([process.address() for process in cluster.ps], job_id, shards=2, steps=steps)
        path = cluster.directory / "variables.safetensors"
        exported = cluster.millrace("export", job_id, f"--export={path}")
        if exported.returncode != 0:
            raise AssertionError(f"export: {exported.stderr}")
        chaos.check_sums(path, steps, SIZES)
        counts = cluster.faults()
    chaos.say(f"{methods} {fault} of {direction}, seed {seed}: {steps} steps, {2 * steps} pushes, {counts}")
    if counts["faults"] == 0:
        raise AssertionError(f"{fault} of {direction}, seed {seed}: no message was hit")
    return counts
