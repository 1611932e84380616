// Whether GPUs do with a model what the processor does, however values come, and always the same.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_RANDOM_MODEL_CHECK_H_
#define MILLRACE_WORKER_DEVICE_CUDA_RANDOM_MODEL_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "worker/device/model_tests/random_models.h"

namespace millrace::worker {

// What is checked besides one GPU in float32.
enum class ModelVariation {
  kArriving,
  kAhead,
  kTwoGpus,
  kTf32,
  kBfloat16,
  kAnyOrder,
  kWholeTables
};
inline constexpr int kModelVariations = 7;

// What is wrong, in words; nothing: it is all right. Sizes of batches, values and examples follow
// from the seed.
std::vector<std::string> CheckRandomModel(const RandomModel& model, ModelVariation variation,
                                          uint64_t seed);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CUDA_RANDOM_MODEL_CHECK_H_
