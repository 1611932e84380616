// A converted model with its weights computes what Keras computes: the outputs that Keras predicted
// (testing/reference/keras_models.py) are the labels of a mean squared error, which measures how
// far ours are from them.
#include <cmath>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/keras/keras_file.h"
#include "client/keras/keras_model.h"
#include "client/keras/keras_test_util.h"
#include "client/keras/keras_weights.h"
#include "common/safetensors/safetensors_file.h"
#include "common/storage/durable_file.h"
#include "gtest/gtest.h"
#include "worker/device/cpu/cpu_device.h"
#include "worker/input/batch.h"
#include "worker/input/example_spec.h"
#include "worker/model/model.h"
#include "worker/model/model_plan.h"

namespace millrace::client {
namespace {

using ::millrace::worker::Batch;
using ::millrace::worker::Model;

struct KerasPrediction {
  std::vector<float> input;
  std::vector<float> output;
};

std::vector<KerasPrediction> ReadPredictions(const std::string& name) {
  std::vector<KerasPrediction> predictions;
  std::stringstream lines(ReadKerasSample(name));
  for (std::string line; std::getline(lines, line);) {
    std::stringstream words(line);
    std::string kind;
    words >> kind;
    std::vector<float> numbers;
    for (float number; words >> number;) numbers.push_back(number);
    if (kind == "input") {
      predictions.push_back({std::move(numbers), {}});
    } else {
      predictions.back().output = std::move(numbers);
    }
  }
  return predictions;
}

// With the values that a safetensors file has by the variables' names, all of them.
std::unique_ptr<Model> Compile(ModelSpec spec, const SafetensorsReader& values) {
  spec.set_loss(MEAN_SQUARED_ERROR);
  spec.clear_metrics();
  worker::ExampleSpec examples = worker::FloatsAndClass({6, 6, 3}, 0);
  examples.labels[0].type = worker::ElementType::kFloat;
  examples.labels[0].shape = {3};
  const auto plan = worker::PlanModel(spec, examples);
  if (!plan.ok()) {
    ADD_FAILURE() << plan.status();
    return nullptr;
  }
  auto model = worker::CpuDevice().Compile(*plan, {1, 1});
  EXPECT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->variables().size(), values.header().tensors.size());
  for (size_t i = 0; i < (*model)->variables().size(); ++i) {
    const VariableSpec& variable = (*model)->variables()[i];
    const auto tensor = values.Find(variable.name());
    if (!tensor.has_value()) {
      ADD_FAILURE() << variable.name();
      continue;
    }
    EXPECT_EQ(values.header().tensors[*tensor].shape,
              std::vector<uint64_t>(variable.shape().begin(), variable.shape().end()));
    const absl::Status status = values.Read(*tensor, 0, (*model)->values(i));
    EXPECT_TRUE(status.ok()) << status;
  }
  return *std::move(model);
}

// The root of the mean squared difference.
double DifferenceTo(const std::vector<float>& output, const std::vector<float>& input,
                    Model* model) {
  Batch batch;
  batch.size = 1;
  batch.features = {worker::FloatTensor(input)};
  batch.labels = {worker::FloatTensor(output)};
  worker::EvaluationSums sums;
  const absl::Status status = model->Evaluate(batch, &sums);
  EXPECT_TRUE(status.ok()) << status;
  return std::sqrt(sums.loss_sum);
}

// A whole file with its weights.
class KerasValuesTest : public ::testing::TestWithParam<const char*> {};

TEST_P(KerasValuesTest, AConvertedModelComputesWhatKerasDoes) {
  const std::string name = GetParam();
  const auto file = ReadTrainedFile(name);
  ASSERT_TRUE(file.ok()) << file.status();
  const KerasModel converted = ConvertOrFail(file->json);
  const auto weights = FindKerasWeights(*file->weights, converted.variables);
  ASSERT_TRUE(weights.ok()) << weights.status();
  const std::string written = absl::StrCat(::testing::TempDir(), "/", name, ".safetensors");
  const absl::Status status = WriteKerasWeights(*file->weights, *weights, written);
  ASSERT_TRUE(status.ok()) << status;
  const auto values = SafetensorsReader::Open(RealFileSystem(), written);
  ASSERT_TRUE(values.ok()) << values.status();
  const std::unique_ptr<Model> model = Compile(converted.model, *values);
  ASSERT_NE(model, nullptr);
  const auto predictions = ReadPredictions(absl::StrCat("trained.", name.substr(0, 6), ".txt"));
  ASSERT_EQ(predictions.size(), 3u);
  for (const KerasPrediction& one : predictions) {
    EXPECT_LT(DifferenceTo(one.output, one.input, model.get()), 1e-5);
    EXPECT_GT(DifferenceTo(std::vector<float>(3), one.input, model.get()), 0.1);
  }
}

INSTANTIATE_TEST_SUITE_P(Files, KerasValuesTest, ::testing::ValuesIn(kTrainedFiles),
                         TrainedFileName);

}  // namespace
}  // namespace millrace::client
