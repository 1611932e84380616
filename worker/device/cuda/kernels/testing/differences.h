// Gradients against central differences of the same computation in float64.
//
// With a step of 1e-6 rounding makes the differences wrong by about 1e-10 of what is
// differentiated, and the third derivative by about as much, so that what is compared is the
// float32 of the kernels alone. A kink (of a ReLU, of the choice of the largest) within a step of a
// value would spoil that: see KeepFromKinks.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_KERNELS_TESTING_DIFFERENCES_H_
#define MILLRACE_WORKER_DEVICE_CUDA_KERNELS_TESTING_DIFFERENCES_H_

#include <functional>
#include <vector>

#include "worker/device/cuda/kernels/testing/float64_layers.h"
#include "worker/device/cuda/layer_test_util.h"

namespace millrace::worker {

// Which differences are taken.
enum class Steps {
  kOfEach,    // By each number.
  kTogether,  // By all at once, each up or down: two computations, however many numbers there are.
};

// That all of `actual` is within `tolerance` times the largest of `expected`, but at least a tenth
// of `tolerance`.
void ExpectNumbers(const std::vector<float>& actual, const Doubles& expected, double tolerance);

// That `gradient` is that of `objective` by `*values`, which it reads. `tolerance` as above.
void ExpectDifferenceQuotients(const std::vector<float>& gradient, Doubles* values,
                               const std::function<double()>& objective, Steps steps,
                               double tolerance);

// That y on the GPU is that of float64, the gradient by each input that is asked for, and by each
// parameter that is trained, those of the sum of y * dy; and what batch normalizations tell of the
// batch its mean and variance.
void ExpectLikeFloat64(const LayerCase& c, Steps steps, const Tolerance& tolerance);

// Chooses values that are well away from where the layer's gradient jumps: the same for the same
// case. Layers without kinks, and ReLU within a batch normalization, stay as they are.
// REQUIRES: a product with RELU or RELU6 has a bias.
void KeepFromKinks(LayerCase* c);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CUDA_KERNELS_TESTING_DIFFERENCES_H_
