#include "worker/model/output_plan.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "worker/model/model_plan.h"

namespace millrace::worker {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// A class below 3, called "digit", and 2 floats, called "size".
ExampleSpec TwoLabels() {
  ExampleSpec spec = FloatsAndClass({4}, 3);
  spec.labels[0].name = "digit";
  spec.labels.resize(2);
  spec.labels[1].name = "size";
  spec.labels[1].type = ElementType::kFloat;
  spec.labels[1].shape = {2};
  return spec;
}

absl::StatusOr<ModelPlan> Plan(const std::string& outputs,
                               const ExampleSpec& examples = TwoLabels()) {
  ModelSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "layers { name: 'a' dense { units: 3 } } layers { name: 'b' dense { units: 2 } } " + outputs,
      &spec))
      << outputs;
  return PlanModel(spec, examples);
}

std::string PlanError(const std::string& outputs, const ExampleSpec& examples = TwoLabels()) {
  const absl::Status status = Plan(outputs, examples).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << outputs;
  return std::string(status.message());
}

constexpr char kSize[] = "outputs { label: 'size' loss: HUBER } ";

TEST(OutputPlanTest, OutputsFindTheirLayersAndLabels) {
  const absl::StatusOr<ModelPlan> plan = Plan(R"pb(
    outputs {
      layer: "a"
      label: "digit"
      loss: SPARSE_CATEGORICAL_CROSSENTROPY
      metrics { metric: TOP_K_ACCURACY k: 2 }
    }
    outputs { label: "size" loss: HUBER })pb");
  ASSERT_TRUE(plan.ok()) << plan.status();
  const OutputPlan& first = plan->outputs[0];
  EXPECT_EQ(first.name, "a");
  EXPECT_EQ(first.layer, 0u);
  EXPECT_EQ(first.label, 0u);
  EXPECT_TRUE(first.label_is_id);
  EXPECT_EQ(first.width, 3u);
  EXPECT_EQ(first.weight, 1);
  EXPECT_EQ(first.metrics[0].name, "a_top_2_accuracy");
  const OutputPlan& second = plan->outputs[1];
  EXPECT_EQ(second.layer, 1u);
  EXPECT_EQ(second.label, 1u);
  EXPECT_FALSE(second.label_is_id);
  EXPECT_EQ(second.huber_delta, 1);
  EXPECT_EQ(second.ReportedName("loss"), "b_loss");
}

TEST(OutputPlanTest, ASingleOutputReportsWithoutItsName) {
  const absl::StatusOr<ModelPlan> plan =
      Plan("outputs { label: 'size' loss: MEAN_SQUARED_ERROR metrics { metric: RMSE } }");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->outputs[0].metrics[0].name, "rmse");
  EXPECT_EQ(plan->outputs[0].ReportedName("loss"), "loss");
}

TEST(OutputPlanTest, LayersAndLabelsThatAreNotThere) {
  EXPECT_EQ(PlanError("outputs { layer: 'c' label: 'size' loss: HUBER }"),
            "model.outputs[0].layer is 'c'; no layer has that name");
  EXPECT_EQ(PlanError("outputs { loss: HUBER }"),
            "model.outputs[0].label is ''; the examples' labels are 'digit', 'size'");
  EXPECT_EQ(PlanError("loss: HUBER"),
            "model.label is ''; the examples' labels are 'digit', 'size'");
  EXPECT_EQ(PlanError(std::string(kSize) + "outputs { layer: 'b' label: 'size' loss: HUBER }"),
            "model.outputs[1].layer: model.outputs[0] is of the layer 'b' too; a layer has one "
            "output");
  EXPECT_EQ(
      PlanError("outputs { layer: 'a' label: 'digit' loss: SPARSE_CATEGORICAL_CROSSENTROPY }"),
      "model.outputs: none is of the last layer, 'b'; add one, or remove the layers after the last "
      "output");
}

TEST(OutputPlanTest, LabelsThatALossDoesNotTake) {
  EXPECT_EQ(
      PlanError("outputs { label: 'digit' loss: MEAN_SQUARED_ERROR }"),
      "model.outputs[0].loss: MEAN_SQUARED_ERROR takes floats, as many as the output [2] has, "
      "the label 'digit' is a class; use a label of floats (numpy's divide_by: 1, tfrecord's "
      "type: FLOAT, csv's number: true), or SPARSE_CATEGORICAL_CROSSENTROPY");
  EXPECT_THAT(PlanError("outputs { label: 'digit' loss: CATEGORICAL_CROSSENTROPY }"),
              HasSubstr("the label 'digit' is a class; use SPARSE_CATEGORICAL_CROSSENTROPY"));
  EXPECT_EQ(PlanError("outputs { label: 'size' loss: SPARSE_CATEGORICAL_CROSSENTROPY }"),
            "model.outputs[0].loss: SPARSE_CATEGORICAL_CROSSENTROPY takes one class for each "
            "example, a whole number; the label 'size' has 2 floats");
  EXPECT_THAT(PlanError(std::string(kSize) + "outputs { layer: 'a' label: 'size' loss: HUBER }"),
              HasSubstr("as many as the output [3] has, the label 'size' is [2]; give the layer as "
                        "many units"));
}

// Several whole numbers for each example, which are no class: 0 and 1 for each of several classes.
TEST(OutputPlanTest, SeveralWholeNumbersMustBeFloats) {
  ExampleSpec examples = TwoLabels();
  examples.labels[1].type = ElementType::kId;
  const std::string floats = "numpy's divide_by: 1, tfrecord's type: FLOAT, csv's number: true)";
  for (const char* loss : {"HUBER", "CATEGORICAL_CROSSENTROPY"}) {
    EXPECT_THAT(PlanError(absl::StrCat("outputs { label: 'size' loss: ", loss, " }"), examples),
                HasSubstr("the label 'size' is of whole numbers; have them as floats (" + floats))
        << loss;
  }
  EXPECT_THAT(
      PlanError("outputs { label: 'size' loss: BINARY_CROSSENTROPY }", examples),
      HasSubstr("end the model with a dense layer of 1 unit, or have the label's numbers as "
                "floats (" +
                floats));
}

TEST(OutputPlanTest, WhatDoesNotFitTheClasses) {
  EXPECT_EQ(PlanError("outputs { label: 'size' loss: CATEGORICAL_CROSSENTROPY class_weights: 1 }"),
            "model.outputs[0].class_weights has 1 numbers; there are 2 classes");
  EXPECT_EQ(
      PlanError("outputs { label: 'size' loss: BINARY_CROSSENTROPY class_weights: [1, 2] }"),
      "model.outputs[0].class_weights: an example has 2 labels; they are for one label of each "
      "example");
  EXPECT_EQ(PlanError("outputs { label: 'size' loss: CATEGORICAL_CROSSENTROPY "
                      "metrics { metric: TOP_K_ACCURACY } }"),
            "model.outputs[0].metrics[0]: k is 5, the output has 2 classes; use at most as many");
  EXPECT_EQ(PlanError("outputs { label: 'size' loss: BINARY_CROSSENTROPY "
                      "metrics { metric: CONFUSION_MATRIX } }"),
            "model.outputs[0].metrics[0]: CONFUSION_MATRIX takes one label for each example, the "
            "output has 2");
  EXPECT_EQ(PlanError("outputs { label: 'size' loss: HUBER metrics { metric: RECALL } }"),
            "model.outputs[0].metrics[0]: RECALL needs the loss BINARY_CROSSENTROPY, it is HUBER");
}

TEST(OutputPlanTest, ConfusionMatricesHaveAtMost100Classes) {
  ModelSpec spec;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "layers { dense { units: 101 } } loss: SPARSE_CATEGORICAL_CROSSENTROPY "
      "metrics: CONFUSION_MATRIX",
      &spec));
  EXPECT_EQ(PlanModel(spec, FloatsAndClass({4}, 3)).status().message(),
            "model.metrics[0]: CONFUSION_MATRIX takes at most 100 classes, the output has 101; "
            "leave it out");
}

TEST(OutputPlanTest, NumbersOfOneNameAreRefused) {
  ModelSpec spec;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "layers { name: 'a' dense { units: 3 } } layers { name: 'a_top_2' dense { units: 3 } } "
      "outputs { layer: 'a' loss: SPARSE_CATEGORICAL_CROSSENTROPY "
      "  metrics { metric: TOP_K_ACCURACY k: 2 } } "
      "outputs { loss: SPARSE_CATEGORICAL_CROSSENTROPY metrics { metric: ACCURACY } }",
      &spec));
  EXPECT_THAT(std::string(PlanModel(spec, FloatsAndClass({4}, 3)).status().message()),
              StartsWith("model.outputs[1]: 'a_top_2_accuracy' is reported by another output"));
}

TEST(OutputPlanTest, NamesThatCannotBeReportedAreRefused) {
  const auto error = [](const std::string& name) {
    ModelSpec spec;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        "layers { name: '" + name +
            "' dense { units: 2 } } layers { dense { units: 2 } } "
            "outputs { layer: '" +
            name + "' label: 'size' loss: HUBER } " + kSize,
        &spec));
    return std::string(PlanModel(spec, TwoLabels()).status().message());
  };
  EXPECT_THAT(error(std::string(99, 'x')), HasSubstr("which has 104 bytes; at most 100"));
  EXPECT_THAT(error("eval"), HasSubstr("'eval_loss' would be reported"));
  EXPECT_EQ(error("evaluated"), "");
}

TEST(OutputPlanTest, ProbabilitiesAreNoLogitsButMayBeNumbers) {
  const auto model = [](const std::string& output) {
    ModelSpec spec;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        "layers { dense { units: 2 activation: SIGMOID } } outputs { label: 'size' " + output +
            " }",
        &spec));
    return PlanModel(spec, TwoLabels()).status();
  };
  EXPECT_TRUE(model("loss: MEAN_SQUARED_ERROR").ok());
  EXPECT_EQ(model("loss: BINARY_CROSSENTROPY").message(),
            "model.layers[0] 'dense_0': its activation is SIGMOID; the loss takes logits: remove "
            "it");
}

TEST(OutputPlanTest, ASecondSetHasTheSameLabels) {
  const absl::StatusOr<ModelPlan> plan = Plan(kSize);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(CheckLabels(*plan, TwoLabels()).ok());
  ExampleSpec other = TwoLabels();
  std::swap(other.labels[0], other.labels[1]);
  EXPECT_EQ(CheckLabels(*plan, other).message(),
            "model.outputs[0].label: the label 1 must be 'size', as in the training examples");
  other = TwoLabels();
  other.labels[1].shape = {3};
  EXPECT_THAT(std::string(CheckLabels(*plan, other).message()), HasSubstr("'size' is [3]"));
}

TEST(OutputPlanTest, ASecondSetHasLabelsOfTheSameKind) {
  ModelSpec spec;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "layers { dense { units: 1 } } loss: BINARY_CROSSENTROPY", &spec));
  const ExampleSpec classes = FloatsAndClass({4}, 2);
  ExampleSpec floats = classes;
  floats.labels[0].type = ElementType::kFloat;
  const absl::StatusOr<ModelPlan> of_classes = PlanModel(spec, classes);
  const absl::StatusOr<ModelPlan> of_floats = PlanModel(spec, floats);
  ASSERT_TRUE(of_classes.ok() && of_floats.ok());
  EXPECT_TRUE(CheckLabels(*of_floats, floats).ok());
  EXPECT_THAT(std::string(CheckLabels(*of_floats, classes).message()),
              HasSubstr("BINARY_CROSSENTROPY takes floats"));
  EXPECT_THAT(std::string(CheckLabels(*of_classes, floats).message()),
              HasSubstr("takes one class for each example"));
}

}  // namespace
}  // namespace millrace::worker
