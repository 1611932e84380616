"""A job's values and gradients, to and from its ps servers, under one generation of its routing."""

import queue
import random
import threading
import time

import grpc
import numpy as np
from protos import parameter_server_pb2 as pb
from protos import parameter_server_pb2_grpc

BLOCK = 1 << 18  # Elements of a message: 1 MiB.
CALL_TIMEOUT = 10.0  # Seconds without an answer, after which a request is made again.
VERSION_TIMEOUT = 2.0  # How long a server is asked to wait for a version.
PAUSE = 0.1

# Answers that say: make the request again, under another id.
PASSING = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.ABORTED, grpc.StatusCode.RESOURCE_EXHAUSTED,
           grpc.StatusCode.DEADLINE_EXCEEDED}
CODES = {code.value[0]: code for code in grpc.StatusCode}
CHANNEL_OPTIONS = [("grpc.max_receive_message_length", 16 << 20), ("grpc.enable_http_proxy", 0),
                   ("grpc.initial_reconnect_backoff_ms", 50), ("grpc.min_reconnect_backoff_ms", 50),
                   ("grpc.max_reconnect_backoff_ms", 250)]


class Refused(Exception):
    """A request was refused, or is not wanted any more; `code` is a grpc.StatusCode."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def random_id():
    return random.SystemRandom().getrandbits(64)


class Stream:
    """A call that stays open from step to step; opened anew after an error."""

    def __init__(self, method):
        self._method, self._requests, self._call = method, None, None

    def ask(self, requests, is_last):
        """Sends the requests; returns the answers up to the last one. grpc.RpcError: the stream broke."""
        if self._call is None:
            self._requests = queue.SimpleQueue()
            self._call = self._method(iter(self._requests.get, None))
        for request in requests:
            self._requests.put(request)
        silence = threading.Timer(CALL_TIMEOUT, self._call.cancel)
        silence.daemon = True
        silence.start()
        answers = []
        try:
            for answer in self._call:
                answers.append(answer)
                if is_last(answer):
                    return answers
            raise Refused(grpc.StatusCode.UNAVAILABLE, "the server has ended the stream")
        except BaseException:
            self.close()
            raise
        finally:
            silence.cancel()

    def close(self):
        if self._call is not None:
            self._requests.put(None)
            self._call.cancel()
            self._call = None


def open_channel(address, security):
    """`security`: grpc.ChannelCredentials; None: plain text."""
    if security is None:
        return grpc.insecure_channel(address, CHANNEL_OPTIONS)
    return grpc.secure_channel(address, security, CHANNEL_OPTIONS)


class Shard:
    """Where a part of the variables is, and the streams to its server."""

    def __init__(self, route, security):
        self.route = route
        self._channel = open_channel(route.address, security)
        stub = parameter_server_pb2_grpc.ParameterServerStub(self._channel)
        self.pushes, self.pulls = Stream(stub.Push), Stream(stub.Pull)

    def close(self):
        self.pushes.close()
        self.pulls.close()
        self._channel.close()


class Parameters:
    """`sizes`: the elements of each variable. Not thread-safe."""

    def __init__(self, job_id, routing, sizes, security):
        self._key = {"job_id": job_id, "generation": routing.generation}
        self._sizes = sizes
        self._shards = [Shard(route, security) for route in routing.shards]

    def close(self):
        for shard in self._shards:
            shard.close()

    def pull(self, wanted, **which):
        """One flat array for each variable: of `version`, of `cut_id`, or the newest values."""
        values = [np.empty(size, np.float32) for size in self._sizes]
        for shard in self._shards:
            self._until_done(wanted, shard, lambda shard=shard: self._pull_shard(shard, which, values))
        return values

    def push(self, wanted, step, examples, gradients):
        """Returns when every shard has acknowledged the step."""
        for shard in self._shards:
            self._until_done(wanted, shard, lambda shard=shard: self._push_shard(shard, step, examples, gradients))

    def _until_done(self, wanted, shard, attempt):
        """Tries until it works. `wanted` raises Refused when that has no use any more."""
        while True:
            wanted()
            try:
                return attempt()
            except grpc.RpcError as error:  # Whatever gRPC makes of a server that is gone: it may be back.
                code = grpc.StatusCode.UNAVAILABLE
                reason = f"{shard.route.server}: {error.details()}"
            except Refused as error:
                code = error.code
                reason = f"{shard.route.server}: {error}"
            if code not in PASSING:
                # The shard is behind; in LeaseReturned OUT_OF_RANGE would say that the loss is no number.
                raise Refused(grpc.StatusCode.ABORTED if code == grpc.StatusCode.OUT_OF_RANGE else code, reason)
            time.sleep(PAUSE)

    def _pull_shard(self, shard, which, values):
        request = pb.PullRequest(**self._key, shard=shard.route.shard, pull_id=random_id(), **which)
        if "version" in which:
            request.timeout.FromMilliseconds(int(VERSION_TIMEOUT * 1000))
        received = 0
        for answer in shard.pulls.ask([request], lambda answer: answer.last):
            if answer.code:
                raise Refused(CODES[answer.code], answer.message)
            for piece in answer.pieces:
                place = shard.route.slices[piece.slice]
                data = np.frombuffer(piece.data, "<f4")
                begin = place.offset + piece.offset
                values[place.variable][begin:begin + len(data)] = data
                received += len(data)
        expected = sum(place.length for place in shard.route.slices)
        if received != expected:
            raise Refused(grpc.StatusCode.ABORTED, f"{received} of {expected} elements came")

    def _push_shard(self, shard, step, examples, gradients):
        header = dict(self._key, shard=shard.route.shard, step=step, push_id=random_id(), examples=examples)
        messages = []
        for index, place in enumerate(shard.route.slices):
            part = gradients[place.variable][place.offset:place.offset + place.length].astype("<f4")
            for offset in range(0, len(part), BLOCK):
                piece = pb.Piece(slice=index, offset=offset, data=part[offset:offset + BLOCK].tobytes())
                messages.append(pb.PushRequest(**header, pieces=[piece]))
        answers = shard.pushes.ask(messages, lambda answer: answer.push_id == header["push_id"])
        if answers[-1].code:
            raise Refused(CODES[answers[-1].code], answers[-1].message)
