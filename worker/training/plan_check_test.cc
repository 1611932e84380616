#include "worker/training/plan_check.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::worker {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

JobPlan MakePlan() {
  JobPlan plan;
  plan.add_variables()->set_name("dense/kernel");
  plan.mutable_variables(0)->add_shape(3);
  plan.set_train_examples(100);
  plan.set_evaluate_examples(20);
  plan.set_data_fingerprint(0xab);
  plan.set_numerics("cpu, 1 thread");
  return plan;
}

JobSpec Synchronous() {
  JobSpec spec;
  spec.mutable_synchronous()->set_replicas(2);
  return spec;
}

std::string ErrorOf(const JobPlan& own, const JobPlan& planned) {
  const absl::Status status = CheckSamePlan(Synchronous(), own, planned);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(PlanCheckTest, EqualPlansAreRight) {
  EXPECT_EQ(CheckSamePlan(Synchronous(), MakePlan(), MakePlan()), absl::OkStatus());
}

TEST(PlanCheckTest, BothValuesAreNamed) {
  JobPlan own = MakePlan();
  own.mutable_variables(0)->set_shape(0, 4);
  EXPECT_THAT(ErrorOf(own, MakePlan()),
              AllOf(HasSubstr("'dense/kernel' [4]"), HasSubstr("'dense/kernel' [3]")));
  own = MakePlan();
  own.clear_variables();
  EXPECT_THAT(ErrorOf(own, MakePlan()), HasSubstr("'dense/kernel' [3]"));
  own = MakePlan();
  own.set_train_examples(99);
  EXPECT_THAT(ErrorOf(own, MakePlan()),
              AllOf(HasSubstr("data.train: this worker's has 99"), HasSubstr("with 100")));
  own = MakePlan();
  own.set_evaluate_examples(0);
  EXPECT_THAT(ErrorOf(own, MakePlan()),
              AllOf(HasSubstr("data.evaluate: this worker's has 0"), HasSubstr("with 20")));
  own = MakePlan();
  own.set_data_fingerprint(0xcd);
  EXPECT_THAT(ErrorOf(own, MakePlan()),
              AllOf(HasSubstr("00000000000000cd"), HasSubstr("00000000000000ab")));
}

TEST(PlanCheckTest, VariablesAreUpdatedByTheSameRules) {
  JobPlan own = MakePlan();
  own.mutable_variables(0)->mutable_update()->mutable_frozen();
  EXPECT_EQ(CheckSamePlan(Synchronous(), own, own), absl::OkStatus());
  EXPECT_THAT(ErrorOf(own, MakePlan()),
              AllOf(HasSubstr("'dense/kernel' [3] (frozen { }); the job was planned with "
                              "'dense/kernel' [3]. All")));
  own.mutable_variables(0)->mutable_update()->mutable_moving_average()->set_momentum(0.99);
  JobPlan planned = own;
  EXPECT_EQ(CheckSamePlan(Synchronous(), own, planned), absl::OkStatus());
  planned.mutable_variables(0)->mutable_update()->mutable_moving_average()->set_momentum(
      0.99000000000000001 + 2e-16);
  EXPECT_THAT(ErrorOf(own, planned), HasSubstr("(moving_average { momentum: 0.99 })"));
}

TEST(PlanCheckTest, UnknownFingerprintsAreNotCompared) {
  JobPlan unknown = MakePlan();
  unknown.clear_data_fingerprint();
  EXPECT_EQ(CheckSamePlan(Synchronous(), unknown, MakePlan()), absl::OkStatus());
  EXPECT_EQ(CheckSamePlan(Synchronous(), MakePlan(), unknown), absl::OkStatus());
}

// Two workers of another number of threads changed a synchronous job's bits, depending on who was
// faster, and nobody said so.
TEST(PlanCheckTest, WorkerThatComputesOtherwiseTakesNoPartInASynchronousJob) {
  JobPlan own = MakePlan();
  own.set_numerics("cpu, 2 threads");
  EXPECT_THAT(ErrorOf(own, MakePlan()),
              AllOf(HasSubstr("this worker computes on 'cpu, 2 threads'"),
                    HasSubstr("'cpu, 1 thread'"), HasSubstr("allow_mixed_workers")));
  JobSpec mixed = Synchronous();
  mixed.mutable_synchronous()->set_allow_mixed_workers(true);
  EXPECT_EQ(CheckSamePlan(mixed, own, MakePlan()), absl::OkStatus());
  EXPECT_EQ(MixedNumerics(mixed, own, MakePlan()),
            "computes on 'cpu, 2 threads', and the job was planned on 'cpu, 1 thread': its bits "
            "depend on which worker has a step (synchronous.allow_mixed_workers)");
  EXPECT_EQ(MixedNumerics(mixed, MakePlan(), MakePlan()), "");
  JobSpec asynchronous;
  asynchronous.mutable_asynchronous();
  EXPECT_EQ(MixedNumerics(asynchronous, own, MakePlan()), "");
  EXPECT_EQ(CheckSamePlan(asynchronous, own, MakePlan()), absl::OkStatus());
  own.clear_numerics();
  EXPECT_EQ(CheckSamePlan(Synchronous(), own, MakePlan()), absl::OkStatus());
}

// A worker that said nothing of what it rounds mixed float32 into a job that is rounded.
TEST(PlanCheckTest, WorkerThatRoundsOnTheWireTakesNoPartBesideOneThatDoesNot) {
  JobPlan own = MakePlan();
  own.set_numerics("BFLOAT16 on the wire");
  EXPECT_THAT(ErrorOf(own, MakePlan()), HasSubstr("precision.wire: "));
}

// Older workers rounded, and said nothing of it where their model said nothing: jobs that they had
// planned were refused by those that came after them.
TEST(PlanCheckTest, PlanThatSaysNothingOfItsNumericsIsGoneOnWith) {
  JobPlan own = MakePlan();
  own.set_numerics("BFLOAT16 on the wire");
  JobPlan planned = MakePlan();
  planned.clear_numerics();
  EXPECT_EQ(CheckSamePlan(Synchronous(), own, planned), absl::OkStatus());
  JobSpec mixed = Synchronous();
  mixed.mutable_synchronous()->set_allow_mixed_workers(true);
  EXPECT_EQ(CheckSamePlan(mixed, own, planned), absl::OkStatus());
  EXPECT_EQ(MixedNumerics(mixed, own, planned),
            "computes on 'BFLOAT16 on the wire', and the job was planned on what it did not say: "
            "its bits depend on which worker has a step (synchronous.allow_mixed_workers)");
  JobSpec asynchronous;
  asynchronous.mutable_asynchronous();
  EXPECT_EQ(CheckSamePlan(asynchronous, own, planned), absl::OkStatus());
}

}  // namespace
}  // namespace millrace::worker
