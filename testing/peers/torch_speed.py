"""Steps a second of ResNet-20, ResNet-56 and wide_mlp in PyTorch: the models of examples/, the same batches.

    python3 torch_speed.py [--device=cuda] [--mode=eager|graph|compile] [--models=...] [--precisions=...]

A step is what testing/benchmarks/gpu_benchmark measures: forward pass, mean loss, backward pass, the decay of weights
added to gradients (in one call, as PyTorch's optimizers have it); without an optimizer. Three figures for each model and
precision, the last one on a GPU alone:

    compute     values and batch stay on the device, and so do the gradients
    with_copies as a step of a worker: values and batch come from pinned memory, gradients go there
    ahead       the same, but the next step's values and batch come to a second place while the backward pass runs, from where
                the GPU copies them when it is done, as in gpu_benchmark --ahead. Unlike there, no gradient goes before the
                pass is done; and the host of a captured step waits for the values, too, not for the gradients alone

Precisions: float32 without TF32 ("highest"), tf32 ("high"), bfloat16 by autocast, whose values between layers are in
bfloat16, too; of ours, only those between dense layers are. Convolutions are channels_last and cuDNN looks for the
fastest. --mode=graph captures a step with torch.cuda.graph, copies included; --mode=compile has torch.compile make
forward and backward. Prints a line of JSON each.
"""

import argparse
import contextlib
import json
import statistics
import time

import torch
from torch import nn
from torch.nn import functional

DECAY = 1e-4


class Block(nn.Module):

    def __init__(self, before, filters, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, filters, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(filters)
        self.conv2 = nn.Conv2d(filters, filters, 3, 1, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(filters)
        self.shortcut = nn.Identity()
        if stride > 1:
            self.shortcut = nn.Sequential(nn.Conv2d(before, filters, 1, stride, bias=False), nn.BatchNorm2d(filters))

    def forward(self, x):
        y = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


def resnet(depth):
    layers = [nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    before = 16
    for filters in (16, 32, 64):
        for index in range((depth - 2) // 6):
            layers.append(Block(before, filters, 2 if filters > 16 and index == 0 else 1))
            before = filters
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def wide_mlp():
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 10))


MODELS = {
    "resnet20": (lambda: resnet(20), (3, 32, 32), 128),
    "resnet56": (lambda: resnet(56), (3, 32, 32), 128),
    "wide_mlp": (wide_mlp, (1, 28, 28), 4096),
}


class Step:
    """A model with a batch, and where both come from."""

    def __init__(self, name, precision, mode, options):
        make, shape, batch = MODELS[name]
        self.batch = options.batch or batch
        self.device = torch.device(options.device)
        self.precision = precision
        self.model = make().to(self.device, memory_format=torch.channels_last)
        self.decayed = [m.weight for m in self.model.modules() if isinstance(m, nn.Conv2d)]
        host = torch.rand(self.batch, *shape).contiguous(memory_format=torch.channels_last)
        labels = torch.randint(0, 10, (self.batch,))
        self.x = host.to(self.device)
        self.labels = labels.to(self.device)
        pin = self.device.type == "cuda"
        self.host = [(self.x, self.pinned(host, pin)), (self.labels, self.pinned(labels, pin))]
        self.host += [(p.data, self.pinned(p.detach().cpu(), pin)) for p in self.model.parameters()]
        self.ahead_of = [torch.empty_like(to) for to, _ in self.host]
        self.is_captured = mode == "graph"
        self.compute, self.whole, self.overlapped = self.once, self.once_with_copies, self.once_ahead
        if pin:
            self.stream_in, self.stream_out = torch.cuda.Stream(), torch.cuda.Stream()
        if mode == "compile":
            torch.compiler.reset()  # It compiles a function 8 times at most, and then runs it as it is.
            self.loss = torch.compile(self.loss)
        for _ in range(3):
            self.once()
        self.out = [(self.pinned(p.grad.detach().cpu(), pin), p) for p in self.model.parameters()]
        if self.is_captured:
            self.compute, self.whole, self.overlapped = map(self.captured,
                                                            (self.once, self.once_with_copies, self.once_ahead))

    @staticmethod
    def pinned(tensor, pin):
        return tensor.pin_memory() if pin else tensor.clone()

    def loss(self):
        autocast = contextlib.nullcontext()
        if self.precision == "bfloat16":
            autocast = torch.autocast(self.device.type, dtype=torch.bfloat16)
        with autocast:
            logits = self.model(self.x)
        return functional.cross_entropy(logits.float(), self.labels)

    def once(self):
        self.model.zero_grad(set_to_none=True)
        self.backward(self.loss())

    def backward(self, loss):
        loss.backward()
        if self.decayed:
            with torch.no_grad():
                torch._foreach_add_([w.grad for w in self.decayed], self.decayed, alpha=2 * DECAY)

    def captured(self, run):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                run()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            run()
        return graph.replay

    def copy_in(self):
        with torch.no_grad():
            for to, source in self.host:
                to.copy_(source, non_blocking=True)

    def copy_out(self):
        for to, parameter in self.out:
            to.copy_(parameter.grad, non_blocking=True)

    def once_with_copies(self):
        self.copy_in()
        self.once()
        self.copy_out()

    def once_ahead(self):
        here = torch.cuda.current_stream()
        self.model.zero_grad(set_to_none=True)
        loss = self.loss()
        self.stream_in.wait_stream(here)
        with torch.cuda.stream(self.stream_in):
            for second, (_, source) in zip(self.ahead_of, self.host):
                second.copy_(source, non_blocking=True)
        self.backward(loss)
        self.stream_out.wait_stream(here)
        with torch.cuda.stream(self.stream_out):
            self.copy_out()
        here.wait_stream(self.stream_in)
        with torch.no_grad():
            for second, (to, _) in zip(self.ahead_of, self.host):
                to.copy_(second)
        here.wait_stream(self.stream_out)

    def with_copies(self):
        self.whole()
        self.wait()

    def ahead(self):
        self.overlapped()
        if self.is_captured:
            self.wait()
        else:
            self.stream_out.synchronize()

    def alone(self):
        self.compute()

    def wait(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def rates(step, run, options):
    for _ in range(options.warmup):
        run()
    step.wait()
    measured = []
    for _ in range(options.rounds):
        begin = time.perf_counter()
        for _ in range(options.steps):
            run()
        step.wait()
        measured.append(options.steps / (time.perf_counter() - begin))
    return {"median": statistics.median(measured), "least": min(measured), "most": max(measured)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--mode", default="eager", choices=["eager", "graph", "compile"])
    parser.add_argument("--models", default="resnet20,resnet56,wide_mlp")
    parser.add_argument("--precisions", default="float32,tf32,bfloat16")
    parser.add_argument("--batch", type=int, default=0, help="0: as in the module's text")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--warmup", type=int, default=10)
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    for name in options.models.split(","):
        for precision in options.precisions.split(","):
            torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
            torch.backends.cudnn.allow_tf32 = precision == "tf32"
            step = Step(name, precision, options.mode, options)
            line = {
                "what": "torch", "torch": torch.__version__, "mode": options.mode, "job": name, "device": options.device,
                "precision": precision, "batch": step.batch, "compute": rates(step, step.alone, options),
                "with_copies": rates(step, step.with_copies, options)}
            if step.device.type == "cuda":
                line["ahead"] = rates(step, step.ahead, options)
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
