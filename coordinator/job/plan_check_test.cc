#include "coordinator/job/plan_check.h"

#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::HasSubstr;

class PlanCheckTest : public testing::Test {
 protected:
  PlanCheckTest() {
    plan_.set_train_examples(10);
    for (const char* name : {"a", "b"}) {
      VariableSpec& variable = *plan_.add_variables();
      variable.set_name(name);
      variable.add_shape(3);
      variable.mutable_initial_value()->set_constant(0);
    }
  }

  void ExpectRefused(const std::string& text) {
    const absl::Status status = CheckPlan(spec_, plan_);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }

  JobSpec spec_;
  JobPlan plan_;
};

TEST_F(PlanCheckTest, PlanThatMakesSensePasses) {
  plan_.mutable_variables(0)->clear_shape();  // A scalar.
  plan_.mutable_variables(1)->mutable_initial_value()->mutable_uniform()->set_high(1);
  EXPECT_TRUE(CheckPlan(spec_, plan_).ok()) << CheckPlan(spec_, plan_);
  plan_.clear_variables();
  EXPECT_TRUE(CheckPlan(spec_, plan_).ok());
}

TEST_F(PlanCheckTest, PlanWithoutExamplesIsRefused) {
  plan_.set_train_examples(0);
  ExpectRefused("plan.train_examples: 0; must be at least 1");
  plan_.set_train_examples((uint64_t{1} << 53) + 1);
  ExpectRefused("plan.train_examples: 9007199254740993; must be at least 1 and at most 2^53");
}

TEST_F(PlanCheckTest, HeldOutExamplesAreThereWhereTheJobIsEvaluated) {
  EXPECT_TRUE(CheckPlan(spec_, plan_).ok()) << CheckPlan(spec_, plan_);
  spec_.mutable_data()->mutable_evaluate();
  ExpectRefused("plan.evaluate_examples: 0; must be at least 1");
  plan_.set_evaluate_examples(uint64_t{1} << 53);
  EXPECT_TRUE(CheckPlan(spec_, plan_).ok()) << CheckPlan(spec_, plan_);
  plan_.set_evaluate_examples(~uint64_t{0});
  ExpectRefused("plan.evaluate_examples: 18446744073709551615; must be");
}

TEST_F(PlanCheckTest, NamesAreThereUniqueAndPrintable) {
  plan_.mutable_variables(1)->set_name("a");
  ExpectRefused("plan.variables[1].name: 'a'; must be unlike");
  plan_.mutable_variables(1)->set_name("");
  ExpectRefused("plan.variables[1].name: empty");
  plan_.mutable_variables(1)->set_name("\x1b[2J");
  ExpectRefused("plan.variables[1].name: '\\x1b[2J'");
  plan_.mutable_variables(1)->set_name(std::string(1000, 'x'));
  ExpectRefused("at most 200 printable characters");
}

TEST_F(PlanCheckTest, ShapesHaveElementsAndNotTooMany) {
  plan_.mutable_variables(0)->add_shape(0);
  ExpectRefused("plan.variables[0].shape: [3, 0]");
  plan_.mutable_variables(0)->set_shape(1, uint64_t{1} << 61);
  ExpectRefused("plan.variables[0].shape");
  plan_.mutable_variables(0)->set_shape(0, 1);
  plan_.mutable_variables(1)->set_shape(0, (uint64_t{1} << 61) + 1);
  ExpectRefused("plan.variables[1].shape");
  for (int i = 0; i < 40; ++i) plan_.mutable_variables(0)->add_shape(1);
  ExpectRefused("plan.variables[0].shape");
}

TEST_F(PlanCheckTest, UpdateRulesMakeSense) {
  UpdateRule& rule = *plan_.mutable_variables(1)->mutable_update();
  ExpectRefused("plan.variables[1].update: not set; must be one of moving_average, frozen");
  rule.mutable_moving_average()->set_momentum(1);
  ExpectRefused("plan.variables[1].update.moving_average.momentum: 1; must be at least 0");
  rule.mutable_moving_average()->set_momentum(0.99);
  EXPECT_TRUE(CheckPlan(spec_, plan_).ok()) << CheckPlan(spec_, plan_);
  rule.mutable_frozen();
  EXPECT_TRUE(CheckPlan(spec_, plan_).ok()) << CheckPlan(spec_, plan_);
}

TEST_F(PlanCheckTest, InitialValuesAreFiniteAndInOrder) {
  InitialValue& value = *plan_.mutable_variables(0)->mutable_initial_value();
  value.set_constant(std::numeric_limits<float>::quiet_NaN());
  ExpectRefused("plan.variables[0].initial_value.constant: nan");
  value.mutable_uniform()->set_low(1);
  ExpectRefused("plan.variables[0].initial_value.uniform: 1 to 0");
  value.mutable_truncated_normal()->set_stddev(-1);
  ExpectRefused("plan.variables[0].initial_value.truncated_normal.stddev: -1");
  value.Clear();
  ExpectRefused("plan.variables[0].initial_value: not set");
}

TEST_F(PlanCheckTest, PlanOfAWorkerThatDoesNotRoundWhatTravelsIsRemarkedOn) {
  spec_.mutable_synchronous();
  spec_.mutable_precision()->set_wire(Encoding::BFLOAT16);
  plan_.set_numerics("numpy 1.24");
  EXPECT_EQ(RemarkOnPlan(spec_, plan_),
            "precision.wire: BFLOAT16; the worker that planned the job does not round to it what "
            "travels (its numerics, 'numpy 1.24', do not end in 'BFLOAT16 on the wire'): numbers "
            "travel as FLOAT32, and workers that round take no part");
  plan_.set_numerics("numpy 1.24, FLOAT16 on the wire");
  EXPECT_NE(RemarkOnPlan(spec_, plan_), "");
  for (const char* numerics : {"", "BFLOAT16 on the wire", "numpy 1.24, BFLOAT16 on the wire"}) {
    plan_.set_numerics(numerics);
    EXPECT_EQ(RemarkOnPlan(spec_, plan_), "") << numerics;
  }
}

TEST_F(PlanCheckTest, WhatTravelsAsFloat32IsRemarkedOnInNoOtherJob) {
  plan_.set_numerics("numpy 1.24");
  spec_.mutable_synchronous();
  EXPECT_EQ(RemarkOnPlan(spec_, plan_), "");
  spec_.mutable_precision()->set_wire(Encoding::FLOAT16);
  spec_.mutable_synchronous()->set_allow_mixed_workers(true);
  EXPECT_EQ(RemarkOnPlan(spec_, plan_), "");
  spec_.mutable_asynchronous();
  EXPECT_EQ(RemarkOnPlan(spec_, plan_), "");
}

}  // namespace
}  // namespace millrace::coordinator
