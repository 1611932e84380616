"""Writes a residual network for CIFAR-10 as a job: examples/cifar10_resnet.textproto is one of depth 20.

    python3 examples/resnet.py --depth=56 > resnet56.textproto

The networks of He et al., "Deep Residual Learning for Image Recognition" (2015), section 4.2: depth 6 n + 2, three
groups of n blocks of two convolutions with 16, 32 and 64 filters. Where a group begins with fewer pixels and more
filters, the shortcut is a convolution of 1x1. Weights decay (L2) by 1e-4.
"""

import argparse

HEAD = """\
# A residual network of depth {depth} on CIFAR-10: colour images of 32x32 pixels in 10 classes.
# Written by examples/resnet.py, which also writes deeper ones.
#
#   millrace train {file} --data=DIR --ps=2 --workers=2
#
# DIR holds the binary version of CIFAR-10 (https://www.cs.toronto.edu/~kriz/cifar.html): data_batch_1.bin to
# data_batch_5.bin and test_batch.bin; as many of the first as there are train.
#
# For each worker it takes the memory that `millrace summary` tells beside the data{expect}.

name: "cifar10-resnet{depth}"

model {{
  # A layer takes the output of the one before it, unless it names its inputs.
"""

# Of depth 20.
EXPECT = """\
, and on two cores about 80 s for the
# 50,000 images of an epoch. After one epoch of one file (10,000 images) expect 0.32 on training batches; held-out images
# take some epochs more, until the moving averages of the normalisations have settled"""

TAIL = """\
  layers { name: "pool" global_average_pooling2d {} }
  layers { name: "classes" dense { units: 10 } }
  loss: SPARSE_CATEGORICAL_CROSSENTROPY
  metrics: ACCURACY
}

data {
  train {
    cifar { files: "data_batch_*.bin" }
    # Each time an image is used it is moved by up to 4 pixels, and mirrored in half of the cases.
    augmentation { crop_padding: 4 horizontal_flip: true }
  }
  evaluate { cifar { files: "test_batch.bin" } }
}

optimizer { sgd { learning_rate: 0.1 momentum: 0.9 } }
synchronous { replicas: 2 }
batch_size: 64  # Of each replica: 128 examples in a version.
epochs: 5
seed: 1
evaluation { every_steps: 782 }
"""


def conv(name, filters, size, strides=1, inputs=""):
    stride = f" strides: {strides}" if strides > 1 else ""
    taken = f'inputs: "{inputs}" ' if inputs else ""
    return (f'  layers {{ name: "{name}" {taken}conv2d {{ filters: {filters} kernel_size: {size}{stride} padding: SAME '
            f"no_bias: true kernel_initializer: HE_NORMAL kernel_regularizer {{ l2: 1e-4 }} }} }}")


def norm(name):
    return f'  layers {{ name: "{name}" batch_normalization {{}} }}'


def relu(name):
    return f'  layers {{ name: "{name}" activation {{ function: RELU }} }}'


def block(name, before, filters, strides):
    """Two convolutions beside a shortcut, from the output of layer `before`."""
    lines = [
        "",
        conv(f"{name}_conv1", filters, 3, strides, inputs=before),
        norm(f"{name}_norm1"),
        relu(f"{name}_relu1"),
        conv(f"{name}_conv2", filters, 3),
        norm(f"{name}_norm2"),
    ]
    shortcut = before
    if strides > 1:
        lines += [conv(f"{name}_shortcut", filters, 1, strides, inputs=before), norm(f"{name}_shortcut_norm")]
        shortcut = f"{name}_shortcut_norm"
    lines += [
        f'  layers {{ name: "{name}_add" inputs: ["{name}_norm2", "{shortcut}"] add {{}} }}',
        relu(f"{name}_out"),
    ]
    return lines


def layers(depth):
    lines = [conv("stem_conv", 16, 3), norm("stem_norm"), relu("stem_out")]
    before = "stem_out"
    for group, filters in enumerate((16, 32, 64), start=1):
        for index in range(1, (depth - 2) // 6 + 1):
            name = f"block{group}_{index}"
            lines += block(name, before, filters, strides=2 if group > 1 and index == 1 else 1)
            before = f"{name}_out"
    return "\n".join(lines) + "\n\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--depth", type=int, default=20, help="6 n + 2: 20, 32, 44, 56, 110")
    depth = parser.parse_args().depth
    if depth < 8 or depth % 6 != 2:
        parser.error(f"--depth: {depth}; must be 6 n + 2, such as 20 or 56")
    if depth == 20:
        head = HEAD.format(depth=depth, file="examples/cifar10_resnet.textproto", expect=EXPECT)
    else:
        head = HEAD.format(depth=depth, file=f"resnet{depth}.textproto", expect="")
    print(head + layers(depth) + TAIL, end="")


if __name__ == "__main__":
    main()
