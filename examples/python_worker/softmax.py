"""Softmax regression: the loss and its gradient, and the job's variables."""

import math

import numpy as np
from job_data import Unknown, refuse_others
from protos import job_pb2, model_pb2

KNOWN = ("this worker computes softmax regression: layers { flatten {} } where examples are images, then layers "
         "{ dense { units: CLASSES } } without more, loss: SPARSE_CATEGORICAL_CROSSENTROPY, metrics: ACCURACY or none")


def names_of(message, field, numbers):
    values = message.DESCRIPTOR.fields_by_name[field].enum_type.values_by_number
    return [values[number].name for number in numbers]


class Softmax:
    """Of a ModelSpec and the shape of an example."""

    def __init__(self, model, shape):
        refuse_others(model, "model", ["layers", "loss", "metrics"])
        kinds = [layer.WhichOneof("kind") for layer in model.layers]
        images = len(shape) > 1
        if (kinds != (["flatten", "dense"] if images else ["dense"])
                or model.layers[-1].dense != model_pb2.Dense(units=model.layers[-1].dense.units)
                or names_of(model, "loss", [model.loss]) != ["SPARSE_CATEGORICAL_CROSSENTROPY"]
                or set(names_of(model, "metrics", model.metrics)) - {"ACCURACY"}):
            raise Unknown(f"model: {KNOWN}")
        for i, layer in enumerate(model.layers):
            refuse_others(layer, f"model.layers[{i}]", ["name", "flatten", "dense"])
        self.wants_accuracy = len(model.metrics) > 0
        self.inputs, self.classes = math.prod(shape), model.layers[-1].dense.units
        name = model.layers[-1].name or f"dense_{len(kinds) - 1}"
        limit = math.sqrt(6 / (self.inputs + self.classes))  # GLOROT_UNIFORM
        self.variables = [
            job_pb2.VariableSpec(name=f"{name}/kernel", shape=[self.inputs, self.classes],
                                 initial_value={"uniform": {"low": -limit, "high": limit}}),
            job_pb2.VariableSpec(name=f"{name}/bias", shape=[self.classes], initial_value={"constant": 0})]

    def _evaluate(self, values, features, labels):
        """The probabilities, the sum of the losses, how many are right."""
        logits = features @ values[0].reshape(self.inputs, self.classes) + values[1]
        shifted = logits - logits.max(axis=1, keepdims=True)
        sums = np.exp(shifted).sum(axis=1)
        rows = np.arange(len(labels))
        losses = np.log(sums) - shifted[rows, labels]
        right = int((logits.argmax(axis=1) == labels).sum())
        return np.exp(shifted) / sums[:, None], float(losses.sum(dtype=np.float64)), right

    def sums(self, values, features, labels):
        """The sum of the losses, how many are right."""
        return self._evaluate(values, features, labels)[1:]

    def gradient(self, values, features, labels):
        """Of the mean loss: one flat array for each variable; and the sums."""
        error, loss, right = self._evaluate(values, features, labels)
        error[np.arange(len(labels)), labels] -= 1
        error /= np.float32(len(labels))
        return [(features.T @ error).ravel(), error.sum(axis=0)], loss, right
