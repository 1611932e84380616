#include "common/evaluation_spec.h"

#include <string>
#include <vector>

#include "common/job_spec.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

template <typename Message>
Message Parse(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

constexpr char kWatchedJob[] = R"(
model { layers { dense { units: 1 } } loss: BINARY_CROSSENTROPY metrics: [ACCURACY, AUC] }
data {
  directory: "/data"
  train { libsvm { file: "a" features: 3 } }
  evaluate { libsvm { file: "b" features: 3 } }
}
optimizer { sgd {} }
batch_size: 1
steps: 100
evaluation { every_steps: 10 early_stopping {} keep_best {} }
checkpoints { directory: "/checkpoints" }
)";

// The message of a job with these assignments.
std::string ErrorWith(const std::vector<std::string>& assignments) {
  JobSpec spec = Parse<JobSpec>(kWatchedJob);
  EXPECT_TRUE(CheckJobSpec(spec).ok());
  for (const std::string& assignment : assignments) {
    const absl::Status status = SetField(assignment, &spec);
    EXPECT_TRUE(status.ok()) << status;
  }
  return std::string(CheckJobSpec(spec).message());
}

TEST(EvaluationSpecTest, MetricsAreThoseOfTheModelsOutputs) {
  EXPECT_THAT(EvaluationMetrics(Parse<ModelSpec>(R"(
                layers { dense { units: 10 } }
                outputs {
                  loss: SPARSE_CATEGORICAL_CROSSENTROPY
                  metrics { metric: ACCURACY }
                  metrics { metric: TOP_K_ACCURACY k: 3 }
                  metrics { metric: CONFUSION_MATRIX }
                })")),
              ElementsAre("eval_loss", "eval_accuracy", "eval_top_3_accuracy"));
  EXPECT_THAT(EvaluationMetrics(Parse<ModelSpec>(R"(
                layers { name: "age" dense { units: 1 } }
                layers { dense { units: 1 } }
                outputs { layer: "age" loss: HUBER metrics { metric: RMSE } }
                outputs { loss: BINARY_CROSSENTROPY metrics { metric: AUC } })")),
              ElementsAre("eval_loss", "eval_age_loss", "eval_age_rmse", "eval_dense_1_loss",
                          "eval_dense_1_auc"));
  EXPECT_THAT(EvaluationMetrics(Parse<ModelSpec>("custom { name: 'own' }")), IsEmpty());
}

TEST(EvaluationSpecTest, WhatIsBetterIsInTheName) {
  for (const char* small : {"eval_loss", "eval_age_loss", "eval_mae", "eval_mse", "eval_rmse"}) {
    EXPECT_EQ(LargerIsBetter(small, GOAL_BY_NAME), false) << small;
    EXPECT_EQ(LargerIsBetter(small, LARGER_IS_BETTER), true) << small;
  }
  for (const char* large :
       {"eval_accuracy", "eval_top_5_accuracy", "eval_a_auc", "eval_precision", "eval_recall"}) {
    EXPECT_EQ(LargerIsBetter(large, GOAL_BY_NAME), true) << large;
    EXPECT_EQ(LargerIsBetter(large, SMALLER_IS_BETTER), false) << large;
  }
  EXPECT_EQ(LargerIsBetter("eval_lossy", GOAL_BY_NAME), absl::nullopt);
}

TEST(EvaluationSpecTest, MetricIsOneThatTheModelHas) {
  EXPECT_EQ(ErrorWith({"evaluation.early_stopping.metric=val_loss"}),
            "evaluation.early_stopping.metric: 'val_loss'; must be one of eval_loss, "
            "eval_accuracy, eval_auc, which evaluations of this model report");
  EXPECT_THAT(ErrorWith({"evaluation.keep_best.metric=eval_mae"}),
              StartsWith("evaluation.keep_best.metric: 'eval_mae'; must be one of "));
  EXPECT_EQ(ErrorWith({"evaluation.keep_best.metric=eval_auc"}), "");
}

TEST(EvaluationSpecTest, OfACustomModelTheGoalMustBeSaidWhereTheNameDoesNot) {
  const std::vector<std::string> custom = {"model={custom {name: 'own'}}"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), custom.begin(), custom.end());
    return ErrorWith(more);
  };
  EXPECT_EQ(with({}), "");
  EXPECT_EQ(with({"evaluation.keep_best.metric=eval_my_auc"}), "");
  EXPECT_THAT(with({"evaluation.keep_best.metric=rank"}),
              StartsWith("evaluation.keep_best.metric: 'rank'; must be 'eval_' and"));
  EXPECT_EQ(with({"evaluation.keep_best.metric=eval_rank"}),
            "evaluation.keep_best.goal: GOAL_BY_NAME; must be SMALLER_IS_BETTER or "
            "LARGER_IS_BETTER: the name 'eval_rank' does not say");
  EXPECT_EQ(with({"evaluation.keep_best={metric: 'eval_rank' goal: SMALLER_IS_BETTER}"}), "");
}

TEST(EvaluationSpecTest, WhatItNeedsMustBeThere) {
  EXPECT_EQ(ErrorWith({"evaluation.every_steps=0"}),
            "evaluation.every_steps: 0; must be at least 1 where evaluation.early_stopping is set");
  EXPECT_THAT(ErrorWith({"evaluation.early_stopping.min_delta=-1"}),
              StartsWith("evaluation.early_stopping.min_delta: -1; must be"));
  EXPECT_THAT(ErrorWith({"evaluation.early_stopping.min_delta=inf"}),
              StartsWith("evaluation.early_stopping.min_delta: inf; must be"));
  EXPECT_THAT(ErrorWith({"checkpoints.directory="}),
              HasSubstr("checkpoints.directory: not set; must be an absolute path where "
                        "evaluation.keep_best is set"));
  JobSpec spec = Parse<JobSpec>(kWatchedJob);
  spec.mutable_data()->clear_evaluate();
  EXPECT_THAT(std::string(CheckJobSpec(spec).message()),
              StartsWith("data.evaluate: not set; must be the examples to evaluate on, where "
                         "evaluation.early_stopping is set"));
}

}  // namespace
}  // namespace millrace
