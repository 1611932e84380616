"""Jobs of the network that examples/resnet.py writes, on CIFAR-10's data_batch_1.bin."""

import re
import subprocess

# Batches of 128 examples: one version of two replicas, or one step.
MODES = {
    "synchronous": ("synchronous { replicas: 2 }", 64),
    "asynchronous": ("asynchronous {}", 128),
}
BATCH = 128


def steps_of(mode, batches):
    """Steps of a job that does so many batches of 128 examples."""
    return batches * BATCH // MODES[mode][1]


def optimizer_text(name, learning_rate, momentum):
    own = f"momentum: {momentum}" if name == "sgd" else ""
    return f"{name} {{ learning_rate: {learning_rate} {own} }}"


def text(mode, batches, depth=20, optimizer="sgd", learning_rate=0.1, seed=1, augmented=True, momentum=0.9, decay=False,
         staleness_bound=None, more=""):
    """Without evaluations, unless `more` brings one. `more` may refer to test_batch.bin. `momentum` is of sgd alone.
    `decay`: see resnet_accuracy.py."""
    written = subprocess.run(
        ["python3", "examples/resnet.py", f"--depth={depth}"], check=True, capture_output=True, text=True).stdout
    model = re.search(r"^model \{.*?^\}$", written, re.DOTALL | re.MULTILINE).group(0)
    augmentation = "augmentation { crop_padding: 4 horizontal_flip: true }" if augmented else ""
    how, batch_size = MODES[mode]
    if mode == "asynchronous" and staleness_bound is not None:
        how = f"asynchronous {{ staleness_bound: {staleness_bound} }}"
    # In either mode a version is of 128 examples.
    schedule = f"schedule {{ cosine_decay {{ decay_steps: {batches} }} }}" if decay else ""
    evaluate = 'evaluate { cifar { files: "test_batch.bin" } }' if "evaluation" in more else ""
    return f"""{model}
data {{
  train {{ cifar {{ files: "data_batch_1.bin" }} {augmentation} }}
  {evaluate}
}}
optimizer {{ {optimizer_text(optimizer, learning_rate, momentum)} {schedule} }}
{how}
batch_size: {batch_size}
steps: {steps_of(mode, batches)}
seed: {seed}
{more}
"""
