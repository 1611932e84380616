// Losses, their gradients and metrics against Keras's (see testing/reference/losses.py).
#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "worker/device/cpu/output_heads.h"
#include "worker/device/model_tests/reference_cases.h"
#include "worker/model/batch_metrics.h"

namespace millrace::worker {
namespace {

struct LossReference {
  std::string name;
  std::string output;
  size_t width = 0;
  Tensor label;
  std::vector<float> weights;
  std::vector<float> values;
  double loss = 0;
  double evaluation = 0;
  std::vector<double> gradient;
  std::map<std::string, double> metrics;
  std::vector<uint64_t> matrix;
};

void PrintTo(const LossReference& reference, std::ostream* stream) { *stream << reference.name; }

void ReadLossLine(const std::string& key, std::istringstream* line, LossReference* reference) {
  if (key == "output") std::getline(*line, reference->output);
  if (key == "width") *line >> reference->width;
  if (key == "classes") reference->label.ids = RestOf<int64_t>(line);
  if (key == "labels") reference->label.floats = RestOf<float>(line);
  if (key == "weights") reference->weights = RestOf<float>(line);
  if (key == "values") reference->values = RestOf<float>(line);
  if (key == "loss") *line >> reference->loss;
  if (key == "evaluation") *line >> reference->evaluation;
  if (key == "gradient") reference->gradient = RestOf<double>(line);
  if (key == "matrix") reference->matrix = RestOf<uint64_t>(line);
  if (key != "metric") return;
  std::string name;
  *line >> name >> reference->metrics[name];
}

std::vector<LossReference> ReadLossReferences() {
  return ReadReferenceCases<LossReference>("testing/reference/losses.txt", ReadLossLine);
}

// The plan of such an output of a model with one layer.
std::vector<OutputPlan> PlanOutputOf(const LossReference& reference) {
  ModelSpec spec;
  spec.add_layers()->set_name("layer");
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(reference.output, spec.add_outputs()));
  LayerPlan layer;
  layer.spec.set_name("layer");
  layer.spec.mutable_dense();
  layer.output = {reference.width};
  ExampleSpec examples = FloatsAndClass({1}, /*classes=*/0);
  if (reference.label.ids.empty()) {
    examples.labels[0].type = ElementType::kFloat;
    examples.labels[0].shape = {reference.width};
  }
  absl::StatusOr<std::vector<OutputPlan>> plan = PlanOutputs(spec, {layer}, examples);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

template <typename T>
std::vector<T> Rows(const std::vector<T>& all, size_t begin, size_t end, size_t width) {
  if (all.empty()) return {};
  return {all.begin() + begin * width, all.begin() + end * width};
}

class LossReferenceTest : public ::testing::TestWithParam<LossReference> {
 protected:
  LossReferenceTest() : outputs_(PlanOutputOf(GetParam())), heads_(outputs_) {}

  size_t examples() const { return GetParam().values.size() / GetParam().width; }

  Batch Examples(size_t begin, size_t end) const {
    const LossReference& reference = GetParam();
    Batch batch;
    batch.size = end - begin;
    batch.weights = Rows(reference.weights, begin, end, 1);
    batch.labels.resize(1);
    batch.labels[0].ids = Rows(reference.label.ids, begin, end, 1);
    batch.labels[0].floats = Rows(reference.label.floats, begin, end, reference.width);
    return batch;
  }

  // Evaluates examples [begin, end).
  void EvaluateOn(size_t begin, size_t end, EvaluationSums* sums) const {
    const size_t width = GetParam().width;
    const Batch batch = Examples(begin, end);
    ASSERT_TRUE(CheckLabels(outputs_, batch).ok());
    const absl::Span<const float> values = absl::MakeConstSpan(GetParam().values);
    heads_.Evaluate(batch, {{values.subspan(begin * width, batch.size * width)}}, sums);
  }

  const std::vector<OutputPlan> outputs_;
  const CpuOutputHeads heads_;
};

// Ours are of float32 numbers, computed in float64 but for the gradient and, in the sparse one, the
// exponentials.
void ExpectAbout(double actual, double expected) {
  EXPECT_NEAR(actual, expected, 1e-6 * std::abs(expected) + 1e-9);
}

TEST_P(LossReferenceTest, LossAndGradientAreKeras) {
  const LossReference& reference = GetParam();
  std::vector<float> gradient(reference.values.size());
  const BatchResult result =
      heads_.Train(Examples(0, examples()), {{reference.values, gradient.data()}});
  ExpectAbout(result.loss_sum / static_cast<double>(examples()), reference.loss);
  for (size_t i = 0; i < gradient.size(); ++i) {
    EXPECT_NEAR(gradient[i], reference.gradient[i], 1e-6) << "element " << i;
  }
}

// In training and in evaluation, and with batches of any size.
TEST_P(LossReferenceTest, MetricsAreKerasWithBatchesOfAnySize) {
  for (const size_t size : {size_t{1}, size_t{4}, examples()}) {
    SCOPED_TRACE(size);
    EvaluationSums sums;
    for (size_t begin = 0; begin < examples(); begin += size) {
      EvaluateOn(begin, std::min(begin + size, examples()), &sums);
    }
    std::map<std::string, double> metrics = EvaluationMetrics(sums);
    ExpectAbout(metrics["loss"], GetParam().evaluation);
    for (const auto& [name, value] : GetParam().metrics) {
      SCOPED_TRACE(name);
      ExpectAbout(metrics[name], value);  // An area that Keras calls 0 for want of pairs we omit.
    }
    EXPECT_LE(metrics.size(), GetParam().metrics.size() + 1);
    if (GetParam().matrix.empty()) continue;
    const auto& counts = sums.confusion_matrices[""].counts();
    EXPECT_EQ(std::vector<uint64_t>(counts.begin(), counts.end()), GetParam().matrix);
  }
}

INSTANTIATE_TEST_SUITE_P(Keras, LossReferenceTest, ::testing::ValuesIn(ReadLossReferences()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace millrace::worker
