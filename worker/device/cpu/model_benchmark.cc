// Steps of some models on one thread. Run it from bazel-bin/worker/device/cpu/model_benchmark.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "glog/logging.h"
#include "google/protobuf/text_format.h"
#include "worker/device/cpu/cpu_device.h"
#include "worker/input/batch.h"
#include "worker/model/model.h"
#include "worker/model/model_plan.h"

namespace millrace::worker {
namespace {

constexpr char kMnistCnn[] = R"pb(
  layers { conv2d { filters: 32 kernel_size: 3 activation: RELU } }
  layers { flatten {} }
  layers { dense { units: 128 activation: RELU } }
  layers { dense { units: 10 } }
  loss: SPARSE_CATEGORICAL_CROSSENTROPY
)pb";

constexpr char kTwoConvolutions[] = R"pb(
  layers { conv2d { filters: 32 kernel_size: 3 activation: RELU } }
  layers { max_pool2d {} }
  layers { conv2d { filters: 64 kernel_size: 3 activation: RELU } }
  layers { max_pool2d {} }
  layers { flatten {} }
  layers { dropout { rate: 0.5 } }
  layers { dense { units: 10 } }
  loss: SPARSE_CATEGORICAL_CROSSENTROPY
)pb";

constexpr char kPerceptron[] = R"pb(
  layers { flatten {} }
  layers { dense { units: 512 activation: RELU } }
  layers { dropout { rate: 0.2 } }
  layers { dense { units: 10 } }
  loss: SPARSE_CATEGORICAL_CROSSENTROPY
)pb";

class KeptGradients final : public GradientSink {
 public:
  explicit KeptGradients(const ModelPlan& plan) {
    for (const VariableSpec& variable : plan.variables) {
      buffers_.emplace_back(ElementCount(Shape(variable.shape().begin(), variable.shape().end())));
    }
  }
  absl::Span<float> Buffer(size_t variable) override { return absl::MakeSpan(buffers_[variable]); }
  void Finished(size_t /*variable*/) override {}

 private:
  std::vector<std::vector<float>> buffers_;
};

ModelPlan Plan(const std::string& text) {
  ModelSpec spec;
  CHECK(google::protobuf::TextFormat::ParseFromString(text, &spec));
  const absl::StatusOr<ModelPlan> plan = PlanModel(spec, {28, 28, 1}, 10);
  CHECK(plan.ok()) << plan.status();
  return *plan;
}

std::unique_ptr<Model> Compile(const ModelPlan& plan, size_t batch) {
  CpuDevice device;
  absl::StatusOr<std::unique_ptr<Model>> model = device.Compile(plan, batch);
  CHECK(model.ok()) << model.status();
  for (size_t variable = 0; variable < plan.variables.size(); ++variable) {
    size_t i = 0;
    for (float& value : (*model)->values(variable)) {
      value = 0.05f * std::sin(static_cast<float>(++i));
    }
  }
  return *std::move(model);
}

Batch MakeBatch(size_t size) {
  Batch batch;
  batch.size = size;
  for (size_t i = 0; i < size * 28 * 28; ++i) {
    batch.features.push_back(static_cast<float>(i * 2654435761u % 256) / 255);
  }
  for (size_t i = 0; i < size; ++i) batch.labels.push_back(static_cast<int32_t>(i % 10));
  return batch;
}

void Train(benchmark::State& state, const char* text) {
  const ModelPlan plan = Plan(text);
  const size_t size = static_cast<size_t>(state.range(0));
  const std::unique_ptr<Model> model = Compile(plan, size);
  const Batch batch = MakeBatch(size);
  KeptGradients gradients(plan);
  for (auto _ : state) CHECK(model->Train(batch, /*seed=*/1, &gradients).ok());
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void Evaluate(benchmark::State& state, const char* text) {
  const ModelPlan plan = Plan(text);
  const size_t size = static_cast<size_t>(state.range(0));
  const std::unique_ptr<Model> model = Compile(plan, size);
  const Batch batch = MakeBatch(size);
  EvaluationSums sums;
  for (auto _ : state) CHECK(model->Evaluate(batch, &sums).ok());
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

BENCHMARK_CAPTURE(Train, mnist_cnn, kMnistCnn)->Arg(64)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Evaluate, mnist_cnn, kMnistCnn)->Arg(256)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Train, two_convolutions, kTwoConvolutions)
    ->Arg(64)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Train, perceptron, kPerceptron)->Arg(64)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace millrace::worker

BENCHMARK_MAIN();
