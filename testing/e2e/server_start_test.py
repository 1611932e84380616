"""How the three servers start, refuse to start, and stop."""

import contextlib
import json
import os
import socket
import subprocess
import unittest

import harness


def run(*arguments, env=None):
    return subprocess.run([str(a) for a in arguments], capture_output=True, text=True, timeout=harness.DEADLINE, env=env)


def with_open_files(limit, *arguments):
    """The command line that runs `arguments` with so many open files."""
    return ["sh", "-c", f'ulimit -n {limit} && exec "$@"', "sh", *arguments]


def with_tf_config(config):
    text = config if isinstance(config, str) else json.dumps(config)
    return {**os.environ, "TF_CONFIG": text}


class ServerStartTest(unittest.TestCase):

    def setUp(self):
        self.directory = harness.temporary_directory()

    def refused(self, result, code, *words):
        text = result.stdout + result.stderr
        self.assertEqual(result.returncode, code, text)
        for word in words:
            self.assertIn(word, text)

    def test_port_in_use(self):
        with harness.Cluster() as cluster:
            port = cluster.address.split(":")[1]
            cluster.millrace("list")  # Waits until the coordinator serves.
            self.refused(
                run("coordinator/coordinator", f"--listen={cluster.address}", f"--data_dir={self.directory}/c"), 1, port, "in use")

    def test_directory_locked_by_a_running_server(self):
        with harness.Cluster() as cluster:
            cluster.millrace("list")
            directory = f"{cluster.directory}/coordinator"
            self.refused(run("coordinator/coordinator", "--listen=127.0.0.1:0", f"--data_dir={directory}"), 1, directory)

    def test_directory_of_another_kind_of_server(self):
        with harness.Cluster() as cluster:
            cluster.millrace("list")
            self.assertEqual(cluster.coordinator.terminate(), 0)
            directory = f"{cluster.directory}/coordinator"
            self.refused(run("ps/ps", "--listen=127.0.0.1:0", f"--data_dir={directory}", "--coordinator=127.0.0.1:1"), 1, directory)

    def test_insecure_servers_bind_to_loopback_unless_told_otherwise(self):
        self.refused(
            run("coordinator/coordinator", "--listen=0.0.0.0:0", f"--data_dir={self.directory}/c"), 1, "0.0.0.0", "--allow_insecure_remote")

    def test_malformed_tf_config(self):
        cluster = {"chief": ["127.0.0.1:1"], "ps": ["127.0.0.1:2"], "worker": ["127.0.0.1:3"]}
        for config, words in [
            ("{not json", ["TF_CONFIG", "line 1, column 3"]),
            ({"cluster": cluster, "task": {"type": "worker", "index": 0}}, ["TF_CONFIG.task.type", "worker", "ps"]),
            ({"cluster": cluster}, ["TF_CONFIG", "task"]),
            ({"cluster": cluster, "task": {"type": "ps", "index": 7}}, ["TF_CONFIG", "index", "7"]),
            ({"cluster": {"ps": ["127.0.0.1:2"]}, "task": {"type": "ps", "index": 0}}, ["TF_CONFIG", "chief"]),
        ]:
            with self.subTest(str(config)):
                self.refused(run("ps/ps", f"--data_dir={self.directory}/ps", env=with_tf_config(config)), 2, *words)

    def test_flags_that_say_all_win_over_a_malformed_tf_config(self):
        process = harness.Process(
            "ps", ["ps/ps", f"--data_dir={self.directory}/ps", "--listen=127.0.0.1:0", "--name=ps-0", "--coordinator=127.0.0.1:1"],
            self.directory, with_tf_config("{not json"))
        try:
            process.address()
            self.assertEqual(process.terminate(), 0)
        finally:
            process.kill()

    def test_addresses_that_cannot_be_dialled_are_wrong_usage(self):
        for flags, words in [
            (["ps/ps", "--coordinator=127.0.0.1"], ["--coordinator", "127.0.0.1", "HOST:PORT"]),
            (["ps/ps", "--coordinator=127.0.0.1:0"], ["--coordinator", "127.0.0.1:0"]),
            (["ps/ps", "--coordinator=127.0.0.1:1", "--listen=0.0.0.0:0", "--allow_insecure_remote"], ["--advertise", "0.0.0.0:0"]),
            (["worker/worker", "--coordinator=127.0.0.1"], ["--coordinator", "127.0.0.1", "HOST:PORT"]),
        ]:
            with self.subTest(str(flags)):
                directory = [f"--data_dir={self.directory}/x"] if flags[0] == "ps/ps" else []
                self.refused(run(*flags, *directory), 2, *words)

    # It lived on, and answered nobody who had no connection yet.
    def test_a_server_that_runs_out_of_open_files_ends(self):
        for name, env, flags in [
            ("coordinator", {}, ["coordinator/coordinator"]),
            ("coordinator-without-log-of-grpc", {"GRPC_VERBOSITY": "NONE"}, ["coordinator/coordinator"]),
            ("ps", {}, ["ps/ps", "--coordinator=127.0.0.1:1"]),
        ]:
            with self.subTest(name), contextlib.ExitStack() as opened:
                flags += ["--listen=127.0.0.1:0", f"--data_dir={self.directory}/{name}"]
                server = harness.Process(name, with_open_files(100, *flags), self.directory, {**os.environ, **env})
                opened.callback(server.kill)
                host, port = server.address().split(":")
                with contextlib.suppress(OSError):  # Once it has ended nobody listens.
                    for _ in range(200):
                        opened.enter_context(socket.create_connection((host, int(port)), timeout=harness.DEADLINE))
                self.assertEqual(server.process.wait(timeout=harness.DEADLINE), 1)
                log = server.log.read_text(errors="replace")
                for word in ("accepts no further connections", "100 can be open", "ulimit -n", "LimitNOFILE=", "start it again"):
                    self.assertIn(word, log)

    def test_wrong_flags_are_wrong_usage(self):
        for binary in ("coordinator/coordinator", "ps/ps", "worker/worker"):
            with self.subTest(binary):
                self.refused(run(binary, f"--data_dir={self.directory}/x", "--no_such_flag"), 2, "no_such_flag")

    def test_a_cluster_described_by_tf_config_trains_with_proxies_in_the_environment(self):
        ports = harness.free_ports(3)
        cluster = {
            "chief": [f"127.0.0.1:{ports[0]}"],
            "ps": [f"127.0.0.1:{ports[1]}", f"127.0.0.1:{ports[2]}"],
            "worker": ["127.0.0.1:9001", "127.0.0.1:9002"],  # Nobody listens there: workers dial.
            "evaluator": ["127.0.0.1:9"],
        }
        proxies = {name: "http://127.0.0.1:9" for name in ("http_proxy", "https_proxy", "grpc_proxy", "HTTP_PROXY", "HTTPS_PROXY")}
        digits = harness.make_digits(self.directory / "digits")
        processes = []

        def start(binary, kind, index, *flags):
            config = {"cluster": cluster, "task": {"type": kind, "index": index}, "rpc_layer": "grpc"}
            processes.append(harness.Process(
                f"{kind}-{index}", [binary, *flags], self.directory, {**with_tf_config(config), **proxies}))

        try:
            start("coordinator/coordinator", "chief", 0, f"--data_dir={self.directory}/chief")
            for i in range(2):
                start("ps/ps", "ps", i, f"--data_dir={self.directory}/ps-{i}")
                start("worker/worker", "worker", i)
            result = harness.millrace(
                "train", "examples/digits.textproto", f"--data={digits}", f"--cluster={cluster['chief'][0]}", "--json",
                "--set", "epochs=1", env={**os.environ, **proxies})
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(harness.final_state(result)["state"], "SUCCEEDED")
            for process in processes:
                self.assertEqual(process.terminate(), 0, process.name)
        finally:
            for process in processes:
                process.kill()


if __name__ == "__main__":
    harness.main()
