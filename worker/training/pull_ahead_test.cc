// Pulls that begin while the step before computes.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protos/cluster.pb.h"
#include "worker/training/fakes.h"
#include "worker/training/trainer_fixture.h"

namespace millrace::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kBegin[] = "begin pull newest";

class PullAheadTest : public TrainerFixture {
 protected:
  ~PullAheadTest() override { trainer_.reset(); }  // Before what its hooks use.

  static JobSpec Job(bool pull_ahead = true) {
    JobSpec spec = FakeJob();
    spec.mutable_asynchronous()->set_pull_ahead(pull_ahead);
    return spec;
  }

  // Pulls of the newest values that were begun when the first gradient of each step was there.
  void CountPullsInEachStep() {
    world_.between_gradients = [this] { begun_.push_back(world_.log.EventsWith(kBegin).size()); };
  }

  std::vector<size_t> begun_;
};

TEST_F(PullAheadTest, APullBeginsWithTheBackwardPassOfTheStepBefore) {
  CountPullsInEachStep();
  StartJob(Job());
  trainer_->Handle(LeaseMessage(1, 0, 3));
  for (uint64_t step = 0; step < 3; ++step) {
    const StepResult result = NextStep();
    EXPECT_EQ(result.step(), step);
    EXPECT_EQ(result.loss_sum(), 100);  // Pulled.
  }
  EXPECT_THAT(begun_, ElementsAre(2, 3, 3));
  EXPECT_THAT(world_.log.EventsWith("take next"), SizeIs(2));
}

TEST_F(PullAheadTest, ValuesMayComeBeforeTheStepIsComputed) {
  world_.values_come_at_once = true;
  StartJob(Job());
  trainer_->Handle(LeaseMessage(1, 0, 3));
  for (uint64_t step = 0; step < 3; ++step) EXPECT_EQ(NextStep().loss_sum(), 100);
  const std::vector<std::string> events = world_.log.events();
  const auto next_began =
      std::find(std::find(events.begin(), events.end(), "train 0"), events.end(), kBegin);
  EXPECT_LT(std::find(next_began, events.end(), "arrived 0 from 0: 1"),
            std::find(events.begin(), events.end(), "commit 0"));
}

// The step that is under way needs none of it.
TEST_F(PullAheadTest, MemoryThatIsLackingForAPullAheadIsNoErrorOfTheStepUnderWay) {
  world_.on_begin_pull = [begun = 0]() mutable {
    if (++begun == 2) throw std::bad_alloc();
  };
  CountPullsInEachStep();
  StartJob(Job());
  trainer_->Handle(LeaseMessage(1, 0, 2));
  EXPECT_THAT(NextSteps(2), ElementsAre(0, 1));
  EXPECT_THAT(begun_, ElementsAre(1, 2));
}

// The world's model is done with one gradient when the next step is leased.
TEST_F(PullAheadTest, AStepThatIsLeasedWithinTheBackwardPassIsPulledFromTheNextGradientOn) {
  world_.between_gradients = [this] {
    begun_.push_back(world_.log.EventsWith(kBegin).size());
    if (begun_.size() == 1) trainer_->Handle(LeaseMessage(2, 1, 2));
  };
  StartJob(Job());
  trainer_->Handle(LeaseMessage(1, 0, 1));
  EXPECT_THAT(NextSteps(2), ElementsAre(0, 1));
  EXPECT_THAT(begun_, ElementsAre(1, 2));
  EXPECT_THAT(world_.log.EventsWith("take next"), SizeIs(1));
}

TEST_F(PullAheadTest, WithoutItAPullBeginsOnceTheStepBeforeIsComputed) {
  CountPullsInEachStep();
  StartJob(Job(/*pull_ahead=*/false));
  trainer_->Handle(LeaseMessage(1, 0, 3));
  EXPECT_THAT(NextSteps(3), ElementsAre(0, 1, 2));
  EXPECT_THAT(begun_, ElementsAre(1, 2, 3));
  EXPECT_THAT(world_.log.EventsWith("take next"), IsEmpty());
}

TEST_F(PullAheadTest, AModelWithoutAPlaceForTheNextValuesIsPulledAsEver) {
  world_.has_next_values = false;
  CountPullsInEachStep();
  StartJob(Job());
  trainer_->Handle(LeaseMessage(1, 0, 3));
  EXPECT_THAT(NextSteps(3), ElementsAre(0, 1, 2));
  EXPECT_THAT(begun_, ElementsAre(1, 2, 3));
}

// What was pulled for step 6 may lack steps that let step 3 go.
TEST_F(PullAheadTest, AStepThatComesBeforeTheNextOneIsPulledAnew) {
  world_.between_gradients = [this, first = true]() mutable {
    if (std::exchange(first, false)) trainer_->Handle(LeaseMessage(2, 3, 4));
    begun_.push_back(world_.log.EventsWith(kBegin).size());
  };
  StartJob(Job());
  trainer_->Handle(LeaseMessage(1, 5, 7));
  EXPECT_THAT(NextSteps(3), ElementsAre(5, 3, 6));
  EXPECT_THAT(begun_, ElementsAre(2, 4, 4));  // For 5 and 6; for 3 and 6; none.
}

// The batch of the step after is ready, or not, when the backward pass begins.
TEST_F(PullAheadTest, RowsArePulledAheadOnceTheNextBatchIsReady) {
  world_.second_by_rows = true;
  StartJob(Job());
  trainer_->Handle(LeaseMessage(1, 0, 20));
  for (uint64_t step = 0; step < 20; ++step) {
    const StepResult result = NextStep();
    EXPECT_EQ(result.step(), step);
    EXPECT_EQ(result.loss_sum(), 100);
  }
  std::vector<std::string> expected;
  for (uint64_t step = 0; step < 20; ++step) {
    expected.push_back(absl::StrCat("pull newest rows of 1: ", step % 8 % 3));
  }
  EXPECT_EQ(world_.log.EventsWith("pull "), expected);
}

// Steps whose leases come within a backward pass, and are void before it ends: their batches took
// the places of others for good.
TEST_F(PullAheadTest, BatchesOfStepsThatDoNotComeMakeRoomForOthers) {
  uint64_t generation = 1;
  uint64_t late = 0;
  world_.second_by_rows = true;
  world_.on_read = [this](absl::Span<const uint64_t> indices) {
    world_.log.Add(absl::StrCat("read ", indices[0]));
    return absl::OkStatus();
  };
  world_.between_gradients = [&] {
    if (late > 0) trainer_->Handle(LeaseMessage(late, late, late + 1, generation));
  };
  world_.after_gradients = [&] {
    if (std::exchange(late, 0) == 0) return;
    trainer_->Handle(RouteMessage(Job(), ++generation));
  };
  StartJob(Job());
  for (uint64_t round = 1; round <= 6; ++round) {
    late = 100 + round;
    trainer_->Handle(LeaseMessage(round, round, round + 1, round));
    while (!said_.Next().has_job_prepared()) {
    }
  }
  // Of 8 examples; step 501 has the last but two.
  const int before = static_cast<int>(world_.log.EventsWith("read 5").size());
  world_.between_gradients = [this, before] { world_.log.Await("read 5", before + 1); };
  trainer_->Handle(LeaseMessage(500, 500, 502, generation));
  EXPECT_THAT(NextSteps(2), ElementsAre(500, 501));
  trainer_.reset();  // Before what its hooks use.
}

TEST_F(PullAheadTest, NothingIsPulledAheadOfAnEvaluation) {
  world_.on_train = [this, first = true](const Batch&) mutable {
    if (std::exchange(first, false)) {
      trainer_->Handle(EvaluateMessage(7, "cut"));
      trainer_->Handle(LeaseMessage(2, 1, 2));
    }
    return absl::OkStatus();
  };
  StartJob(Job());
  trainer_->Handle(LeaseMessage(1, 0, 1));
  int evaluations = 0;
  for (int i = 0; i < 3; ++i) evaluations += said_.Next().has_evaluation_result() ? 1 : 0;
  EXPECT_EQ(evaluations, 1);
  EXPECT_THAT(world_.log.EventsWith("begin pull"),
              ElementsAre(kBegin, "begin pull cut cut", kBegin));
}

TEST_F(PullAheadTest, WhatWasPulledOnARouteIsOfNoUseOnTheNext) {
  world_.between_gradients = [this, first = true]() mutable {
    if (!std::exchange(first, false)) return;
    trainer_->Handle(RouteMessage(Job(), /*generation=*/2));
    trainer_->Handle(EvaluateMessage(7, "cut", /*generation=*/2));
    trainer_->Handle(LeaseMessage(2, 1, 2, /*generation=*/2));
  };
  StartJob(Job());
  trainer_->Handle(LeaseMessage(1, 0, 2));
  EXPECT_EQ(NextPrepared().code(), 0);
  const EvaluationResult evaluated = NextEvaluation();
  EXPECT_EQ(evaluated.metrics().at("loss"), 500);  // The cut's.
  const StepResult step = NextStep();
  EXPECT_EQ(step.step(), 1);
  EXPECT_EQ(step.loss_sum(), 100);
  EXPECT_THAT(world_.log.EventsWith("begin pull"),
              ElementsAre(kBegin, kBegin, "begin pull cut cut", kBegin));
}

TEST_F(PullAheadTest, AFailedPullReturnsItsOwnStepsLease) {
  CountPullsInEachStep();
  world_.on_pull = [pulls = 0](const FakePull&) mutable {
    return ++pulls == 2 ? absl::FailedPreconditionError("another generation") : absl::OkStatus();
  };
  StartJob(Job());
  trainer_->Handle(LeaseMessage(1, 0, 2));
  EXPECT_EQ(NextStep().step(), 0);
  const LeaseReturned returned = NextReturned();
  EXPECT_EQ(returned.step(), 1);
  EXPECT_EQ(returned.code(), Code(absl::StatusCode::kFailedPrecondition));
  trainer_->Handle(LeaseMessage(2, 1, 2));
  EXPECT_EQ(NextStep().loss_sum(), 100);
  EXPECT_THAT(begun_, ElementsAre(2, 3));  // The one that failed; then one of step 1 itself.
}

// A step whose gradient is not finite may be computed again; what it had pulled ahead is not its.
TEST_F(PullAheadTest, AStepThatFailsAfterItHasPulledAheadIsPulledForAnew) {
  world_.bad_gradient = 1;
  world_.bad_value = std::numeric_limits<float>::infinity();
  StartJob(Job());
  trainer_->Handle(LeaseMessage(1, 0, 2));
  EXPECT_EQ(NextReturned().step(), 0);
  world_.bad_gradient = absl::nullopt;
  trainer_->Handle(LeaseMessage(2, 0, 2));
  EXPECT_EQ(NextStep().loss_sum(), 100);
  EXPECT_EQ(NextStep().loss_sum(), 100);
  EXPECT_THAT(world_.log.EventsWith(kBegin), SizeIs(4));  // For 0, 1, 0 and 1.
}

TEST_F(PullAheadTest, APullThatWasBegunAheadEndsWithItsWorker) {
  CountPullsInEachStep();
  int pulls = 0;
  world_.on_pull = [this, &pulls](const FakePull& pull) {
    if (++pulls < 2) return absl::OkStatus();
    world_.log.Add("waits");
    pull.wait_for_cancel();
    return absl::OkStatus();
  };
  StartJob(Job());
  trainer_->Handle(LeaseMessage(1, 0, 2));
  EXPECT_EQ(NextStep().step(), 0);
  EXPECT_THAT(begun_, ElementsAre(2));
  world_.log.Await("waits");
  trainer_.reset();
  EXPECT_EQ(NextReturned().step(), 1);
  EXPECT_THAT(world_.log.EventsWith(kBegin), SizeIs(2));
}

}  // namespace
}  // namespace millrace::worker
