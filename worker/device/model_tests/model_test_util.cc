#include "worker/device/model_tests/model_test_util.h"

#include <cmath>
#include <random>

#include "absl/strings/match.h"
#include "glog/logging.h"
#include "google/protobuf/text_format.h"
#include "worker/device/model_tests/test_device.h"

namespace millrace::worker {
namespace {

// In [-1, 1]. (The standard library's distributions differ between implementations.)
float Uniform(std::mt19937* random) {
  return static_cast<float>(static_cast<double>((*random)()) / 2147483647.5 - 1);
}

}  // namespace

const char kPictureNetwork[] = R"pb(
  layers { conv2d { filters: 8 kernel_size: 3 activation: RELU } }
  layers { max_pool2d { padding: SAME } }
  layers { conv2d { filters: 16 kernel_size: 2 activation: SIGMOID padding: SAME } }
  layers { dropout { rate: 0.3 } }
  layers { flatten {} }
  layers { dense { units: 20 activation: RELU } }
  layers { activation { function: SOFTMAX } }
  layers { dense { units: 4 } }
  loss: SPARSE_CATEGORICAL_CROSSENTROPY
  metrics: ACCURACY
)pb";

KeptGradients::KeptGradients(const ModelPlan& plan, std::function<void()> backward_begins)
    : backward_begins_(std::move(backward_begins)) {
  for (const VariableSpec& variable : plan.variables) {
    gradients_.emplace_back(ElementCount(Shape(variable.shape().begin(), variable.shape().end())));
  }
}

absl::Span<float> KeptGradients::Buffer(size_t variable) {
  return absl::MakeSpan(gradients_[variable]);
}

ModelPlan PlanOrDie(const std::string& text, const ExampleSpec& examples) {
  ModelSpec spec;
  CHECK(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  absl::StatusOr<ModelPlan> plan = PlanModel(spec, examples);
  CHECK(plan.ok()) << plan.status();
  return *std::move(plan);
}

ModelPlan PlanOrDie(const std::string& text, const Shape& input, int32_t label_count) {
  return PlanOrDie(text, FloatsAndClass(input, label_count));
}

ModelPlan PullingAhead(ModelPlan plan) {
  plan.pulls_ahead = true;
  return plan;
}

ModelPlan PlanOfRaggedIds() {
  ExampleSpec examples = FloatsAndClass({}, 3);
  examples.features[0].type = ElementType::kId;
  examples.features[0].limit = 9;
  examples.features[0].ragged = true;
  return PlanOrDie(
      "layers { embedding { input_dim: 9 output_dim: 5 pooling: MEAN } } "
      "layers { dense { units: 3 } } loss: SPARSE_CATEGORICAL_CROSSENTROPY",
      examples);
}

std::unique_ptr<Model> CompileOrDie(const ModelPlan& plan, size_t max_batch, int threads) {
  absl::StatusOr<std::unique_ptr<Model>> model =
      MakeTestDevice(threads)->Compile(plan, {max_batch, max_batch});
  CHECK(model.ok()) << model.status();
  return *std::move(model);
}

BatchResult TrainOrDie(const Batch& batch, uint64_t seed, Model* model, KeptGradients* gradients) {
  const absl::StatusOr<BatchResult> result = model->Train(batch, seed, gradients);
  CHECK(result.ok()) << result.status();
  return *result;
}

GivenByStep GivenBy(const Batch& batch, uint64_t seed, const ModelPlan& plan, Model* model) {
  KeptGradients gradients(plan);
  const double loss_sum = TrainOrDie(batch, seed, model, &gradients).loss_sum;
  return {loss_sum, gradients.gradients()};
}

void WriteValues(const ModelValues& values, Model* model) {
  for (size_t v = 0; v < values.size(); ++v) {
    std::copy(values[v].begin(), values[v].end(), model->values(v).begin());
  }
}

void FillValues(uint64_t seed, float scale, Model* model) {
  std::mt19937 random(static_cast<uint32_t>(seed));
  for (size_t variable = 0; variable < model->variables().size(); ++variable) {
    const bool positive = absl::EndsWith(model->variables()[variable].name(), "/moving_variance");
    for (float& value : model->values(variable)) {
      value = scale * Uniform(&random);
      if (positive) value = std::abs(value) + 0.5f;
    }
  }
}

Batch RandomBatch(uint64_t seed, size_t size, const Shape& shape, int32_t label_count) {
  std::mt19937 random(static_cast<uint32_t>(seed));
  std::vector<float> features(size * ElementCount(shape));
  for (float& feature : features) feature = Uniform(&random);
  std::vector<int64_t> labels(size);
  for (int64_t& label : labels) label = random() % static_cast<uint32_t>(label_count);
  return FloatsAndClasses(std::move(features), std::move(labels));
}

void ApplySgd(float learning_rate, const KeptGradients& gradients, Model* model) {
  for (size_t variable = 0; variable < model->variables().size(); ++variable) {
    const absl::Span<float> values = model->values(variable);
    const std::vector<float>& gradient = gradients.gradient(variable);
    for (size_t i = 0; i < values.size(); ++i) values[i] -= learning_rate * gradient[i];
  }
}

BatchResult LearnExclusiveOr(const ModelPlan& plan) {
  const std::unique_ptr<Model> model = CompileOrDie(plan, 4);
  FillValues(/*seed=*/5, 1, model.get());
  const Batch batch = FloatsAndClasses({0, 0, 0, 1, 1, 0, 1, 1}, {0, 1, 1, 0});
  KeptGradients gradients(plan);
  for (int step = 0; step < 500; ++step) {
    TrainOrDie(batch, 0, model.get(), &gradients);
    ApplySgd(0.3f, gradients, model.get());
  }
  return TrainOrDie(batch, 0, model.get(), &gradients);
}

double LearnBrighterThird(const ModelPlan& plan, uint64_t steps) {
  Batch batch = RandomBatch(/*seed=*/2, 48, {6, 6, 1}, 3);
  for (size_t i = 0; i < batch.features[0].floats.size(); ++i) {
    const size_t third = i % 6 / 2;
    if (third == static_cast<size_t>(batch.labels[0].ids[i / 36])) batch.features[0].floats[i] += 1;
  }
  const std::unique_ptr<Model> model = CompileOrDie(plan, 48);
  FillValues(/*seed=*/5, 0.5f, model.get());
  KeptGradients gradients(plan);
  for (uint64_t step = 0; step < steps; ++step) {
    TrainOrDie(batch, step, model.get(), &gradients);
    ApplySgd(0.2f, gradients, model.get());
  }
  EvaluationSums sums;
  const absl::Status evaluated = model->Evaluate(batch, &sums);
  CHECK(evaluated.ok()) << evaluated;
  return EvaluationMetrics(sums).at("accuracy");
}

}  // namespace millrace::worker
