"""Losses and metrics of Keras, which losses_reference_test of //worker/device/cpu compares ours with.

To make losses.txt again:

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install tensorflow
    /tmp/venv/bin/python testing/reference/losses.py > testing/reference/losses.txt

Keras 3 runs on TensorFlow in float64; all that goes in is float32 numbers. The table has these
lines:

    case NAME
    output SPEC             an OutputSpec in text format
    width N                 numbers of the output for each example
    classes L0 L1 ...       the labels of the batch; or
    labels Y0 Y1 ...        row-major
    weights W0 W1 ...       of the examples; or left out
    values X0 X1 ...        the layer's output, row-major
    loss L                  of the batch in training, as fit computes it
    evaluation L            of the batch in an evaluation
    gradient G0 G1 ...      of the former by the values
    metric NAME V
    matrix N0 N1 ...        the confusion matrix
"""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import keras
import numpy as np
import tensorflow as tf
from keras.src.trainers.data_adapters import data_adapter_utils

keras.config.set_floatx("float64")


def numbers(values):
    return " ".join(f"{value:.17g}" for value in np.asarray(values).ravel())


def float32(values):
    return np.asarray(values, np.float32).astype(np.float64)


def loss_of(name, smoothing, delta):
    losses = keras.losses
    return {
        "SPARSE_CATEGORICAL_CROSSENTROPY":
            lambda: losses.SparseCategoricalCrossentropy(from_logits=True),
        "CATEGORICAL_CROSSENTROPY":
            lambda: losses.CategoricalCrossentropy(from_logits=True, label_smoothing=smoothing),
        "BINARY_CROSSENTROPY":
            lambda: losses.BinaryCrossentropy(from_logits=True, label_smoothing=smoothing),
        "MEAN_SQUARED_ERROR": losses.MeanSquaredError,
        "MEAN_ABSOLUTE_ERROR": losses.MeanAbsoluteError,
        "HUBER": lambda: losses.Huber(delta=delta),
    }[name]()


def metrics_of(loss):
    """Pairs of a MetricSpec and a function of labels and values."""
    metrics = keras.metrics
    sigmoid = lambda x: 1 / (1 + np.exp(-x))

    def result(metric, y, x):
        metric.update_state(y, x)
        return float(metric.result())

    if loss == "SPARSE_CATEGORICAL_CROSSENTROPY":
        return [("metric: ACCURACY", "accuracy",
                 lambda y, x: result(metrics.SparseCategoricalAccuracy(), y, x)),
                ("metric: TOP_K_ACCURACY k: 2", "top_2_accuracy",
                 lambda y, x: result(metrics.SparseTopKCategoricalAccuracy(k=2), y, np.float32(x)))]
    if loss == "CATEGORICAL_CROSSENTROPY":
        return [("metric: ACCURACY", "accuracy",
                 lambda y, x: result(metrics.CategoricalAccuracy(), y, x)),
                ("metric: TOP_K_ACCURACY k: 3", "top_3_accuracy",
                 lambda y, x: result(metrics.TopKCategoricalAccuracy(k=3), y, np.float32(x)))]
    if loss == "BINARY_CROSSENTROPY":
        return [("metric: ACCURACY", "accuracy",
                 lambda y, x: result(metrics.BinaryAccuracy(), y, sigmoid(x))),
                ("metric: PRECISION", "precision",
                 lambda y, x: result(metrics.Precision(), y, sigmoid(x))),
                ("metric: RECALL", "recall", lambda y, x: result(metrics.Recall(), y, sigmoid(x))),
                ("metric: AUC num_thresholds: 200", "auc",
                 lambda y, x: result(metrics.AUC(), y, sigmoid(x)))]
    return [("metric: MAE", "mae", lambda y, x: result(metrics.MeanAbsoluteError(), y, x)),
            ("metric: MSE", "mse", lambda y, x: result(metrics.MeanSquaredError(), y, x)),
            ("metric: RMSE", "rmse", lambda y, x: result(metrics.RootMeanSquaredError(), y, x))]


def few_thresholds(y, x):
    metric = keras.metrics.AUC(num_thresholds=7)
    metric.update_state(y, 1 / (1 + np.exp(-x)))
    return float(metric.result())


def case(name, loss, labels, values, smoothing=0.0, delta=None, class_weights=None, weights=None,
         weight=None, matrix=False, hard=True, thresholds=False):
    function = loss_of(loss, smoothing, 1.0 if delta is None else delta)
    spec = f"loss: {loss}"
    spec += f" label_smoothing: {smoothing}" if smoothing else ""
    spec += f" huber_delta: {delta}" if delta is not None else ""
    spec += f" class_weights: {list(class_weights)}" if class_weights else ""
    spec += f" weight: {weight}" if weight is not None else ""
    metrics = metrics_of(loss) if hard else []
    if thresholds:
        metrics = [m for m in metrics if m[1] != "auc"]
        metrics.append(("metric: AUC num_thresholds: 7", "auc", few_thresholds))
    if matrix:
        spec += " metrics { metric: CONFUSION_MATRIX }"
    spec += "".join(f" metrics {{ {text} }}" for text, _, _ in metrics)
    is_class = labels.dtype == np.int64
    y = labels.reshape(-1, 1) if is_class and loss == "BINARY_CROSSENTROPY" else labels
    counts = None if weights is None else float32(weights)
    trained = counts
    if class_weights:
        by_class = np.asarray(data_adapter_utils.class_weight_to_sample_weights(
            y, dict(enumerate(class_weights))), np.float64)
        trained = by_class if counts is None else by_class * counts
    x = tf.Variable(values)
    factor = 1.0 if weight is None else weight
    with tf.GradientTape() as tape:
        mean = function(y, x, sample_weight=trained) * factor
    print("case", name)
    print("output", spec)
    print("width", values.shape[1])
    print("classes" if is_class else "labels", numbers(labels))
    if counts is not None:
        print("weights", numbers(counts))
    print("values", numbers(values))
    print("loss", numbers(mean))
    print("evaluation", numbers(function(y, x, sample_weight=counts) * factor))
    print("gradient", numbers(tape.gradient(mean, x)))
    for _, metric, of in metrics:
        print("metric", metric, numbers(of(y, values)))
    if matrix:
        given = values.argmax(-1) if values.shape[1] > 1 else (values[:, 0] > 0).astype(int)
        wanted = labels if is_class else labels.argmax(-1)
        classes = values.shape[1] if values.shape[1] > 1 else 2
        print("matrix", *tf.math.confusion_matrix(wanted, given, classes).numpy().ravel())


def main():
    rng = np.random.default_rng(20261123)
    logits = lambda n, k, scale=1: float32(rng.normal(size=[n, k]) * scale)
    soft = lambda n, k: float32(rng.dirichlet(np.ones(k), size=n))
    classes = lambda n, k: rng.integers(0, k, size=n)
    onehot = lambda n, k: np.eye(k)[rng.integers(0, k, size=n)]
    sparse, categorical, binary = ("SPARSE_CATEGORICAL_CROSSENTROPY", "CATEGORICAL_CROSSENTROPY",
                                   "BINARY_CROSSENTROPY")
    some = lambda n: rng.uniform(0, 3, size=n)

    case("sparse", sparse, classes(7, 4), logits(7, 4), matrix=True)
    case("sparse_class_weights", sparse, classes(9, 3), logits(9, 3), class_weights=(0.5, 2, 0))
    case("sparse_weights", sparse, classes(9, 3), logits(9, 3), weights=some(9))
    case("sparse_all_weights", sparse, classes(11, 3), logits(11, 3), weights=some(11),
         class_weights=(0.25, 1.5, 3), weight=0.5)
    case("categorical", categorical, onehot(7, 5), logits(7, 5), matrix=True)
    case("categorical_smoothed", categorical, onehot(7, 5), logits(7, 5, 3), smoothing=0.25)
    case("categorical_probabilities", categorical, soft(6, 4), logits(6, 4), smoothing=0.125)
    case("categorical_large_logits", categorical, onehot(6, 4), logits(6, 4, 200))
    case("categorical_all_weights", categorical, onehot(8, 3), logits(8, 3), weights=some(8),
         class_weights=(0.25, 1.5, 3), weight=2.0)
    case("binary", binary, classes(40, 2), logits(40, 1, 2), matrix=True)
    case("binary_thresholds", binary, classes(60, 2), logits(60, 1, 2), thresholds=True)
    case("binary_smoothed", binary, classes(9, 2), logits(9, 1), smoothing=0.25)
    case("binary_class_weights", binary, classes(9, 2), logits(9, 1), class_weights=(1, 4))
    case("binary_floats", binary, float32(rng.integers(0, 2, size=[9, 1])), logits(9, 1))
    case("binary_many", binary, float32(rng.integers(0, 2, size=[8, 5])), logits(8, 5),
         weights=some(8), smoothing=0.125)
    case("binary_probabilities", binary, float32(rng.uniform(0, 1, size=[6, 3])), logits(6, 3),
         hard=False)
    case("binary_large_logits", binary, classes(9, 2), logits(9, 1, 100))
    case("binary_nobody_positive", binary, np.ones(5, np.int64), -np.abs(logits(5, 1)))
    for loss in ("MEAN_SQUARED_ERROR", "MEAN_ABSOLUTE_ERROR", "HUBER"):
        name = loss.lower()
        case(name, loss, logits(7, 1, 2), logits(7, 1, 2))
        case(name + "_many", loss, logits(5, 3, 2), logits(5, 3, 2))
        case(name + "_weights", loss, logits(6, 2, 2), logits(6, 2, 2), weights=some(6), weight=3.0)
    case("huber_delta", "HUBER", logits(9, 2, 2), logits(9, 2, 2), delta=0.25)


if __name__ == "__main__":
    main()
