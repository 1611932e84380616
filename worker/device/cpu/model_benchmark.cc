// Steps of some models on one thread. Run it from bazel-bin/worker/device/cpu/model_benchmark.
#include <memory>

#include "benchmark/benchmark.h"
#include "glog/logging.h"
#include "worker/device/model_tests/model_test_util.h"
#include "worker/input/batch.h"
#include "worker/model/model.h"
#include "worker/model/model_plan.h"

namespace millrace::worker {
namespace {

const Shape kImage = {28, 28, 1};

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

std::unique_ptr<Model> Compile(const ModelPlan& plan, size_t batch) {
  std::unique_ptr<Model> model = CompileOrDie(plan, batch);
  FillValues(/*seed=*/1, /*scale=*/0.05f, model.get());
  return model;
}

void Train(benchmark::State& state, const char* text) {
  const ModelPlan plan = PlanOrDie(text, kImage, 10);
  const size_t size = static_cast<size_t>(state.range(0));
  const std::unique_ptr<Model> model = Compile(plan, size);
  const Batch batch = RandomBatch(/*seed=*/1, size, kImage, 10);
  KeptGradients gradients(plan);
  for (auto _ : state) CHECK(model->Train(batch, /*seed=*/1, &gradients).ok());
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void Evaluate(benchmark::State& state, const char* text) {
  const ModelPlan plan = PlanOrDie(text, kImage, 10);
  const size_t size = static_cast<size_t>(state.range(0));
  const std::unique_ptr<Model> model = Compile(plan, size);
  const Batch batch = RandomBatch(/*seed=*/1, size, kImage, 10);
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
