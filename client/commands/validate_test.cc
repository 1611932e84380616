#include "client/commands/validate.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/testing/small_job_test.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace millrace::client {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using Json = nlohmann::json;

class ValidateTest : public millrace::testing::SmallJobTest {};

TEST_F(ValidateTest, WithoutDataTheJobItselfIsChecked) {
  run_.flags().data.clear();
  EXPECT_EQ(*run_.Run(RunValidate), ExitCode::kSucceeded);
  EXPECT_THAT(run_.out(), HasSubstr("is a valid job"));
  EXPECT_THAT(run_.out(), HasSubstr("--data=DIR"));
  run_.flags().set = {"batch_size=0"};
  EXPECT_THAT(run_.Run(RunValidate).status().ToString(), HasSubstr("batch_size"));
}

TEST_F(ValidateTest, WithDataTheLayersAreShown) {
  EXPECT_EQ(*run_.Run(RunValidate), ExitCode::kSucceeded);
  EXPECT_THAT(run_.out(), MatchesRegex("LAYER  TAKES     OUTPUT  PARAMETERS  FLOPS\n"
                                       "logit  features  \\[1\\]     3           4\n"
                                       "\n"
                                       "parameters         3 \\(12 bytes\\)\n"
                                       "FLOPs, forwards    4 for an example\n"
                                       "pushed by a step   12 bytes\n"
                                       "memory of a worker [0-9.]+ KiB beside its data\n"
                                       "training examples  40\n"
                                       "held-out examples  40\n"
                                       "steps              15\n"));
}

TEST_F(ValidateTest, AsJson) {
  run_.flags().json = true;
  EXPECT_EQ(*run_.Run(RunValidate), ExitCode::kSucceeded);
  Json found = Json::parse(run_.out());
  EXPECT_GT(found["worker_bytes"], 12);
  found.erase("worker_bytes");
  EXPECT_EQ(found, Json::parse(R"({
      "valid": true, "layers": [{"name": "logit", "inputs": ["features"], "output": [1],
          "parameters": 3, "trainable": true, "flops": 4.0}],
      "parameters": 3, "frozen_parameters": 0, "flops": 4.0, "bytes_pushed": 12,
      "train_examples": 40, "evaluate_examples": 40, "steps": 15})"));
}

// A job of a model that only workers know, with the data of the small one.
TEST_F(ValidateTest, CustomModelIsNamedAndLeftToWorkers) {
  const std::string data = std::exchange(run_.flags().data, "");
  run_.flags().set = {"model={custom: {name: 'own'}}"};
  EXPECT_EQ(*run_.Run(RunValidate), ExitCode::kSucceeded);
  EXPECT_THAT(run_.out(), HasSubstr("a valid job, whose model workers check that know it"));
  run_.flags().data = data;
  EXPECT_EQ(*run_.Run(RunValidate), ExitCode::kSucceeded);
  EXPECT_THAT(run_.out(), HasSubstr("model              own, which is not checked here"));
  EXPECT_THAT(run_.out(), HasSubstr("training examples  40\n"));
}

TEST_F(ValidateTest, CustomModelAsJson) {
  run_.flags().set = {"model={custom: {name: 'own'}}"};
  run_.flags().json = true;
  EXPECT_EQ(*run_.Run(RunValidate), ExitCode::kSucceeded);
  EXPECT_EQ(Json::parse(run_.out()), Json::parse(R"({
      "valid": true, "custom": "own", "train_examples": 40, "evaluate_examples": 40,
      "steps": 15})"));
}

TEST_F(ValidateTest, DataThatIsNotThereIsNamed) {
  run_.flags().data = "/nonexistent";
  const auto result = run_.Run(RunValidate);
  EXPECT_EQ(ExitCodeOf(result.status()), ExitCode::kFailed);
  EXPECT_THAT(result.status().ToString(), HasSubstr("/nonexistent"));
}

TEST_F(ValidateTest, ModelsThatDoNotFitTheirDataAreNamedByLayer) {
  run_.flags().set = {"model.layers[0].dense.units=3"};
  EXPECT_THAT(run_.Run(RunValidate).status().ToString(), HasSubstr("model.layers[0] 'logit'"));
}

TEST_F(ValidateTest, WindowsThatAreLargerThanWhatTheySlideOverAreRefused) {
  run_.flags().set = {R"(model={
      layers { reshape { target_shape: [2, 1] } } layers { conv1d { filters: 1 kernel_size: 3 } }
      layers { flatten {} } layers { dense { units: 1 } } loss: BINARY_CROSSENTROPY
    })"};
  EXPECT_THAT(run_.Run(RunValidate).status().ToString(),
              HasSubstr("model.layers[1] 'conv1d_1': kernel_size is 3, its input is [2, 1]: along "
                        "steps it fits up to 2 with padding VALID"));
}

// Of these data the format says what an example is.
TEST_F(ValidateTest, WindowsOfPicturesAreCheckedWithoutTheData) {
  run_.flags().data.clear();
  const auto set_job = [this](const std::string& format, int kernel_size) {
    run_.flags().set = {
        absl::StrCat("data={train {", format, "}}"),
        absl::StrCat("model={layers { conv2d { filters: 1 kernel_size: ", kernel_size, R"( } }
        layers { flatten {} } layers { dense { units: 1 } } loss: BINARY_CROSSENTROPY })")};
  };
  const auto refusal = [&] { return run_.Run(RunValidate).status().ToString(); };
  const std::string folder = "image_folder { folder: 'pictures' height: 4 width: 6 grey: true }";
  set_job(folder, 4);
  EXPECT_EQ(*run_.Run(RunValidate), ExitCode::kSucceeded);
  set_job(folder, 5);
  EXPECT_THAT(refusal(), HasSubstr("model.layers[0] 'conv2d_0': kernel_size is [5, 5], its input "
                                   "is [4, 6, 1]: along height it fits up to 4"));
  set_job("cifar { files: 'batch' }", 33);
  EXPECT_THAT(refusal(), HasSubstr("its input is [32, 32, 3]"));
  set_job("cifar { files: 'batch' }", 32);
  run_.flags().set.push_back("placement.shards=3076");
  EXPECT_THAT(refusal(), HasSubstr("placement.shards: 3076; must be at most the number of elements "
                                   "of all variables, 3075"));
}

TEST_F(ValidateTest, BothLabelsOfCifar100AreKnownWithoutTheData) {
  run_.flags().data.clear();
  run_.flags().set = {"data={train { cifar { files: 'batch' label: CIFAR_100_BOTH } }}", R"(model={
      layers { flatten {} } layers { name: "kind" dense { units: 20 } }
      layers { name: "thing" dense { units: 100 } }
      outputs { layer: "kind" label: "coarse" loss: SPARSE_CATEGORICAL_CROSSENTROPY }
      outputs { layer: "thing" label: "fine" loss: SPARSE_CATEGORICAL_CROSSENTROPY }
    })"};
  const auto code = run_.Run(RunValidate);
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, ExitCode::kSucceeded);
}

TEST_F(ValidateTest, SequencesAsAnOutputOfClassesAreRefused) {
  run_.flags().set = {R"(model={
      layers { reshape { target_shape: [2, 1] } } layers { dense { units: 1 } }
      loss: BINARY_CROSSENTROPY
    })"};
  EXPECT_THAT(run_.Run(RunValidate).status().ToString(),
              HasSubstr("model.layers[1] 'dense_1': BINARY_CROSSENTROPY takes [1], the last output "
                        "is [2, 1]"));
}

TEST_F(ValidateTest, MoreShardsThanThereCanBeAreRefused) {
  run_.flags().set = {"placement.shards=3"};
  EXPECT_EQ(*run_.Run(RunValidate), ExitCode::kSucceeded);
  run_.flags().set = {"placement.shards=4"};
  EXPECT_THAT(run_.Run(RunValidate).status().ToString(),
              HasSubstr("placement.shards: 4; must be at most the number of elements of all "
                        "variables, 3"));
  run_.flags().set = {"placement.shards=3", "optimizer={lamb: {learning_rate: 0.1}}"};
  EXPECT_THAT(run_.Run(RunValidate).status().ToString(),
              HasSubstr("placement.shards: 3; must be at most the number of variables, 2"));
}

TEST_F(ValidateTest, HeldOutExamplesOfAnotherShapeAreRefused) {
  run_.flags().set = {"data.evaluate.libsvm.features=3"};
  EXPECT_THAT(run_.Run(RunValidate).status().ToString(), HasSubstr("data.evaluate: "));
}

}  // namespace
}  // namespace millrace::client
