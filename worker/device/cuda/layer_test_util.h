// One layer on a GPU and its twin on the CPU.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_LAYER_TEST_UTIL_H_
#define MILLRACE_WORKER_DEVICE_CUDA_LAYER_TEST_UTIL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "protos/model.pb.h"
#include "worker/device/cuda/descriptions.h"
#include "worker/input/batch.h"
#include "worker/model/layer_plan.h"

namespace millrace::worker {

// What a layer is given. Cases below start with random values; tests may replace them.
struct LayerCase {
  LayerPlan plan;
  size_t index = 3;  // In the model.
  // Applied to what the layer gives: by the CPU's twin afterwards, by the GPU in the layer.
  Activation then = LINEAR;
  size_t batch = 1;
  bool training = true;
  uint64_t seed = 42;
  std::vector<std::vector<float>> x;           // By input; none of ids.
  std::vector<std::vector<float>> parameters;  // By role; empty where the layer has none.
  Tensor ids;                                  // Of a layer that takes ids.
  std::vector<float> dy;
  std::vector<bool> asked;  // Whether dx is, by input.
  bool one_value = false;   // All inputs stand where the first does.
  // On the GPU.
  cuda::Precision precision = cuda::Precision::kFloat32;
  bool deterministic = true;
};

// `spec` is a LayerSpec in text format. Values are uniform in [-1, 1], moving variances above 0;
// the same for the same arguments.
LayerCase MakeLayerCase(const std::string& spec, const std::vector<Shape>& inputs, size_t batch,
                        bool trainable = true);

// The same of an embedding. `lengths`: ragged, ids of each example; empty: ids of `input` each.
LayerCase MakeEmbeddingCase(const std::string& spec, const Shape& input, size_t batch,
                            const std::vector<size_t>& lengths = {}, bool trainable = true);

// Rounds all values to small whole numbers, so that their sums are exact in any order.
void UseWholeNumbers(LayerCase* c);

struct LayerResult {
  std::vector<float> y;
  std::vector<std::vector<float>> dx;         // By input; empty where it is not asked for.
  std::vector<std::vector<float>> gradients;  // By role; empty where it was not finished.
};

LayerResult RunOnCpu(const LayerCase& c);

// `in_place`: output and gradients stand where LayerTraits allow it. What the backward pass may not
// take is spoiled before it.
LayerResult RunOnGpu(const LayerCase& c, bool in_place = false);

// How far numbers up to 1 may be from what is expected; of larger ones the share.
struct Tolerance {
  // NOLINTNEXTLINE(google-explicit-constructor): most have one for all.
  Tolerance(double of_all) : y(of_all), gradients(of_all) {}
  Tolerance(double of_y, double of_gradients) : y(of_y), gradients(of_gradients) {}

  double y;
  double gradients;  // dx, too.
};

// Numbers that are not finite are equal.
void ExpectClose(const LayerResult& actual, const LayerResult& expected,
                 const Tolerance& tolerance);

// Bit by bit.
void ExpectSame(const LayerResult& actual, const LayerResult& expected);

// That the GPU's results are close to the CPU's, and the same bits in place, and whatever the order
// of the GPU's threads, if it is deterministic; otherwise close in any order.
void ExpectLikeCpu(const LayerCase& c, const Tolerance& tolerance);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CUDA_LAYER_TEST_UTIL_H_
