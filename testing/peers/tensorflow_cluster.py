"""TensorFlow's parameter servers and workers on this machine, each a process.

    TF_CONFIG=... PYTHON tensorflow_cluster.py      one of them, until it is killed
"""

import contextlib
import json
import os
import socket
import subprocess
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow as tf

SERVERS = 2
WORKERS = 2


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def serve():
    """A task of the cluster that TF_CONFIG describes, until it is killed."""
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    server = tf.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc", start=True)
    server.join()


def start_tasks(cluster):
    tasks = []
    for kind in ("ps", "worker"):
        for index in range(len(cluster[kind])):
            config = json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})
            tasks.append(subprocess.Popen(
                [sys.executable, __file__], env={**os.environ, "TF_CONFIG": config}, stderr=subprocess.DEVNULL))
    return tasks


@contextlib.contextmanager
def coordinator():
    """Of a cluster of SERVERS and WORKERS, which ends with it. Whole variables, one server after the other."""
    cluster = {
        "chief": [f"127.0.0.1:{free_port()}"],
        "ps": [f"127.0.0.1:{free_port()}" for _ in range(SERVERS)],
        "worker": [f"127.0.0.1:{free_port()}" for _ in range(WORKERS)],
    }
    tasks = start_tasks(cluster)
    try:
        os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": "chief", "index": 0}})
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        strategy = tf.distribute.ParameterServerStrategy(
            resolver, variable_partitioner=tf.distribute.experimental.partitioners.FixedShardsPartitioner(1))
        yield tf.distribute.coordinator.ClusterCoordinator(strategy)
    finally:
        for task in tasks:
            task.kill()


if __name__ == "__main__":
    serve()
