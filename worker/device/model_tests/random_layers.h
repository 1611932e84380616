// Layers with fields that nobody thought of, as texts of LayerSpec.
#ifndef MILLRACE_WORKER_DEVICE_MODEL_TESTS_RANDOM_LAYERS_H_
#define MILLRACE_WORKER_DEVICE_MODEL_TESTS_RANDOM_LAYERS_H_

#include <string>

#include "protos/model.pb.h"
#include "worker/device/model_tests/random_models.h"
#include "worker/input/example_spec.h"
#include "worker/model/shape.h"

namespace millrace::worker {

// One that may fit an input of that shape, and perhaps does not.
std::string LayerText(const Shape& input, Choices* choices);

// The same, of which the output mostly has that shape, too.
std::string SameShapeText(const Shape& input, Choices* choices);

// Fits the feature, which is of ids.
std::string EmbeddingText(const TensorSpec& feature, Choices* choices);

// What does not change the shapes of the layer's variables is drawn anew, perhaps.
LayerSpec ChangedCall(LayerSpec layer, Choices* choices);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_MODEL_TESTS_RANDOM_LAYERS_H_
