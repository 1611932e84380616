// Losses, logits and gradients against Keras's (see testing/reference/layers.py).
#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "worker/device/model_tests/model_test_util.h"
#include "worker/device/model_tests/reference_cases.h"
#include "worker/device/model_tests/test_device.h"

namespace millrace::worker {
namespace {

struct Reference {
  std::string name;
  std::string model;
  Shape input;
  int64_t ids = 0;  // Features are ids below it; 0: floats.
  Batch batch;
  std::vector<double> logits;
  double loss = 0;           // In an evaluation.
  double training_loss = 0;  // In training.
  std::vector<std::vector<double>> values;
  std::vector<std::vector<double>> gradients;
};

void ReadLine(const std::string& key, std::istringstream* line, Reference* reference) {
  if (key == "model") std::getline(*line, reference->model);
  if (key == "input") reference->input = RestOf<uint64_t>(line);
  if (key == "labels") reference->batch.labels = {IdTensor(RestOf<int64_t>(line))};
  if (key == "ids") *line >> reference->ids;
  if (key == "features") {
    reference->batch.features = {reference->ids > 0 ? IdTensor(RestOf<int64_t>(line))
                                                    : FloatTensor(RestOf<float>(line))};
  }
  if (key == "logits") reference->logits = RestOf<double>(line);
  if (key == "loss") {
    *line >> reference->loss;
    reference->training_loss = reference->loss;
  }
  if (key == "training_loss") *line >> reference->training_loss;
  if (key == "values") reference->values.push_back(RestOf<double>(line));
  if (key == "gradient") reference->gradients.push_back(RestOf<double>(line));
}

std::vector<Reference> ReadReferences() {
  auto references = ReadReferenceCases<Reference>("testing/reference/layers.txt", ReadLine);
  for (Reference& reference : references) {
    Batch& batch = reference.batch;
    if (!batch.labels.empty()) batch.size = batch.labels[0].ids.size();
  }
  return references;
}

// Both were computed from the same float32 numbers, there in float64 and here in float32. A result
// is a sum of up to a few hundred products, each rounded to one part in 2^24, and the sum may
// cancel: the error compares with the largest of a variable's gradients rather than with the
// element's own.
void ExpectNear(const std::vector<float>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  double largest = 0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], 2e-5 * largest + 1e-30) << "element " << i;
  }
}

ModelPlan PlanOf(const Reference& reference) {
  ExampleSpec examples = FloatsAndClass(reference.input, /*label_count=*/1);
  if (reference.ids > 0) {
    examples.features[0].type = ElementType::kId;
    examples.features[0].limit = reference.ids;
  }
  ModelSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(reference.model, &spec));
  absl::StatusOr<ModelPlan> plan = PlanModel(spec, examples);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

class ReferenceTest : public ::testing::TestWithParam<Reference> {
 protected:
  ReferenceTest() : plan_(PlanOf(GetParam())), model_(CompileOrDie(plan_, GetParam().batch.size)) {
    for (size_t variable = 0; variable < plan_.variables.size(); ++variable) {
      const std::vector<double>& values = GetParam().values[variable];
      EXPECT_EQ(model_->values(variable).size(), values.size());
      std::copy(values.begin(), values.end(), model_->values(variable).begin());
    }
  }

  bool NormalizesByTheBatch() const {
    const auto& variables = plan_.variables;
    return std::any_of(variables.begin(), variables.end(),
                       [](const auto& v) { return v.update().has_moving_average(); });
  }

  ModelPlan plan_;
  std::unique_ptr<Model> model_;
};

TEST_P(ReferenceTest, LossAndGradientsAreKeras) {
  if (TestDeviceParts() > 1 && NormalizesByTheBatch()) {
    GTEST_SKIP() << "Keras normalized by the whole batch, and this device by parts of it";
  }
  const Reference& reference = GetParam();
  KeptGradients gradients(plan_);
  const absl::StatusOr<BatchResult> result = model_->Train(reference.batch, /*seed=*/0, &gradients);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_NEAR(result->loss_sum / static_cast<double>(reference.batch.size), reference.training_loss,
              1e-5 * std::abs(reference.training_loss));
  ASSERT_EQ(plan_.variables.size(), reference.gradients.size());
  for (size_t variable = 0; variable < plan_.variables.size(); ++variable) {
    SCOPED_TRACE(plan_.variables[variable].name());
    const bool frozen = plan_.variables[variable].update().has_frozen();
    EXPECT_EQ(reference.gradients[variable].empty(), frozen);
    const auto& finished = gradients.finished();
    EXPECT_EQ(std::count(finished.begin(), finished.end(), variable), frozen ? 0 : 1);
    if (!frozen) ExpectNear(gradients.gradient(variable), reference.gradients[variable]);
  }
}

TEST_P(ReferenceTest, EvaluationIsKeras) {
  const Reference& reference = GetParam();
  const bool binary = plan_.outputs[0].loss == BINARY_CROSSENTROPY;
  if (binary) plan_.outputs[0].metrics.push_back({AUC, "auc"});  // Gathers the logits.
  const std::unique_ptr<Model> model = CompileOrDie(plan_, reference.batch.size);
  for (size_t variable = 0; variable < plan_.variables.size(); ++variable) {
    const absl::Span<float> values = model_->values(variable);
    std::copy(values.begin(), values.end(), model->values(variable).begin());
  }
  EvaluationSums sums;
  ASSERT_TRUE(model->Evaluate(reference.batch, &sums).ok());
  EXPECT_EQ(sums.examples, reference.batch.size);
  EXPECT_NEAR(sums.loss_sum / static_cast<double>(sums.examples), reference.loss,
              1e-5 * std::abs(reference.loss));
  if (binary) ExpectNear(sums.curves["auc"].scores(), reference.logits);
}

INSTANTIATE_TEST_SUITE_P(Keras, ReferenceTest, ::testing::ValuesIn(ReadReferences()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace millrace::worker
