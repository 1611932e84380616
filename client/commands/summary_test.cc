#include "client/commands/summary.h"

#include <string>

#include "client/testing/small_job_test.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace millrace::client {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

// A model with everything that a summary tells apart: variables that are trained, frozen, shared,
// and moving averages.
constexpr char kModel[] = R"(model={
    layers { name: 'first' dense { units: 2 } }
    layers { name: 'norm' batch_normalization {} }
    layers { name: 'again' variables_of: 'first' dense { units: 2 } }
    layers { name: 'logit' trainable: false dense { units: 1 } }
    loss: BINARY_CROSSENTROPY
  })";

class SummaryTest : public millrace::testing::SmallJobTest {
 protected:
  SummaryTest() { run_.flags().set = {kModel}; }
};

TEST_F(SummaryTest, TellsLayersAndWhatBecomesOfTheirParameters) {
  EXPECT_EQ(*run_.Run(RunSummary), ExitCode::kSucceeded);
  EXPECT_THAT(
      run_.out(),
      MatchesRegex(
          "LAYER \\(KIND\\)                INPUTS    OUTPUT  PARAMETERS            FLOPS\n"
          "first \\(dense\\)               features  \\[2\\]     6                     8\n"
          "norm \\(batch_normalization\\)  first     \\[2\\]     8                     2\n"
          "again \\(dense\\)               norm      \\[2\\]     0 \\(those of 'first'\\)  8\n"
          "logit \\(dense\\)               again     \\[1\\]     3 \\(frozen\\)            4\n"
          "\n"
          "parameters         17 \\(68 bytes\\)\n"
          "  trainable        10 \\(40 bytes\\)\n"
          "  frozen           3 \\(12 bytes\\)\n"
          "  statistics       4 \\(16 bytes\\)\n"
          "FLOPs, forwards    22 for an example\n"
          "pushed by a step   56 bytes\n"
          "memory of a worker [0-9.]+ KiB beside its data\n"
          "training examples  40\n"
          "held-out examples  40\n"
          "steps              15\n"));
}

TEST_F(SummaryTest, CountsTheVariablesTwiceWhereTheJobPullsAhead) {
  run_.flags().json = true;
  const auto worker_bytes = [this](const std::string& mode) {
    run_.flags().set = {kModel, mode};
    const size_t before = run_.out().size();
    EXPECT_EQ(*run_.Run(RunSummary), ExitCode::kSucceeded);
    return nlohmann::json::parse(run_.out().substr(before))["worker_bytes"].get<double>();
  };
  const double without = worker_bytes("asynchronous={}");
  EXPECT_EQ(worker_bytes("asynchronous={pull_ahead: true}"), without + 4 * 17);
  EXPECT_EQ(worker_bytes("asynchronous={pull_ahead: true staleness_bound: 0}"), without);
}

TEST_F(SummaryTest, AsJson) {
  run_.flags().json = true;
  EXPECT_EQ(*run_.Run(RunSummary), ExitCode::kSucceeded);
  nlohmann::json found = nlohmann::json::parse(run_.out());
  EXPECT_GT(found["worker_bytes"], 68);
  found.erase("worker_bytes");
  EXPECT_EQ(found, nlohmann::json::parse(R"({
      "layers": [
          {"name": "first", "kind": "dense", "inputs": ["features"], "output": [2],
           "parameters": 6, "trainable": true, "flops": 8.0},
          {"name": "norm", "kind": "batch_normalization", "inputs": ["first"], "output": [2],
           "parameters": 8, "trainable": true, "flops": 2.0},
          {"name": "again", "kind": "dense", "inputs": ["norm"], "output": [2],
           "parameters": 0, "trainable": true, "flops": 8.0, "variables_of": "first"},
          {"name": "logit", "kind": "dense", "inputs": ["again"], "output": [1],
           "parameters": 3, "trainable": false, "flops": 4.0}],
      "parameters": 17, "trainable_parameters": 10, "frozen_parameters": 3, "statistics": 4,
      "flops": 22.0, "bytes_pushed": 56,
      "train_examples": 40, "evaluate_examples": 40, "steps": 15})"));
}

TEST_F(SummaryTest, NeedsTheData) {
  run_.flags().data = "";
  const auto result = run_.Run(RunSummary);
  EXPECT_EQ(ExitCodeOf(result.status()), ExitCode::kUsage);
  EXPECT_THAT(result.status().ToString(), HasSubstr("--data=DIR"));
}

TEST_F(SummaryTest, ModelThatOnlyWorkersKnowIsNamed) {
  run_.flags().set = {"model={custom: {name: 'own'}}"};
  EXPECT_EQ(*run_.Run(RunSummary), ExitCode::kSucceeded);
  EXPECT_THAT(run_.out(), HasSubstr("model              own, which only the workers"));
  EXPECT_THAT(run_.out(), HasSubstr("training examples  40\n"));
}

TEST_F(SummaryTest, ModelThatDoesNotFitItsDataIsNamedByLayer) {
  run_.flags().set = {"model.layers[0].dense.units=3"};
  EXPECT_THAT(run_.Run(RunSummary).status().ToString(), HasSubstr("model.layers[0] 'logit'"));
}

TEST_F(SummaryTest, MoreShardsThanElementsAreRefused) {
  run_.flags().set = {kModel, "placement.shards=18"};
  EXPECT_THAT(run_.Run(RunSummary).status().ToString(),
              HasSubstr("placement.shards: 18; must be at most the number of elements of all "
                        "variables, 17"));
}

}  // namespace
}  // namespace millrace::client
