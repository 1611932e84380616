#!/usr/bin/env python3
"""Puts the variables of a Millrace job back into the Keras model that the job was converted from.

    millrace convert model.keras > job.textproto
    millrace train job.textproto --data=DIR --export=variables.npz
    python3 keras_weights.py model.keras variables.npz trained.keras

Needs Keras and NumPy. `millrace checkpoints export` and `millrace export` write such files too.
"""

import sys

import keras
import numpy


def variables_of(layer, prefix):
    """The weights of a layer, each with its name in the job."""
    name = prefix + layer.name
    for weight in layer.weights:
        kind = weight.name.split("/")[-1].split(":")[0]
        if isinstance(layer, keras.layers.SeparableConv2D):
            # It is a DepthwiseConv2D and a Conv2D there.
            yield weight, f"{name}_depthwise/kernel" if kind == "depthwise_kernel" else (
                f"{name}/{kind.replace('pointwise_', '')}"
            )
        else:
            yield weight, f"{name}/{kind.replace('depthwise_', '')}"


def all_variables_of(model, prefix=""):
    for layer in model.layers:
        if isinstance(layer, keras.Model):
            yield from all_variables_of(layer, f"{prefix}{layer.name}.")
        else:
            yield from variables_of(layer, prefix)


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    model_file, variables_file, trained_file = sys.argv[1:]
    model = keras.models.load_model(model_file, compile=False)
    values = dict(numpy.load(variables_file))
    unused = set(values)
    for weight, name in all_variables_of(model):
        if name not in values:
            sys.exit(f"{variables_file} has no {name}; it has {', '.join(sorted(values))}")
        if values[name].shape != tuple(weight.shape):
            sys.exit(f"{name}: {values[name].shape} in {variables_file}, {weight.shape} in {model_file}")
        weight.assign(values[name])
        unused.discard(name)
    if unused:
        sys.exit(f"{model_file} has no {', '.join(sorted(unused))}")
    model.save(trained_file)
    print(f"{trained_file} has the {len(values)} variables of {variables_file}")


if __name__ == "__main__":
    main()
