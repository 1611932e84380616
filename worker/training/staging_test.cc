// Which batches a trainer tells its model of before it trains on them.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/training/fakes.h"
#include "worker/training/trainer_fixture.h"

namespace millrace::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Logs "read EXAMPLE". One after the other: a batch is ready when the next one is read.
class StagingTest : public TrainerFixture {
 protected:
  StagingTest() {
    world_.on_read = [this](absl::Span<const uint64_t> indices) {
      world_.log.Add(absl::StrCat("read ", indices[0]));
      return absl::OkStatus();
    };
  }

  static JobSpec PullsAheadJob() {
    JobSpec spec = FakeJob();
    spec.mutable_asynchronous()->set_pull_ahead(true);
    return spec;
  }

  // The step does not end before a batch that comes later is read.
  void HoldUpUntilRead(float step, const std::string& read) {
    world_.on_train = [this, step, read](const Batch& batch) {
      if (batch.features[0].floats[0] == step) world_.log.Await(read);
      return absl::OkStatus();
    };
  }
};

TEST_F(StagingTest, ABatchThatIsReadyIsStagedBeforeValuesAreWaitedFor) {
  HoldUpUntilRead(0, "read 2");
  StartJob(FakeJob());
  trainer_->Handle(LeaseMessage(1, 0, 4));
  EXPECT_THAT(NextSteps(4), ElementsAre(0, 1, 2, 3));
  const std::vector<std::string> events = world_.log.events();
  const auto trained = std::find(events.begin(), events.end(), "train 0");
  const auto stage = std::find(trained, events.end(), "stage 1");
  const auto pull = std::find(trained, events.end(), "pull newest");
  EXPECT_LT(stage, pull);
  EXPECT_LT(pull, std::find(events.begin(), events.end(), "staged 1"));
}

TEST_F(StagingTest, ABatchThatIsNotReadyIsNotWaitedForBeforeItsValuesAreThere) {
  world_.on_read = [this](absl::Span<const uint64_t>) {
    world_.log.Await("pull newest");
    return absl::OkStatus();
  };
  StartJob(FakeJob());
  trainer_->Handle(LeaseMessage(1, 5, 6));
  EXPECT_EQ(NextStep().step(), 5);
  EXPECT_THAT(world_.log.EventsWith("stage"), IsEmpty());
}

// The world's model would not take another batch for it, wherever that stands.
TEST_F(StagingTest, AStepThatMakesWayHasItsBatchStagedAgain) {
  HoldUpUntilRead(3, "read 5");
  world_.on_pull = [first = true](const FakePull& pull) mutable {
    if (pull.version == uint64_t{2} && std::exchange(first, false)) pull.wait_for_cancel();
    return absl::OkStatus();
  };
  StartJob(FakeJob(/*replicas=*/2));
  trainer_->Handle(LeaseMessage(1, 3, 6));
  world_.log.Await("pull 2");
  trainer_->Handle(LeaseMessage(2, 2, 3));
  EXPECT_THAT(NextSteps(4), ElementsAre(3, 2, 4, 5));
  EXPECT_THAT(world_.log.EventsWith("stage 4"), ElementsAre("stage 4", "stage 4"));
  EXPECT_THAT(world_.log.EventsWith("staged 4"), ElementsAre("staged 4"));
}

TEST_F(StagingTest, WhereAPullBeginsAheadTheBatchIsStagedWithIt) {
  HoldUpUntilRead(0, "read 2");
  StartJob(PullsAheadJob());
  trainer_->Handle(LeaseMessage(1, 0, 4));
  EXPECT_THAT(NextSteps(4), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(world_.log.EventsWith("stage 1"), SizeIs(1));
  EXPECT_THAT(world_.log.EventsWith("staged 1"), SizeIs(1));
  const std::vector<std::string> events = world_.log.events();
  const auto trained = std::find(events.begin(), events.end(), "train 0");
  EXPECT_LT(std::find(trained, events.end(), "stage 1"), std::find(trained, events.end(), "add 1"));
}

// Ragged ids have no place while a step computes.
TEST_F(StagingTest, ABatchThatCannotBeStagedWithinAStepIsStagedAfterIt) {
  world_.stages_within_train = false;
  HoldUpUntilRead(0, "read 2");
  StartJob(PullsAheadJob());
  trainer_->Handle(LeaseMessage(1, 0, 4));
  EXPECT_THAT(NextSteps(4), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(world_.log.EventsWith("staged 1"), SizeIs(1));
}

TEST_F(StagingTest, NothingIsStagedForAnEvaluation) {
  StartJob(FakeJob());
  trainer_->Handle(EvaluateMessage(1, "cut"));
  NextEvaluation();
  EXPECT_THAT(world_.log.EventsWith("stage"), IsEmpty());
}

}  // namespace
}  // namespace millrace::worker
