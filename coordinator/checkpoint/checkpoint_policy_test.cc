#include "coordinator/checkpoint/checkpoint_policy.h"

#include <limits>

#include "common/proto_duration.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

class CheckpointPolicyTest : public testing::Test {
 protected:
  // Of a job that begins now.
  CheckpointPolicy Make(uint64_t every_steps, absl::Duration period = absl::ZeroDuration()) {
    JobSpec spec;
    spec.mutable_checkpoints()->set_every_steps(every_steps);
    if (period > absl::ZeroDuration()) {
      *spec.mutable_checkpoints()->mutable_period() = ToProto(period);
    }
    CheckpointPolicy policy(spec);
    policy.Start(0, now_, now_);
    return policy;
  }

  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
};

TEST_F(CheckpointPolicyTest, EachMultipleOfTheStepsIsDueOnce) {
  CheckpointPolicy policy = Make(1000);
  EXPECT_EQ(policy.next_step(), 1000u);
  EXPECT_EQ(policy.WhyDue(999, now_ + absl::Hours(99)), "");
  EXPECT_EQ(policy.WhyDue(1000, now_), "every 1000 steps");
  EXPECT_EQ(policy.WhyDue(1001, now_), "every 1000 steps");
  policy.Began(1001, now_);
  EXPECT_EQ(policy.next_step(), 2000u);
  EXPECT_EQ(policy.WhyDue(1999, now_), "");
  EXPECT_EQ(policy.WhyDue(2000, now_), "every 1000 steps");
}

TEST_F(CheckpointPolicyTest, StepsThatPassedWhileOneWasWrittenAreNotMadeUpFor) {
  CheckpointPolicy policy = Make(10);
  policy.Began(10, now_);
  EXPECT_EQ(policy.WhyDue(57, now_), "every 10 steps");
  policy.Began(57, now_);
  EXPECT_EQ(policy.WhyDue(59, now_), "");
  EXPECT_EQ(policy.next_step(), 60u);
}

TEST_F(CheckpointPolicyTest, OneIsDueAPeriodAfterTheLastWasBegun) {
  CheckpointPolicy policy = Make(0, absl::Minutes(10));
  EXPECT_EQ(policy.next_step(), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(policy.WhyDue(1 << 30, now_ + absl::Minutes(9)), "");
  EXPECT_EQ(policy.WhyDue(0, now_ + absl::Minutes(10)), "every 10m");
  policy.Began(7, now_ + absl::Minutes(12));
  EXPECT_EQ(policy.WhyDue(7, now_ + absl::Minutes(22) - absl::Nanoseconds(1)), "");
  EXPECT_EQ(policy.WhyDue(7, now_ + absl::Minutes(22)), "every 10m");
}

TEST_F(CheckpointPolicyTest, WhicheverComesFirst) {
  CheckpointPolicy policy = Make(100, absl::Seconds(5));
  EXPECT_EQ(policy.WhyDue(100, now_), "every 100 steps");
  EXPECT_EQ(policy.WhyDue(99, now_ + absl::Seconds(5)), "every 5s");
}

TEST_F(CheckpointPolicyTest, AFailedOneIsTriedAgainWhenTheNextIsDue) {
  CheckpointPolicy policy = Make(0, absl::Minutes(10));
  const absl::Time due = now_ + absl::Minutes(10);
  policy.Began(5, due);
  policy.Failed(due);
  EXPECT_EQ(policy.WhyDue(6, due + absl::Minutes(9)), "");
  EXPECT_EQ(policy.WhyDue(6, due + absl::Minutes(10)), "every 10m");
}

TEST_F(CheckpointPolicyTest, AFailedOneIsNotTriedAgainAtOnceWhereTheNextIsDueSoon) {
  CheckpointPolicy policy = Make(10, absl::Seconds(1));
  policy.Began(10, now_);
  policy.Failed(now_);
  EXPECT_EQ(policy.WhyDue(20, now_ + absl::Seconds(29)), "");
  EXPECT_EQ(policy.WhyDue(20, now_ + absl::Seconds(30)), "every 10 steps");
}

TEST_F(CheckpointPolicyTest, AJobThatIsTakenUpGoesOnCountingFromItsNewestCheckpoint) {
  CheckpointPolicy policy = Make(1000, absl::Minutes(10));
  policy.Start(3000, now_ - absl::Minutes(4), now_);
  EXPECT_EQ(policy.WhyDue(3999, now_), "");
  EXPECT_EQ(policy.WhyDue(4000, now_), "every 1000 steps");
  EXPECT_EQ(policy.WhyDue(3999, now_ + absl::Minutes(6)), "every 10m");
  // It was begun in the future: somebody has set the clock back.
  policy.Start(3000, now_ + absl::Hours(9), now_);
  EXPECT_EQ(policy.WhyDue(3999, now_ + absl::Minutes(10)), "every 10m");
}

}  // namespace
}  // namespace millrace::coordinator
