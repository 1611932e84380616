#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/job_spec.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// The optimizer of a job, changed as SetField does.
class CheckOptimizerSpecTest : public ::testing::Test {
 protected:
  CheckOptimizerSpecTest() { job_.mutable_optimizer()->mutable_sgd(); }

  void Set(const std::string& assignment) {
    const absl::Status status = SetField("optimizer." + assignment, &job_);
    EXPECT_TRUE(status.ok()) << status;
  }

  std::string ErrorOf(const std::string& assignment) {
    const JobSpec before = job_;
    Set(assignment);
    const absl::Status status = CheckOptimizerSpec(job_.optimizer(), "optimizer");
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << assignment;
    job_ = before;
    return std::string(status.message());
  }

  void ExpectGood(const std::string& assignment) {
    const JobSpec before = job_;
    Set(assignment);
    const absl::Status status = CheckOptimizerSpec(job_.optimizer(), "optimizer");
    EXPECT_TRUE(status.ok()) << status;
    job_ = before;
  }

  JobSpec job_;
};

TEST_F(CheckOptimizerSpecTest, KindIsSet) {
  const OptimizerSpec none;
  EXPECT_EQ(
      std::string(CheckOptimizerSpec(none, "optimizer").message()),
      "optimizer: not set; must be sgd, rmsprop, adam, adamw, nadam, adagrad, adadelta, ftrl or "
      "lamb");
}

TEST_F(CheckOptimizerSpecTest, MessagesBeginWithTheGivenPath) {
  OptimizerSpec spec;
  spec.mutable_sgd()->set_momentum(2);
  EXPECT_THAT(std::string(CheckOptimizerSpec(spec, "spec.optimizer").message()),
              StartsWith("spec.optimizer.sgd.momentum: 2;"));
}

TEST_F(CheckOptimizerSpecTest, HyperparametersThatMustBeAboveZero) {
  EXPECT_EQ(ErrorOf("rmsprop.learning_rate=nan"),
            "optimizer.rmsprop.learning_rate: nan; must be a finite number above 0");
  EXPECT_EQ(ErrorOf("adam.epsilon=1e-60"),
            "optimizer.adam.epsilon: 1e-60; must be a finite number above 0 as a float32");
  for (const char* field :
       {"sgd.learning_rate", "rmsprop.learning_rate", "rmsprop.epsilon", "adam.learning_rate",
        "adam.epsilon", "adamw.learning_rate", "adamw.epsilon", "nadam.learning_rate",
        "nadam.epsilon", "adagrad.learning_rate", "adagrad.epsilon", "adadelta.learning_rate",
        "adadelta.epsilon", "ftrl.learning_rate", "lamb.learning_rate", "lamb.epsilon",
        "clip_value", "clip_norm"}) {
    for (const char* value : {"0", "-1", "nan", "inf", "-inf", "1e300", "1e-300", "1e-39"}) {
      EXPECT_THAT(ErrorOf(absl::StrCat(field, "=", value)),
                  StartsWith(absl::StrCat("optimizer.", field, ": ")))
          << value;
    }
    ExpectGood(absl::StrCat(field, "=1e-30"));
    ExpectGood(absl::StrCat(field, "=1e30"));
  }
}

TEST_F(CheckOptimizerSpecTest, HyperparametersThatMustNotBeNegative) {
  EXPECT_EQ(ErrorOf("adamw.weight_decay=-1"),
            "optimizer.adamw.weight_decay: -1; must be a finite number of at least 0");
  for (const char* field :
       {"adamw.weight_decay", "adagrad.initial_accumulator_value", "ftrl.initial_accumulator_value",
        "ftrl.l1", "ftrl.l2", "ftrl.l2_shrinkage", "ftrl.beta"}) {
    for (const char* value : {"-1e-30", "nan", "inf", "-inf", "1e300"}) {
      EXPECT_THAT(ErrorOf(absl::StrCat(field, "=", value)),
                  StartsWith(absl::StrCat("optimizer.", field, ": ")))
          << value;
    }
    ExpectGood(absl::StrCat(field, "=0"));
    ExpectGood(absl::StrCat(field, "=1e30"));
  }
}

TEST_F(CheckOptimizerSpecTest, HyperparametersThatMustBeBelowOne) {
  EXPECT_EQ(ErrorOf("sgd.momentum=1"), "optimizer.sgd.momentum: 1; must be at least 0 and below 1");
  for (const char* field : {"sgd.momentum", "rmsprop.rho", "rmsprop.momentum", "adam.beta_1",
                            "adam.beta_2", "adamw.beta_1", "adamw.beta_2", "nadam.beta_1",
                            "nadam.beta_2", "adadelta.rho", "lamb.beta_1", "lamb.beta_2"}) {
    for (const char* value : {"1", "-1e-30", "nan", "inf", "-inf", "0.999999999999"}) {
      EXPECT_THAT(ErrorOf(absl::StrCat(field, "=", value)),
                  StartsWith(absl::StrCat("optimizer.", field, ": ")))
          << value;
    }
    ExpectGood(absl::StrCat(field, "=0"));
    ExpectGood(absl::StrCat(field, "=0.9999"));
  }
}

TEST_F(CheckOptimizerSpecTest, PowerOfTheLearningRateIsNotAboveZero) {
  EXPECT_EQ(ErrorOf("ftrl.learning_rate_power=0.5"),
            "optimizer.ftrl.learning_rate_power: 0.5; must be a finite number of at most 0");
  EXPECT_THAT(ErrorOf("ftrl.learning_rate_power=-inf"), StartsWith("optimizer.ftrl"));
  EXPECT_THAT(ErrorOf("ftrl.learning_rate_power=nan"), StartsWith("optimizer.ftrl"));
  ExpectGood("ftrl.learning_rate_power=0");
  ExpectGood("ftrl.learning_rate_power=-1");
}

TEST_F(CheckOptimizerSpecTest, GradientsAreClippedInOneWayAtMost) {
  Set("clip_value=1");
  EXPECT_EQ(
      ErrorOf("clip_norm=1"),
      "optimizer.clip_norm: set; must be left out with clip_value: at most one of clip_value, "
      "clip_norm and global_clip_norm");
  EXPECT_THAT(ErrorOf("global_clip_norm=1"),
              StartsWith("optimizer.global_clip_norm: set; must be left out with clip_value: at"));
  job_.mutable_optimizer()->clear_clip_value();
  Set("clip_norm=1");
  EXPECT_THAT(ErrorOf("global_clip_norm=1"),
              StartsWith("optimizer.global_clip_norm: set; must be left out with clip_norm: at"));
}

TEST(NeedsWholeVariablesTest, WhatTakesNormsOfVariablesDoes) {
  const auto needs = [](const std::string& text) {
    OptimizerSpec spec;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
    return NeedsWholeVariables(spec);
  };
  EXPECT_TRUE(needs("lamb {}"));
  EXPECT_TRUE(needs("sgd {} clip_norm: 1"));
  EXPECT_FALSE(needs("adam {} clip_value: 1"));
  EXPECT_FALSE(needs("adam {} global_clip_norm: 1"));
}

TEST_F(CheckOptimizerSpecTest, GoodSchedulesPass) {
  ExpectGood("schedule={}");
  ExpectGood("schedule.warmup={steps: 100 from: 1}");
  ExpectGood("schedule.piecewise_constant={boundaries: [0, 5] learning_rates: [0.1, 0.2]}");
  ExpectGood("schedule.exponential_decay={decay_steps: 1 decay_rate: 1.5}");
  ExpectGood("schedule.inverse_time_decay={decay_steps: 1 decay_rate: 1.5 staircase: true}");
  ExpectGood("schedule.inverse_time_decay={decay_steps: 1}");
  ExpectGood("schedule.polynomial_decay={decay_steps: 9007199254740992 end_learning_rate: 0}");
  ExpectGood("schedule.cosine_decay={decay_steps: 7 alpha: 1}");
  ExpectGood("schedule.cosine_restarts={first_decay_steps: 1 t_mul: 1 m_mul: 0.1}");
}

TEST_F(CheckOptimizerSpecTest, StepsOfSchedulesAreAtLeastOne) {
  EXPECT_EQ(ErrorOf("schedule.cosine_decay.alpha=0.1"),
            "optimizer.schedule.cosine_decay.decay_steps: 0; must be at least 1");
  for (const char* field : {"warmup.steps", "exponential_decay.decay_steps",
                            "inverse_time_decay.decay_steps", "polynomial_decay.decay_steps",
                            "cosine_decay.decay_steps", "cosine_restarts.first_decay_steps"}) {
    for (const char* value : {"0", "9007199254740993"}) {
      EXPECT_THAT(ErrorOf(absl::StrCat("schedule.", field, "=", value)),
                  StartsWith(absl::StrCat("optimizer.schedule.", field, ": ", value)));
    }
  }
}

TEST_F(CheckOptimizerSpecTest, NumbersOfSchedulesAreInTheirRanges) {
  EXPECT_EQ(ErrorOf("schedule.warmup={steps: 1 from: 1.5}"),
            "optimizer.schedule.warmup.from: 1.5; must be from 0 to 1");
  EXPECT_EQ(ErrorOf("schedule.exponential_decay={decay_steps: 1}"),
            "optimizer.schedule.exponential_decay.decay_rate: 0; must be a finite number above 0");
  EXPECT_EQ(ErrorOf("schedule.inverse_time_decay={decay_steps: 1 decay_rate: -0.5}"),
            "optimizer.schedule.inverse_time_decay.decay_rate: -0.5; must be a finite number of at "
            "least 0");
  EXPECT_THAT(ErrorOf("schedule.inverse_time_decay={decay_steps: 1 decay_rate: nan}"),
              StartsWith("optimizer.schedule.inverse_time_decay.decay_rate: nan; must be"));
  EXPECT_THAT(ErrorOf("schedule.polynomial_decay={decay_steps: 1 end_learning_rate: -1}"),
              StartsWith("optimizer.schedule.polynomial_decay.end_learning_rate: -1; must be"));
  EXPECT_THAT(ErrorOf("schedule.polynomial_decay={decay_steps: 1 power: 0}"),
              StartsWith("optimizer.schedule.polynomial_decay.power: 0; must be"));
  EXPECT_EQ(ErrorOf("schedule.cosine_decay={decay_steps: 1 alpha: nan}"),
            "optimizer.schedule.cosine_decay.alpha: nan; must be from 0 to 1");
  EXPECT_EQ(ErrorOf("schedule.cosine_restarts={first_decay_steps: 1 t_mul: 0.5}"),
            "optimizer.schedule.cosine_restarts.t_mul: 0.5; must be from 1 to 1000");
  EXPECT_EQ(ErrorOf("schedule.cosine_restarts={first_decay_steps: 1 m_mul: 2}"),
            "optimizer.schedule.cosine_restarts.m_mul: 2; must be above 0 and at most 1");
  EXPECT_EQ(ErrorOf("schedule.cosine_restarts={first_decay_steps: 1 alpha: -1}"),
            "optimizer.schedule.cosine_restarts.alpha: -1; must be from 0 to 1");
}

TEST_F(CheckOptimizerSpecTest, EachBoundaryIsAboveTheOneBeforeAndHasALearningRate) {
  EXPECT_EQ(ErrorOf("schedule.piecewise_constant={}"),
            "optimizer.schedule.piecewise_constant.boundaries: not set; must be at least one "
            "number");
  Set("schedule.piecewise_constant.boundaries=10,20");
  EXPECT_EQ(ErrorOf("schedule.piecewise_constant.boundaries=10,10"),
            "optimizer.schedule.piecewise_constant.boundaries[1]: 10; must be from 11 to "
            "9007199254740992");
  EXPECT_EQ(ErrorOf("schedule.piecewise_constant.learning_rates=0.1"),
            "optimizer.schedule.piecewise_constant.learning_rates: 1 numbers; must be 2, one from "
            "each of the boundaries on");
  EXPECT_EQ(ErrorOf("schedule.piecewise_constant.learning_rates=0.1,0"),
            "optimizer.schedule.piecewise_constant.learning_rates[1]: 0; must be a finite number "
            "above 0");
  ExpectGood("schedule.piecewise_constant.learning_rates=0.1,0.2");
}

TEST_F(CheckOptimizerSpecTest, FtrlHasNoSchedule) {
  Set("schedule.warmup.steps=5");
  EXPECT_EQ(ErrorOf("ftrl={}"),
            "optimizer.schedule: set; must be left out with ftrl, whose values would all shrink "
            "with the learning rate");
}

TEST(OptimizerSlotsTest, NamesAreThoseOfCheckpoints) {
  OptimizerSpec spec;
  using Names = std::vector<std::string>;
  spec.mutable_adam()->set_amsgrad(true);
  EXPECT_EQ(OptimizerSlots(spec), Names({"m", "v", "v_hat"}));
  spec.mutable_adamw();
  EXPECT_EQ(OptimizerSlots(spec), Names({"m", "v"}));
  spec.mutable_nadam();
  EXPECT_EQ(OptimizerSlots(spec), Names({"m", "v"}));
  spec.mutable_adagrad();
  EXPECT_EQ(OptimizerSlots(spec), Names({"accumulator"}));
  spec.mutable_adadelta();
  EXPECT_EQ(OptimizerSlots(spec), Names({"accumulated_grad", "accumulated_delta_var"}));
  spec.mutable_ftrl();
  EXPECT_EQ(OptimizerSlots(spec), Names({"accumulator", "linear"}));
  spec.mutable_lamb();
  EXPECT_EQ(OptimizerSlots(spec), Names({"m", "v"}));
}

TEST(CheckUpdateRuleTest, RuleHasAKindAndAMomentumBelowOne) {
  const auto error_of = [](const std::string& text) {
    UpdateRule rule;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &rule)) << text;
    return std::string(CheckUpdateRule(rule, "plan.update").message());
  };
  EXPECT_EQ(error_of("frozen {}"), "");
  EXPECT_EQ(error_of("moving_average { momentum: 0.99 }"), "");
  EXPECT_EQ(error_of("moving_average {}"), "");
  EXPECT_EQ(error_of("moving_average { momentum: -0.1 }"),
            "plan.update.moving_average.momentum: -0.1; must be at least 0 and below 1");
  EXPECT_THAT(error_of("moving_average { momentum: nan }"), HasSubstr("nan; must be at least 0"));
  EXPECT_THAT(error_of("moving_average { momentum: 0.999999999 }"), HasSubstr("as a float32"));
  EXPECT_EQ(error_of(""), "plan.update: not set; must be one of moving_average, frozen");
}

TEST(CheckUpdateRuleTest, RuleOfANewerProgramIsRefused) {
  UpdateRule rule;
  ASSERT_TRUE(rule.MergeFromString({'\x98', '\x06', '\x01'}));
  EXPECT_THAT(std::string(CheckUpdateRule(rule, "plan.update").message()),
              StartsWith("plan.update has unknown field 99; this program is older"));
}

}  // namespace
}  // namespace millrace
