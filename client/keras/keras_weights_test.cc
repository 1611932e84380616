#include "client/keras/keras_weights.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/keras/keras_file.h"
#include "client/keras/keras_test_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<std::vector<KerasWeight>> Find(const std::string& file, const std::string& json) {
  auto opened = Hdf5File::Open(KerasSamplePath(file));
  EXPECT_TRUE(opened.ok()) << opened.status();
  return FindKerasWeights(*opened, ConvertOrFail(json).variables);
}

// "embedding/embeddings [50, 6]" of each.
std::vector<std::string> Shown(const absl::StatusOr<std::vector<KerasWeight>>& weights) {
  EXPECT_TRUE(weights.ok()) << weights.status();
  std::vector<std::string> shown;
  for (const KerasWeight& one : *weights) {
    shown.push_back(absl::StrCat(one.name, " ", absl::StrJoin(one.shape, ",")));
  }
  return shown;
}

TEST(KerasWeightsTest, WeightsBesideAModelHaveItsNames) {
  EXPECT_THAT(Shown(Find("sequences.keras3.weights.h5", ReadKerasSample("sequences.keras3.json"))),
              ElementsAre("embedding/embeddings 50,6", "causal/kernel 3,6,8", "causal/bias 8",
                          "grouped/kernel 2,4,4", "grouped/bias 4", "norm/gamma 4", "norm/beta 4",
                          "norm/moving_mean 4", "norm/moving_variance 4"));
  // Keras 2 says the same of the model.
  EXPECT_THAT(Shown(Find("images.keras3.weights.h5", ReadKerasSample("images.keras2.json"))),
              ElementsAre("grouped/kernel 3,3,2,6", "grouped/bias 6", "depthwise/kernel 3,3,6,2",
                          "norm/gamma 12", "norm/moving_mean 12", "norm/moving_variance 12",
                          "separable_depthwise/kernel 2,2,12,1", "separable/kernel 1,1,12,5",
                          "separable/bias 5", "layer_norm/gamma 5", "layer_norm/beta 5"));
}

class WholeFileTest : public ::testing::TestWithParam<const char*> {};

TEST_P(WholeFileTest, LayersOfModelsWithinTheModelAreFound) {
  const KerasModel model =
      ConvertOrFail(ReadKerasSample(absl::StrCat("trained.", std::string(GetParam(), 6), ".json")));
  const auto file = ReadTrainedFile(GetParam());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(
      Shown(FindKerasWeights(*file->weights, model.variables)),
      ::testing::UnorderedElementsAre(
          "stem/kernel 3,3,3,4", "stem/bias 4", "block.conv/kernel 3,3,4,4", "block.norm/gamma 4",
          "block.norm/beta 4", "block.norm/moving_mean 4", "block.norm/moving_variance 4",
          "block.conv_1/kernel 1,1,4,4", "block.conv_1/bias 4", "block.norm_1/gamma 4",
          "block.norm_1/beta 4", "block.norm_1/moving_mean 4", "block.norm_1/moving_variance 4",
          "flat/kernel 16,4", "flat/bias 4", "shared/kernel 4,5", "shared/bias 5",
          "out/kernel 10,3", "out/bias 3"));
}

INSTANTIATE_TEST_SUITE_P(Files, WholeFileTest, ::testing::ValuesIn(kTrainedFiles), TrainedFileName);

TEST(KerasWeightsTest, WeightsOfAnotherModelAreRefused) {
  const std::string sequences = ReadKerasSample("sequences.keras3.json");
  EXPECT_THAT(Find("images.keras3.weights.h5", sequences).status().message(),
              HasSubstr("images.keras3.weights.h5: layers/embedding/vars/0: not there; must be "
                        "'embedding/embeddings' of layer 'embedding'"));
  const std::string wider =
      absl::StrReplaceAll(sequences, {{"\"output_dim\": 6", "\"output_dim\": 7"}});
  EXPECT_THAT(Find("sequences.keras3.weights.h5", wider).status().message(),
              HasSubstr("layers/embedding/vars/0: its shape is [50, 6]; 'embedding/embeddings' "
                        "must be [50, 7]"));
  // The embedding alone; then a convolution without its bias.
  const std::string unbiased =
      absl::StrReplaceAll(sequences, {{"\"use_bias\": true", "\"use_bias\": false"}});
  EXPECT_THAT(Find("sequences.keras3.weights.h5", unbiased).status().message(),
              HasSubstr("layers/conv1d/vars/1: layer 'causal' has 1 variables, and must have no "
                        "more"));
}

TEST(KerasWeightsTest, WeightsByNameOfAnotherModelAreRefused) {
  EXPECT_THAT(
      Find("trained.keras2.h5", ReadKerasSample("sequences.keras3.json")).status().message(),
      HasSubstr("trained.keras2.h5: model_weights/embedding: not there"));
  const std::string json = ReadKerasSample("trained.keras3.json");
  const std::string unbiased =
      absl::StrReplaceAll(json, {{"\"use_bias\": true", "\"use_bias\": false"}});
  EXPECT_THAT(Find("trained.keras3.h5", unbiased).status().message(),
              HasSubstr("model_weights/stem: it has 2 weights; layer 'stem' must have 1"));
  const std::string wider = absl::StrReplaceAll(json, {{"\"units\": 3", "\"units\": 5"}});
  EXPECT_THAT(Find("trained.keras3.h5", wider).status().message(),
              HasSubstr("out/kernel: its shape is [10, 3]; 'out/kernel' must be [?, 5]"));
}

}  // namespace
}  // namespace millrace::client
