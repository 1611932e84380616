// Models with other outputs than one of classes. Gradients against central differences: see
// gradient_test.cc for the step and the tolerance.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "worker/device/model_tests/model_test_util.h"

namespace millrace::worker {
namespace {

using ::testing::Key;
using ::testing::UnorderedElementsAre;

constexpr size_t kOutputExamples = 5;
constexpr float kOutputStep = 1.0f / 128;

// A class below 3, one below 2, probabilities of 3 classes, 3 probabilities, 3 numbers.
ExampleSpec LabelledExamples() {
  ExampleSpec spec = FloatsAndClass({4}, 3);
  spec.labels.resize(5, spec.labels[0]);
  spec.labels[1].limit = 2;
  for (size_t i = 0; i < 5; ++i) {
    spec.labels[i].name = std::vector<std::string>{"digit", "odd", "share", "tags", "size"}[i];
    if (i < 2) continue;
    spec.labels[i].type = ElementType::kFloat;
    spec.labels[i].shape = {3};
  }
  return spec;
}

Batch LabelledBatch() {
  Batch batch = RandomBatch(/*seed=*/3, kOutputExamples, {4}, 3);
  const std::vector<float> random =
      RandomBatch(/*seed=*/5, kOutputExamples, {3}, 2).features[0].floats;
  std::vector<float> shares;
  std::vector<float> tags;
  for (size_t i = 0; i < random.size(); ++i) {
    tags.push_back((random[i] + 1) / 2);
    shares.push_back(i % 3 == 2 ? 0.5f - shares[i - 1] - shares[i - 2] + 0.5f : tags.back() / 2);
  }
  batch.labels.push_back(IdTensor({1, 0, 0, 1, 1}));
  batch.labels.push_back(FloatTensor(shares));
  batch.labels.push_back(FloatTensor(tags));
  batch.labels.push_back(FloatTensor(random));
  batch.weights = {1, 0.5f, 2, 0, 1.5f};
  return batch;
}

ModelPlan PlanOutputsOrDie(const std::string& outputs) {
  ModelSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "layers { name: 'a' dense { units: 3 } } "
      "layers { name: 'b' activation { function: SIGMOID } } "
      "layers { name: 'c' dense { units: 3 } } layers { name: 'd' flatten {} } "
      "layers { name: 'e' dense { units: 1 } } " +
          outputs,
      &spec))
      << outputs;
  absl::StatusOr<ModelPlan> plan = PlanModel(spec, LabelledExamples());
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

constexpr char kLast[] =
    "outputs { label: 'odd' loss: BINARY_CROSSENTROPY label_smoothing: 0.2 "
    "class_weights: [0.5, 2] } ";

class OutputGradientTest : public ::testing::TestWithParam<std::string> {};

TEST_P(OutputGradientTest, OfSeveralOutputsEqualsTheDifferenceQuotient) {
  const ModelPlan plan = PlanOutputsOrDie(kLast + GetParam());
  const std::unique_ptr<Model> model = CompileOrDie(plan, kOutputExamples);
  FillValues(/*seed=*/8, /*scale=*/0.6f, model.get());
  const Batch batch = LabelledBatch();
  KeptGradients gradients(plan);
  const auto mean_loss = [&] {
    const absl::StatusOr<BatchResult> result = model->Train(batch, 0, &gradients);
    EXPECT_TRUE(result.ok()) << result.status();
    return result->loss_sum / kOutputExamples;
  };
  mean_loss();
  const std::vector<std::vector<float>> kept = gradients.gradients();
  for (size_t variable = 0; variable < kept.size(); ++variable) {
    SCOPED_TRACE(plan.variables[variable].name());
    for (size_t i = 0; i < kept[variable].size(); ++i) {
      float& value = model->values(variable)[i];
      const float before = value;
      value = before + kOutputStep;
      const double above = mean_loss();
      value = before - kOutputStep;
      const double below = mean_loss();
      value = before;
      EXPECT_NEAR(kept[variable][i], (above - below) / (2 * kOutputStep), 2e-4) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Losses, OutputGradientTest,
    ::testing::Values(
        "",  // One output alone.
        "outputs { layer: 'a' label: 'digit' loss: SPARSE_CATEGORICAL_CROSSENTROPY "
        "class_weights: [1, 0.5, 3] weight: 0.3 }",
        "outputs { layer: 'c' label: 'share' loss: CATEGORICAL_CROSSENTROPY label_smoothing: 0.1 "
        "weight: 2 class_weights: [1, 0.5, 3] }",
        "outputs { layer: 'd' label: 'tags' loss: BINARY_CROSSENTROPY }",
        "outputs { layer: 'b' label: 'size' loss: MEAN_SQUARED_ERROR }",
        "outputs { layer: 'd' label: 'size' loss: HUBER huber_delta: 0.3 weight: 0.7 } "
        "outputs { layer: 'a' label: 'size' loss: HUBER }"));

TEST(OutputsTest, EachReportsUnderItsLayersName) {
  const ModelPlan plan = PlanOutputsOrDie(R"pb(
    outputs {
      label: "odd"
      loss: BINARY_CROSSENTROPY
      weight: 0.5
      metrics { metric: ACCURACY }
      metrics { metric: AUC }
      metrics { metric: CONFUSION_MATRIX }
    }
    outputs {
      layer: "d"
      label: "size"
      loss: MEAN_SQUARED_ERROR
      weight: 3
      metrics { metric: MSE }
    })pb");
  const std::unique_ptr<Model> model = CompileOrDie(plan, kOutputExamples);
  FillValues(/*seed=*/8, /*scale=*/0.6f, model.get());
  Batch batch = LabelledBatch();
  batch.weights.clear();
  KeptGradients gradients(plan);
  const absl::StatusOr<BatchResult> result = model->Train(batch, 0, &gradients);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->accuracy_sum.has_value());
  EXPECT_THAT(result->metric_sums,
              UnorderedElementsAre(Key("e_loss"), Key("e_accuracy"), Key("d_loss"), Key("d_mse")));
  EvaluationSums sums;
  ASSERT_TRUE(model->Evaluate(batch, &sums).ok());
  std::map<std::string, double> metrics = EvaluationMetrics(sums);
  EXPECT_THAT(metrics, UnorderedElementsAre(Key("loss"), Key("e_loss"), Key("e_accuracy"),
                                            Key("e_auc"), Key("d_loss"), Key("d_mse")));
  EXPECT_DOUBLE_EQ(metrics["loss"], 0.5 * metrics["e_loss"] + 3 * metrics["d_loss"]);
  EXPECT_DOUBLE_EQ(metrics["d_loss"], metrics["d_mse"]);
  EXPECT_DOUBLE_EQ(result->loss_sum / kOutputExamples, metrics["loss"]);
  EXPECT_EQ(sums.confusion_matrices["e"].output(), "e");
}

// Of probabilities that are 0 and 1 both losses are one, and so is what classes count.
TEST(OutputsTest, ClassesOfProbabilitiesCountAsThoseOfIds) {
  const std::string weights = "class_weights: [1, 0.5, 3] }";
  Batch batch = LabelledBatch();
  batch.labels[0].ids = {0, 1, 2, 2, 1};
  std::vector<float>& shares = batch.labels[2].floats;
  std::fill(shares.begin(), shares.end(), 0.0f);
  for (size_t i = 0; i < kOutputExamples; ++i) shares[3 * i + batch.labels[0].ids[i]] = 1;
  std::vector<GivenByStep> given;
  for (const std::string label : {"digit' loss: SPARSE_CATEGORICAL_CROSSENTROPY ",
                                  "share' loss: CATEGORICAL_CROSSENTROPY "}) {
    const ModelPlan plan = PlanOutputsOrDie(absl::StrCat(
        "outputs { label: 'odd' loss: BINARY_CROSSENTROPY } outputs { layer: 'c' label: '", label,
        weights));
    const std::unique_ptr<Model> model = CompileOrDie(plan, kOutputExamples);
    FillValues(/*seed=*/8, /*scale=*/0.6f, model.get());
    given.push_back(GivenBy(batch, /*seed=*/0, plan, model.get()));
  }
  EXPECT_NEAR(given[1].loss_sum, given[0].loss_sum, 1e-5);
  for (size_t v = 0; v < given[0].gradients.size(); ++v) {
    EXPECT_THAT(given[1].gradients[v],
                ::testing::Pointwise(::testing::FloatNear(1e-6f), given[0].gradients[v]));
  }
}

TEST(OutputsTest, ALossInsideThatIsNotANumberEndsTheStep) {
  const ModelPlan plan =
      PlanOutputsOrDie(std::string(kLast) +
                       "outputs { layer: 'a' label: 'size' loss: MEAN_ABSOLUTE_ERROR weight: 0 }");
  const std::unique_ptr<Model> model = CompileOrDie(plan, kOutputExamples);
  model->values(0)[0] = std::numeric_limits<float>::quiet_NaN();
  KeptGradients gradients(plan);
  EXPECT_EQ(model->Train(LabelledBatch(), 0, &gradients).status(),
            absl::OutOfRangeError("the loss is nan"));
  EXPECT_TRUE(gradients.finished().empty());
}

TEST(OutputsTest, LabelsThatALossDoesNotTakeAreRefused) {
  const ModelPlan plan = PlanOutputsOrDie(
      std::string(kLast) + "outputs { layer: 'a' label: 'share' loss: CATEGORICAL_CROSSENTROPY }");
  const std::unique_ptr<Model> model = CompileOrDie(plan, kOutputExamples);
  KeptGradients gradients(plan);
  const auto error = [&](const Batch& batch) {
    return std::string(model->Train(batch, 0, &gradients).status().message());
  };
  Batch batch = LabelledBatch();
  batch.labels[1].ids[3] = 2;
  EXPECT_EQ(error(batch), "a batch has the label 2 in 'odd'; the loss takes 0 to 1");
  batch = LabelledBatch();
  batch.labels[2].floats[3] = 1.5f;
  EXPECT_EQ(error(batch), "a batch has the label 1.5 in 'share'; the loss takes 0 to 1");
  batch = LabelledBatch();
  batch.labels[2].floats = std::vector<float>(3 * kOutputExamples, 0.25f);
  EXPECT_EQ(error(batch),
            "a batch has probabilities that add up to 0.75 in 'share'; the loss takes those of all "
            "classes, which add up to 1");
  batch = LabelledBatch();
  batch.weights[2] = -1;
  EXPECT_EQ(error(batch),
            "a batch has an example of the weight -1; a weight is finite and at least 0");
}

}  // namespace
}  // namespace millrace::worker
