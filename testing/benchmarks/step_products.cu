#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <utility>

#include "testing/benchmarks/random_matrix.h"
#include "testing/benchmarks/step_products.h"
#include "worker/device/cuda/kernels/handles.h"
#include "worker/device/cuda/kernels/launch.h"
#include "worker/device/cuda/kernels/product_algorithm.h"
#include "worker/device/cuda/kernels/product_plan.h"
#include "worker/device/cuda/kernels/products.h"

namespace millrace::testing {
namespace {

using cuda::ProductShape;

constexpr int kInARow = 20;
constexpr int64_t kPixels = 784;
constexpr int64_t kDigits = 10;

struct NamedShape {
  std::string name;
  ProductShape shape;
};

// As the layer `number` of DenseLayer (worker/device/cuda/kernels/dense.cu).
struct MlpLayer {
  int number;
  int64_t inputs, units;
  bool relu;

  std::string Name(const char* what) const {
    return "dense " + std::to_string(number) + ", " + what;
  }
};

// What only another dense layer takes is narrow in bfloat16: all but pictures and digits.
bool IsNarrow(cuda::Precision precision, bool between_layers) {
  return precision == cuda::Precision::kBfloat16 && between_layers;
}

NamedShape Forward(const MlpLayer& layer, int64_t examples, cuda::Precision precision) {
  ProductShape shape;
  shape.rows = examples;
  shape.inner = layer.inputs;
  shape.columns = layer.units;
  shape.bias = true;
  shape.relu = layer.relu;
  shape.precision = precision;
  shape.narrow_result = IsNarrow(precision, /*between_layers=*/layer.relu);
  return {layer.Name("output"), shape};
}

NamedShape KernelGradient(const MlpLayer& layer, int64_t examples, cuda::Precision precision) {
  ProductShape shape;
  shape.rows = layer.inputs;
  shape.inner = examples;
  shape.columns = layer.units;
  shape.transpose_a = true;
  shape.precision = precision;
  return {layer.Name("kernel"), shape};
}

NamedShape InputGradient(const MlpLayer& layer, int64_t examples, cuda::Precision precision) {
  ProductShape shape;
  shape.rows = examples;
  shape.inner = layer.units;
  shape.columns = layer.inputs;
  shape.transpose_b = true;
  shape.precision = precision;
  shape.narrow_result = IsNarrow(precision, /*between_layers=*/true);
  return {layer.Name("input"), shape};
}

std::vector<NamedShape> ShapesOfStep(cuda::Precision precision, int64_t examples, int64_t width) {
  const MlpLayer layers[] = {
      {1, kPixels, width, true}, {2, width, width, true}, {3, width, kDigits, false}};
  std::vector<NamedShape> shapes;
  for (const MlpLayer& layer : layers) shapes.push_back(Forward(layer, examples, precision));
  for (int i = 2; i >= 0; --i) {
    shapes.push_back(KernelGradient(layers[i], examples, precision));
    if (i > 0) shapes.push_back(InputGradient(layers[i], examples, precision));
  }
  return shapes;
}

cuda::StreamOwner MakeStream() {
  cudaStream_t stream = nullptr;
  cuda::Check(cudaStreamCreate(&stream), "cudaStreamCreate");
  return cuda::StreamOwner(stream);
}

// Of one shape, with what it is made of.
class StepProduct {
 public:
  explicit StepProduct(const ProductShape& shape)
      : stream_(MakeStream()),
        planner_(stream_.get(), /*deterministic=*/true),
        a_(cuda::SizeOfA(shape), cuda::HasNarrowFactors(shape)),
        b_(cuda::SizeOfB(shape), cuda::HasNarrowFactors(shape)),
        bias_(static_cast<size_t>(shape.columns), shape.narrow_result),
        c_(cuda::SizeOfC(shape), shape.narrow_result),
        workspace_(cuda::kProductWorkspace / sizeof(float), /*is_narrow=*/false),
        plan_(planner_.Plan(shape, /*tries=*/true)),
        algorithms_(planner_.Suggested(shape, plan_)) {}

  void Measure(int rounds, MeasuredProduct* measured) {
    measured->epilogue = plan_.epilogue.bias ? (plan_.epilogue.relu ? "bias, relu" : "bias") : "";
    for (size_t i = 0; i < algorithms_.size(); ++i) {
      plan_.algorithm = algorithms_[i].algorithm;
      double seconds = 0;
      try {
        seconds = MedianSeconds(rounds);
      } catch (const std::exception&) {
        if (i == 0) throw;
        continue;  // It is suggested, and then refused.
      }
      ++measured->algorithms;
      if (i == 0) {
        measured->first = cuda::AlgorithmText(plan_.algorithm);
        measured->first_seconds = seconds;
      }
      if (i > 0 && seconds >= measured->fastest_seconds) continue;
      measured->fastest = cuda::AlgorithmText(plan_.algorithm);
      measured->fastest_seconds = seconds;
    }
  }

 private:
  double MedianSeconds(int rounds) {
    RoundSeconds();  // To warm up.
    std::vector<double> seconds;
    for (int round = 0; round < rounds; ++round) seconds.push_back(RoundSeconds());
    std::sort(seconds.begin(), seconds.end());
    return seconds[seconds.size() / 2];
  }

  double RoundSeconds() {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kInARow; ++i) {
      planner_.Enqueue(plan_, a_.get(), b_.get(), bias_.get(), c_.get(), workspace_.get());
    }
    cuda::Check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    return took.count() / kInARow;
  }

  const cuda::StreamOwner stream_;
  const cuda::ProductPlanner planner_;
  const RandomMatrix a_, b_, bias_, c_, workspace_;
  cuda::ProductPlan plan_;
  const std::vector<cuda::SuggestedAlgorithm> algorithms_;
};

}  // namespace

std::vector<MeasuredProduct> MeasureStepProducts(cuda::Precision precision, int64_t examples,
                                                 int64_t width, int rounds) {
  std::vector<MeasuredProduct> all;
  for (const NamedShape& named : ShapesOfStep(precision, examples, width)) {
    MeasuredProduct measured;
    measured.name = named.name;
    measured.rows = named.shape.rows;
    measured.inner = named.shape.inner;
    measured.columns = named.shape.columns;
    measured.transposed_a = named.shape.transpose_a;
    measured.transposed_b = named.shape.transpose_b;
    measured.narrow_result = named.shape.narrow_result;
    StepProduct(named.shape).Measure(rounds, &measured);
    all.push_back(std::move(measured));
  }
  return all;
}

}  // namespace millrace::testing
