// What layers give, computed once more by the formulas of protos/model.proto: in float64, in plain
// loops, and with nothing of what the devices share but plans, their shapes and the dropout's
// numbers.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_KERNELS_TESTING_FLOAT64_LAYERS_H_
#define MILLRACE_WORKER_DEVICE_CUDA_KERNELS_TESTING_FLOAT64_LAYERS_H_

#include <cstddef>
#include <vector>

#include "worker/device/cuda/layer_test_util.h"

namespace millrace::worker {

using Doubles = std::vector<double>;

// What the formulas take.
struct Float64Values {
  explicit Float64Values(const LayerCase& c);

  // The parameter's i-th element; `otherwise` where the layer has none.
  double Parameter(size_t role, size_t i, double otherwise) const {
    return role < parameters.size() && !parameters[role].empty() ? parameters[role][i] : otherwise;
  }

  std::vector<Doubles> x;           // By input; none of ids.
  std::vector<Doubles> parameters;  // By role; empty where the layer has none.
};

// The case's y. REQUIRES: a layer that is no view.
Doubles Float64Forward(const LayerCase& c, const Float64Values& values);

// The mean (kMovingMean) or the variance (kMovingVariance) of each channel of a batch
// normalization's input.
Doubles Float64Statistics(const LayerCase& c, const Float64Values& values, size_t role);

// The part of it that is convolutions and poolings of windows, without their activations.
Doubles Float64Windows(const LayerCase& c, const Float64Values& values);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CUDA_KERNELS_TESTING_FLOAT64_LAYERS_H_
