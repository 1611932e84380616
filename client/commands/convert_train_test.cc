// What `millrace convert` prints trains: the job of a Keras model with what conversion changes
// most, on an embedded cluster.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/commands/convert.h"
#include "client/commands/train.h"
#include "client/testing/run_command.h"
#include "client/testing/small_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "testing/example_data/npz.h"

namespace millrace::client {
namespace {

using ::millrace::testing::BytesOf;
using ::millrace::testing::CommandRun;
using ::millrace::testing::NpyFile;
using ::millrace::testing::WriteFile;
using ::testing::AllOf;
using ::testing::HasSubstr;

// A layer has the name that features have, a Dense is on a sequence, and an output of probabilities
// is another's input.
constexpr char kKerasModel[] = R"({"class_name": "Functional", "config": {"layers": [
    {"class_name": "InputLayer", "config": {"name": "numbers", "batch_input_shape": [null, 4, 2]},
     "inbound_nodes": []},
    {"class_name": "Dense", "config": {"name": "features", "units": 3, "activation": "tanh"},
     "inbound_nodes": [[["numbers", 0, 0, {}]]]},
    {"class_name": "Flatten", "config": {"name": "flat"},
     "inbound_nodes": [[["features", 0, 0, {}]]]},
    {"class_name": "Dense", "config": {"name": "a", "units": 2, "activation": "softmax"},
     "inbound_nodes": [[["flat", 0, 0, {}]]]},
    {"class_name": "Dense", "config": {"name": "b", "units": 1, "activation": "sigmoid"},
     "inbound_nodes": [[["a", 0, 0, {}]]]}],
    "output_layers": [["a", 0, 0], ["b", 0, 0]]},
  "compile_config": {"optimizer": "adam", "metrics": [["accuracy"], ["accuracy"]],
    "loss": ["sparse_categorical_crossentropy", "binary_crossentropy"]}})";

constexpr char kDataAndSizes[] = R"(
name: "converted"
data {
  train {
    numpy { features { name: "numbers" files: "numbers.npy" } label { files: "label.npy" } }
  }
  evaluate {
    numpy { features { name: "numbers" files: "numbers.npy" } label { files: "label.npy" } }
  }
}
batch_size: 8
epochs: 2
)";

// 40 examples, whose class is whether their first number is above 0.
void WriteData() {
  std::vector<float> numbers;
  std::vector<uint8_t> labels;
  for (int i = 0; i < 40; ++i) {
    for (int j = 0; j < 8; ++j) {
      const float number = static_cast<float>((i * 5 + j * 3) % 11 - 5) / 5;
      numbers.push_back(number);
      if (j == 0) labels.push_back(number > 0 ? 1 : 0);
    }
  }
  WriteFile("numbers.npy", NpyFile({"numbers", "<f4", {40, 4, 2}, BytesOf<float>(numbers)}));
  WriteFile("label.npy", NpyFile({"label", "|u1", {40}, BytesOf<uint8_t>(labels)}));
}

TEST(ConvertTrainTest, ConvertedModelOfSeveralOutputsTrainsAndEvaluates) {
  CommandRun convert;
  convert.flags().path = WriteFile("model.json", kKerasModel);
  ASSERT_EQ(*convert.Run(RunConvert), ExitCode::kSucceeded);
  EXPECT_THAT(convert.err(), AllOf(HasSubstr("the feature 'numbers', which the data must have"),
                                   HasSubstr("What takes 'a' takes 'a_activation'")));
  WriteData();
  CommandRun train;
  train.flags().command = "train";
  train.flags().job_file =
      WriteFile("converted.textproto", absl::StrCat(convert.out(), kDataAndSizes));
  train.flags().data = ::testing::TempDir();
  // The data have one label, which both outputs take.
  train.flags().set = {"model.outputs[0].label=label", "model.outputs[1].label=label"};
  train.flags().json = true;
  ASSERT_EQ(*train.Run(RunTrain), ExitCode::kSucceeded) << train.out() << train.err();
  const std::string out = train.out();
  const auto last = nlohmann::json::parse(out.substr(out.rfind('\n', out.size() - 2) + 1));
  EXPECT_EQ(last["state"], "SUCCEEDED");
  EXPECT_EQ(last["step"], 10);
  for (const char* metric : {"eval_loss", "eval_a_accuracy", "eval_b_accuracy"}) {
    EXPECT_TRUE(last["metrics"][metric].is_number()) << metric << " in " << last;
  }
}

}  // namespace
}  // namespace millrace::client
