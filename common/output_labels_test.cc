// Which labels the outputs of a model learn, and that data.evaluate has them as data.train does.
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/spec_checks.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "protos/data.pb.h"
#include "protos/model.pb.h"

namespace millrace {
namespace {

constexpr char kLearnsY[] = "outputs { loss: HUBER label: 'y' }";
constexpr char kTrainsOnXAndY[] = "train { numpy { label { name: 'x' } label { name: 'y' } } } ";
constexpr char kTrainsOnY[] = "train { numpy { label { name: 'y' } } } ";

template <typename Message>
Message ParseText(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

std::string OutputLabelsError(const std::string& model, const std::string& data) {
  return std::string(
      CheckOutputLabels(ParseText<ModelSpec>(model), ParseText<DataSpec>(data).train()).message());
}

std::string EvaluationLabelsError(const std::string& model, const std::string& train,
                                  const std::string& evaluate) {
  const auto data = ParseText<DataSpec>(absl::StrCat(train, evaluate.empty() ? "" : "evaluate { ",
                                                     evaluate, evaluate.empty() ? "" : " }"));
  return std::string(CheckEvaluationLabels(ParseText<ModelSpec>(model), data).message());
}

TEST(OutputLabelsTest, OutputsSayWhichOfSeveralLabels) {
  EXPECT_EQ(OutputLabelsError("loss: HUBER", kTrainsOnXAndY),
            "model.outputs: not set; must be at least one in place of model.loss, which has no "
            "label: data.train has 'x', 'y'");
  EXPECT_EQ(OutputLabelsError(kLearnsY, kTrainsOnXAndY), "");
  EXPECT_EQ(OutputLabelsError("outputs { loss: HUBER }", kTrainsOnXAndY),
            "model.outputs[0].label: not set; must be one of 'x', 'y', the labels of data.train");
  EXPECT_EQ(OutputLabelsError("outputs { loss: HUBER label: 'label' }",
                              "train { cifar { label: CIFAR_100_BOTH } }"),
            "model.outputs[0].label: 'label'; must be one of 'fine', 'coarse', the labels of "
            "data.train");
}

TEST(OutputLabelsTest, TheOnlyLabelMayBeLeftOut) {
  EXPECT_EQ(OutputLabelsError("loss: HUBER", kTrainsOnY), "");
  EXPECT_EQ(OutputLabelsError("outputs { loss: HUBER }", kTrainsOnY), "");
  EXPECT_EQ(OutputLabelsError(kLearnsY, "train { idx {} }"),
            "model.outputs[0].label: 'y'; must be 'label', the only label of data.train, or left "
            "out");
}

// Workers alone refused them, in words about the output.
TEST(OutputLabelsTest, TheEvaluationHasThemUnderTheSameNames) {
  EXPECT_EQ(EvaluationLabelsError(kLearnsY, kTrainsOnXAndY,
                                  "numpy { label { name: 'x' } label { name: 'z' } }"),
            "data.evaluate.numpy.label[1].name: 'z'; must be 'y', as in data.train");
  EXPECT_EQ(EvaluationLabelsError(kLearnsY, kTrainsOnXAndY,
                                  "tfrecord { label { key: 'x' } label { key: "
                                  "'b' } }"),
            "data.evaluate.tfrecord.label[1].key: 'b'; must be 'y', as in data.train");
  EXPECT_EQ(EvaluationLabelsError("loss: HUBER", kTrainsOnY, "csv { columns {} label {} }"),
            "data.evaluate.csv.label.label: 'label'; must be 'y', as in data.train");
  EXPECT_EQ(EvaluationLabelsError(kLearnsY, kTrainsOnXAndY,
                                  "numpy { label { name: 'other' } label { name: 'y' } }"),
            "");
}

TEST(OutputLabelsTest, TheEvaluationHasAsManyAsAreLearned) {
  EXPECT_EQ(EvaluationLabelsError(kLearnsY, kTrainsOnXAndY, "numpy { label { name: 'y' } }"),
            "data.evaluate: labels 'y'; must be labels 'x', 'y', as in data.train");
  EXPECT_EQ(EvaluationLabelsError(kLearnsY, kTrainsOnXAndY, "numpy {}"),
            "data.evaluate: no label; must be labels 'x', 'y', as in data.train");
  EXPECT_EQ(EvaluationLabelsError("outputs { loss: HUBER label: 'x' }", kTrainsOnXAndY,
                                  "numpy { label { name: 'x' } }"),
            "");
}

TEST(OutputLabelsTest, FormatsWithoutNamesOfLabelsAreNamedAsAWhole) {
  EXPECT_EQ(EvaluationLabelsError("outputs { loss: HUBER label: 'fine' }",
                                  "train { cifar { label: CIFAR_100_BOTH } } ",
                                  "cifar { label: CIFAR_100_FINE }"),
            "data.evaluate: labels 'label'; must be labels 'fine', 'coarse', as in data.train");
  EXPECT_EQ(EvaluationLabelsError("loss: HUBER", "train { idx {} } ", "libsvm {}"), "");
}

TEST(OutputLabelsTest, NothingIsAskedOfTheEvaluationWhereNothingIsLearned) {
  EXPECT_EQ(EvaluationLabelsError(kLearnsY, kTrainsOnXAndY, ""), "");
  EXPECT_EQ(EvaluationLabelsError("custom { name: 'mine' }", kTrainsOnXAndY, "idx {}"), "");
  EXPECT_EQ(EvaluationLabelsError("custom { name: 'mine' }", "train { numpy {} } ", "idx {}"), "");
}

TEST(OutputLabelsTest, TheEvaluationTakesOverTheLabelsOfATable) {
  EXPECT_EQ(EvaluationLabelsError(kLearnsY, "train { csv { columns {} label { label: 'y' } } } ",
                                  "csv { files: 'b' }"),
            "");
}

}  // namespace
}  // namespace millrace
