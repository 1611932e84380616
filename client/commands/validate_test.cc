#include "client/commands/validate.h"

#include <string>

#include "client/testing/run_command.h"
#include "client/testing/small_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace millrace::client {
namespace {

using ::millrace::testing::CommandRun;
using ::millrace::testing::SmallData;
using ::millrace::testing::SmallJob;
using ::millrace::testing::WriteFile;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using Json = nlohmann::json;

class ValidateTest : public ::testing::Test {
 protected:
  ValidateTest() { run_.flags().job_file = WriteFile("job.textproto", SmallJob()); }

  CommandRun run_;
};

TEST_F(ValidateTest, WithoutDataTheJobItselfIsChecked) {
  EXPECT_EQ(*run_.Run(RunValidate), ExitCode::kSucceeded);
  EXPECT_THAT(run_.out(), HasSubstr("is a valid job"));
  EXPECT_THAT(run_.out(), HasSubstr("--data=DIR"));
  run_.flags().set = {"batch_size=0"};
  EXPECT_THAT(run_.Run(RunValidate).status().ToString(), HasSubstr("batch_size"));
}

TEST_F(ValidateTest, WithDataTheLayersAreShown) {
  run_.flags().data = SmallData();
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
  run_.flags().data = SmallData();
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
  run_.flags().set = {"model={custom: {name: 'own'}}"};
  EXPECT_EQ(*run_.Run(RunValidate), ExitCode::kSucceeded);
  EXPECT_THAT(run_.out(), HasSubstr("a valid job, whose model workers check that know it"));
  run_.flags().data = SmallData();
  EXPECT_EQ(*run_.Run(RunValidate), ExitCode::kSucceeded);
  EXPECT_THAT(run_.out(), HasSubstr("model              own, which is not checked here"));
  EXPECT_THAT(run_.out(), HasSubstr("training examples  40\n"));
}

TEST_F(ValidateTest, CustomModelAsJson) {
  run_.flags().set = {"model={custom: {name: 'own'}}"};
  run_.flags().data = SmallData();
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
  run_.flags().data = SmallData();
  run_.flags().set = {"model.layers[0].dense.units=3"};
  EXPECT_THAT(run_.Run(RunValidate).status().ToString(), HasSubstr("model.layers[0] 'logit'"));
}

TEST_F(ValidateTest, HeldOutExamplesOfAnotherShapeAreRefused) {
  run_.flags().data = SmallData();
  run_.flags().set = {"data.evaluate.libsvm.features=3"};
  EXPECT_THAT(run_.Run(RunValidate).status().ToString(), HasSubstr("data.evaluate: "));
}

}  // namespace
}  // namespace millrace::client
