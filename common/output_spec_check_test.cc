#include <string>

#include "absl/status/status.h"
#include "common/job_spec.h"
#include "common/output_spec.h"
#include "common/spec_checks.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

absl::Status Check(const std::string& text) {
  ModelSpec model;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "layers { name: 'a' dense { units: 3 } } layers { name: 'b' dense { units: 1 } } " + text,
      &model))
      << text;
  return CheckModelSpec(model);
}

std::string OutputError(const std::string& text) {
  const absl::Status status = Check(text);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(status.message());
}

TEST(CheckOutputsTest, SeveralOutputsWithAllTheirFieldsPass) {
  const absl::Status status = Check(R"pb(
    outputs {
      layer: "a"
      label: "digit"
      loss: CATEGORICAL_CROSSENTROPY
      label_smoothing: 0.1
      class_weights: [ 1, 0, 2.5 ]
      weight: 0
      metrics { metric: ACCURACY }
      metrics { metric: TOP_K_ACCURACY k: 2 }
      metrics { metric: TOP_K_ACCURACY k: 3 }
      metrics { metric: CONFUSION_MATRIX }
    }
    outputs {
      loss: HUBER
      huber_delta: 0.5
      metrics { metric: RMSE }
    })pb");
  EXPECT_TRUE(status.ok()) << status;
}

TEST(CheckOutputsTest, OutputsTakeThePlaceOfTheShortForm) {
  EXPECT_EQ(OutputError("loss: HUBER outputs { loss: HUBER }"),
            "model.loss: HUBER; must be left out where model.outputs is set: each output has its "
            "own");
  EXPECT_THAT(OutputError("metrics: MAE outputs { loss: HUBER }"),
              StartsWith("model.metrics: 1 ones; must be left out"));
}

TEST(CheckOutputsTest, AnOutputHasALossAndALayerOfItsOwn) {
  EXPECT_THAT(OutputError("outputs { layer: 'a' }"),
              StartsWith("model.outputs[0].loss: not set; must be one of SPARSE"));
  EXPECT_EQ(OutputError("outputs { layer: 'a' loss: HUBER } outputs { layer: 'a' loss: HUBER }"),
            "model.outputs[1].layer: 'a'; must be different from those of the outputs before it");
  EXPECT_THAT(OutputError("outputs { layer: 'a b' loss: HUBER }"),
              StartsWith("model.outputs[0].layer: 'a b'; must be at most 100 letters"));
}

TEST(CheckOutputsTest, FieldsThatTheLossDoesNotHave) {
  EXPECT_EQ(
      OutputError("outputs { loss: SPARSE_CATEGORICAL_CROSSENTROPY label_smoothing: 0.1 }"),
      "model.outputs[0].label_smoothing: 0.1; must be 0 with SPARSE_CATEGORICAL_CROSSENTROPY; "
      "CATEGORICAL_CROSSENTROPY and BINARY_CROSSENTROPY have it");
  EXPECT_EQ(OutputError("outputs { loss: MEAN_SQUARED_ERROR huber_delta: 1 }"),
            "model.outputs[0].huber_delta: 1; must be left out with MEAN_SQUARED_ERROR");
  EXPECT_EQ(OutputError("outputs { loss: HUBER class_weights: 1 }"),
            "model.outputs[0].class_weights: 1 numbers; must be empty with HUBER, which has none");
}

TEST(CheckOutputsTest, NumbersOutOfRange) {
  EXPECT_THAT(OutputError("outputs { loss: BINARY_CROSSENTROPY label_smoothing: 1 }"),
              StartsWith("model.outputs[0].label_smoothing: 1; must be at least 0 and below 1"));
  EXPECT_THAT(OutputError("outputs { loss: HUBER huber_delta: 0 }"),
              StartsWith("model.outputs[0].huber_delta: 0; must be a finite number above 0"));
  EXPECT_EQ(OutputError("outputs { loss: BINARY_CROSSENTROPY class_weights: [1, -1] }"),
            "model.outputs[0].class_weights[1]: -1; must be a finite number, at least 0");
  EXPECT_EQ(OutputError("outputs { loss: HUBER weight: nan }"),
            "model.outputs[0].weight: nan; must be a finite number, at least 0");
  EXPECT_EQ(OutputError("outputs { loss: HUBER weight: 1e300 }"),
            "model.outputs[0].weight: 1e+300; must be a finite number, at least 0, as a float32");
}

TEST(CheckOutputsTest, MetricsThatDoNotFit) {
  EXPECT_EQ(OutputError("loss: HUBER metrics: [MAE, ACCURACY]"),
            "model.metrics[1]: ACCURACY; must be left out, or model.loss "
            "SPARSE_CATEGORICAL_CROSSENTROPY or BINARY_CROSSENTROPY or CATEGORICAL_CROSSENTROPY");
  EXPECT_THAT(
      OutputError("outputs { loss: BINARY_CROSSENTROPY metrics { metric: RMSE } }"),
      HasSubstr("or model.outputs[0].loss MEAN_SQUARED_ERROR or MEAN_ABSOLUTE_ERROR or HUB"));
  EXPECT_EQ(
      OutputError("outputs { loss: CATEGORICAL_CROSSENTROPY metrics { metric: TOP_K_ACCURACY }"
                  " metrics { metric: TOP_K_ACCURACY k: 5 } }"),
      "model.outputs[0].metrics[1]: TOP_K_ACCURACY; must be named once");
}

TEST(CheckOutputsTest, ParametersOfMetrics) {
  const auto error = [](const std::string& metric) {
    return OutputError("outputs { loss: BINARY_CROSSENTROPY metrics { " + metric + " } }");
  };
  EXPECT_EQ(
      error("metric: AUC num_thresholds: 1"),
      "model.outputs[0].metrics[0].num_thresholds: 1; must be 0 for the exact area, or from 2 "
      "to 100000");
  EXPECT_EQ(error("metric: RECALL num_thresholds: 3"),
            "model.outputs[0].metrics[0].num_thresholds: 3; must be left out with RECALL");
  EXPECT_EQ(error("metric: AUC k: 3"),
            "model.outputs[0].metrics[0].k: 3; must be left out with AUC");
}

TEST(OutputSpecTest, NamesOfMetrics) {
  MetricSpec metric;
  metric.set_metric(TOP_K_ACCURACY);
  EXPECT_EQ(MetricName(metric), "top_5_accuracy");
  metric.set_k(2);
  EXPECT_EQ(MetricName(metric), "top_2_accuracy");
  metric.set_metric(CONFUSION_MATRIX);
  EXPECT_EQ(MetricName(metric), "confusion_matrix");
}

}  // namespace
}  // namespace millrace
