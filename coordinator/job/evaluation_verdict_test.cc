#include "coordinator/job/evaluation_verdict.h"

#include <cmath>
#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// A job of 1000 steps that is evaluated every 100; each evaluation changes its record.
class EvaluationVerdictTest : public testing::Test {
 protected:
  EvaluationVerdictTest() { record_.set_total_steps(1000); }

  EarlyStopping& stopping() {
    return *record_.mutable_spec()->mutable_evaluation()->mutable_early_stopping();
  }
  KeepBest& keep() { return *record_.mutable_spec()->mutable_evaluation()->mutable_keep_best(); }

  // Returns whether the job ends with an evaluation of this number.
  bool Ends(double value, const std::string& metric = "eval_loss") {
    Evaluated evaluated;
    evaluated.set_step(step_ += 100);
    (*evaluated.mutable_metrics())[metric] = value;
    return Judge(evaluated);
  }

  bool Judge(const Evaluated& evaluated) {
    const bool is_waited_for = IsWaitedFor(record_, evaluated.step());
    const auto verdict = JudgeEvaluation(record_, evaluated);
    EXPECT_TRUE(verdict.ok()) << verdict.status();
    if (!verdict.ok()) return false;
    RecordVerdict(*verdict, evaluated.step(), record_);
    // Training has waited for it.
    EXPECT_TRUE(is_waited_for || !verdict->stop);
    return verdict->stop.has_value();
  }

  JobRecord record_;
  uint64_t step_ = 0;
};

TEST_F(EvaluationVerdictTest, NothingIsAskedOfEvaluationsUnlessTheSpecDoes) {
  EXPECT_FALSE(IsWatched(record_.spec()));
  EXPECT_FALSE(Ends(1));
  EXPECT_FALSE(Ends(2));
  EXPECT_FALSE(record_.has_stopping());
  EXPECT_FALSE(record_.has_best());
  EXPECT_EQ(EndStep(record_), 1000u);
  EXPECT_EQ(WhyStoppedEarly(record_), "");
}

TEST_F(EvaluationVerdictTest, SoManyEvaluationsThatAreNoBetterEndTheJob) {
  stopping().set_patience(2);
  EXPECT_TRUE(IsWatched(record_.spec()));
  EXPECT_FALSE(Ends(0.5));
  EXPECT_FALSE(Ends(0.6));
  EXPECT_FALSE(Ends(0.4));  // Better again: counted from here.
  EXPECT_FALSE(Ends(0.4));
  EXPECT_EQ(record_.stopping().evaluations_since(), 1u);
  EXPECT_TRUE(Ends(0.41));
  EXPECT_EQ(EndStep(record_), 500u);
  EXPECT_EQ(WhyStoppedEarly(record_),
            "stopped early at step 500 of 1000: eval_loss has not been below 0.4 since step 300");
}

TEST_F(EvaluationVerdictTest, StopSaysWhereTheLastEvaluationHasNoNumber) {
  stopping();
  EXPECT_FALSE(Ends(0.5));
  EXPECT_TRUE(Ends(kNan));
  EXPECT_EQ(WhyStoppedEarly(record_),
            "stopped early at step 200 of 1000: eval_loss has not been below 0.5 since step 100, "
            "and has no number at step 200");
}

TEST_F(EvaluationVerdictTest, WithoutPatienceTheFirstThatIsNoBetterEndsTheJob) {
  stopping();
  EXPECT_FALSE(Ends(0.5));
  EXPECT_TRUE(Ends(0.5));
}

TEST_F(EvaluationVerdictTest, OnlyAnEvaluationThatMayEndTheJobIsWaitedFor) {
  stopping().set_patience(2);
  EXPECT_FALSE(IsWaitedFor(record_, 100));
  Ends(0.5);
  EXPECT_FALSE(IsWaitedFor(record_, 200));
  Ends(0.6);
  EXPECT_TRUE(IsWaitedFor(record_, 300));
  EXPECT_FALSE(IsWaitedFor(record_, 1000));
  Ends(0.4);
  EXPECT_FALSE(IsWaitedFor(record_, 400));
}

// A server that was killed beside an evaluation took it along, and the job ended later.
TEST_F(EvaluationVerdictTest, SynchronousJobWaitsForEachEvaluationThatCounts) {
  stopping().set_patience(5);
  stopping().set_start_from_step(200);
  record_.mutable_spec()->mutable_synchronous()->set_replicas(2);
  EXPECT_FALSE(IsWaitedFor(record_, 100));
  EXPECT_TRUE(IsWaitedFor(record_, 200));
  EXPECT_FALSE(IsWaitedFor(record_, 1000));
}

TEST_F(EvaluationVerdictTest, BetterIsByMoreThanTheDelta) {
  stopping().set_min_delta(0.125);
  EXPECT_FALSE(Ends(1));
  EXPECT_FALSE(Ends(0.75));
  EXPECT_TRUE(Ends(0.625));
  EXPECT_EQ(record_.stopped_early().reason(),
            "eval_loss has not been below 0.75 by more than 0.125 since step 200");
}

TEST_F(EvaluationVerdictTest, WhatIsBetterFollowsFromTheNameOrTheGoal) {
  stopping().set_metric("eval_auc");
  EXPECT_FALSE(Ends(0.5, "eval_auc"));
  EXPECT_FALSE(Ends(0.6, "eval_auc"));
  EXPECT_TRUE(Ends(0.55, "eval_auc"));
  EXPECT_THAT(record_.stopped_early().reason(), HasSubstr("has not been above 0.6 since step 200"));
  record_.clear_stopping();
  record_.clear_stopped_early();
  stopping().set_goal(SMALLER_IS_BETTER);
  EXPECT_FALSE(Ends(0.5, "eval_auc"));
  EXPECT_TRUE(Ends(0.6, "eval_auc"));
}

TEST_F(EvaluationVerdictTest, EvaluationsBeforeTheFirstThatCountsDoNot) {
  stopping().set_start_from_step(300);
  EXPECT_FALSE(Ends(0.1));
  EXPECT_FALSE(Ends(0.2));
  EXPECT_FALSE(record_.has_stopping());
  EXPECT_FALSE(Ends(0.5));
  EXPECT_EQ(record_.stopping().step(), 300u);
  EXPECT_TRUE(Ends(0.6));
}

TEST_F(EvaluationVerdictTest, WhatIsNoNumberIsNoBetterAndAnyNumberIsBetterThanThat) {
  stopping().set_metric("eval_auc");
  stopping().set_patience(2);
  EXPECT_FALSE(Ends(1));  // The loss alone: the examples have one class.
  EXPECT_TRUE(std::isnan(record_.stopping().best()));
  EXPECT_FALSE(Ends(kNan, "eval_auc"));
  EXPECT_FALSE(Ends(0.2, "eval_auc"));
  EXPECT_EQ(record_.stopping().step(), 300u);
  EXPECT_FALSE(Ends(kNan, "eval_auc"));
  EXPECT_TRUE(Ends(1));
}

TEST_F(EvaluationVerdictTest, AJobThatEndsAnywayIsNotStoppedEarly) {
  stopping();
  step_ = 800;
  EXPECT_FALSE(Ends(0.5));
  EXPECT_FALSE(Ends(0.5));
  EXPECT_FALSE(record_.has_stopped_early());
}

// Its last state is evaluated again after a server has lost it.
TEST_F(EvaluationVerdictTest, WhatWasDecidedStays) {
  stopping();
  keep();
  Ends(0.5);
  EXPECT_TRUE(Ends(0.6));
  const MetricStanding before = record_.stopping();
  step_ = 100;
  EXPECT_FALSE(Ends(0.3));
  EXPECT_EQ(EndStep(record_), 200u);
  EXPECT_EQ(record_.stopping().SerializeAsString(), before.SerializeAsString());
  EXPECT_EQ(record_.best().value(), 0.3);
}

// A restored job is evaluated where it begins; it counted twice.
TEST_F(EvaluationVerdictTest, AnEvaluationThatTheRestoredJobHadDoesNotCountAgain) {
  stopping();
  record_.mutable_restored_from()->set_evaluated(100);
  record_.mutable_stopping()->set_metric("eval_loss");
  record_.mutable_stopping()->set_best(0.5);
  EXPECT_FALSE(Ends(0.6));
  EXPECT_EQ(record_.stopping().evaluations_since(), 0u);
  EXPECT_TRUE(Ends(0.6));
}

// A job that went on from its checkpoint counted an evaluation once more.
TEST_F(EvaluationVerdictTest, StandingOfARestoredJobIsThatOfTheEvaluationsBeforeIt) {
  record_.mutable_stopping()->set_evaluations_since(1);
  record_.mutable_restored_from()->set_step(200);
  record_.mutable_restored_from()->set_evaluated(200);
  EXPECT_EQ(StandingAt(record_, 200)->evaluated(), 200u);
}

// Where a checkpoint took longer to write than it was to the next evaluation, it had no count.
TEST_F(EvaluationVerdictTest, StandingOfAnOlderStateIsThatOfTheEvaluationsBeforeIt) {
  stopping().set_patience(1000);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(Ends(1));  // At steps 100, 200 and 300.
  EXPECT_FALSE(StandingAt(record_, 99).has_value());
  EXPECT_EQ(StandingAt(record_, 100)->stopping().evaluations_since(), 0u);
  EXPECT_EQ(StandingAt(record_, 100)->evaluated(), 100u);
  EXPECT_EQ(StandingAt(record_, 299)->stopping().evaluations_since(), 1u);
  EXPECT_EQ(StandingAt(record_, 299)->evaluated(), 200u);
  EXPECT_EQ(StandingAt(record_, 300)->stopping().evaluations_since(), 2u);
  EXPECT_EQ(StandingAt(record_, 999)->evaluated(), 300u);
  for (int i = 0; i < kStandingsKept; ++i) EXPECT_FALSE(Ends(1));
  EXPECT_FALSE(StandingAt(record_, 200).has_value());
  EXPECT_EQ(StandingAt(record_, 300)->evaluated(), 300u);
}

TEST_F(EvaluationVerdictTest, TheBestIsTheFirstOfEqualOnesWhateverStoppingCounts) {
  stopping().set_patience(10);
  stopping().set_start_from_step(1000);
  stopping().set_min_delta(1);
  keep();
  Ends(0.5);
  EXPECT_EQ(record_.best().step(), 100u);
  Ends(0.5);
  EXPECT_EQ(record_.best().step(), 100u);
  Ends(0.49);
  EXPECT_EQ(record_.best().step(), 300u);
  EXPECT_EQ(record_.best().metric(), "eval_loss");
  Ends(kNan);
  EXPECT_EQ(record_.best().value(), 0.49);
}

TEST_F(EvaluationVerdictTest, ACustomModelMustReportTheMetric) {
  record_.mutable_spec()->mutable_model()->mutable_custom()->set_name("own");
  stopping().set_metric("eval_rank");
  Evaluated evaluated;
  evaluated.set_step(100);
  (*evaluated.mutable_metrics())["eval_loss"] = 1;
  (*evaluated.mutable_metrics())["eval_score"] = 1;
  const auto verdict = JudgeEvaluation(record_, evaluated);
  EXPECT_EQ(verdict.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(verdict.status().message()),
              HasSubstr("evaluation.early_stopping.metric: 'eval_rank'; must be one of "));
  EXPECT_THAT(std::string(verdict.status().message()), HasSubstr("eval_score"));
  evaluated.clear_metrics();
  EXPECT_EQ(std::string(JudgeEvaluation(record_, evaluated).status().message()),
            "evaluation.early_stopping.metric: 'eval_rank'; must be one that is reported, and the "
            "evaluation at step 100 has no metrics");
}

}  // namespace
}  // namespace millrace::coordinator
