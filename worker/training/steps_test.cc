// How a trainer computes steps and evaluations.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protos/cluster.pb.h"
#include "worker/training/fakes.h"
#include "worker/training/trainer_fixture.h"

namespace millrace::worker {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

using StepsTest = TrainerFixture;

TEST_F(StepsTest, LeaseIsComputedInOrderAndEachStepReported) {
  StartJob(FakeJob());
  trainer_->Handle(LeaseMessage(9, 3, 6));
  for (uint64_t step = 3; step < 6; ++step) {
    const StepResult result = NextStep();
    EXPECT_EQ(result.job_id(), "job-1");
    EXPECT_EQ(result.lease_id(), 9);
    EXPECT_EQ(result.step(), step);
    EXPECT_EQ(result.examples(), 1);
    EXPECT_EQ(result.loss_sum(), 100);  // Pulled.
    EXPECT_EQ(result.accuracy_sum(), 1);
    ASSERT_THAT(result.metric_sums(), SizeIs(1));
    EXPECT_EQ(result.metric_sums(0).name(), "recall");
    EXPECT_EQ(result.metric_sums(0).count(), 2);
  }
  EXPECT_THAT(world_.log.EventsWith("train "), ElementsAre("train 3", "train 4", "train 5"));
  EXPECT_THAT(world_.log.EventsWith("push "), ElementsAre("push 3", "push 4", "push 5"));
  EXPECT_THAT(world_.log.EventsWith("pull "),
              ElementsAre("pull newest", "pull newest", "pull newest"));
}

// The world's model sees no value that it was not told of.
TEST_F(StepsTest, ModelIsToldOfValuesAsTheyArrive) {
  StartJob(FakeJob());
  trainer_->Handle(LeaseMessage(1, 3, 4));
  EXPECT_EQ(NextStep().loss_sum(), 100);
  const std::vector<std::string> arrived = {"arrived 0 from 1: 1", "arrived 0 from 0: 1",
                                            "arrived 1 from 1: 2", "arrived 1 from 0: 1"};
  EXPECT_EQ(world_.log.EventsWith("arrived "), arrived);
  const std::vector<std::string> events = world_.log.events();
  EXPECT_LT(std::find(events.begin(), events.end(), arrived.back()),
            std::find(events.begin(), events.end(), "train 3"));
}

TEST_F(StepsTest, ModelIsToldNothingOfValuesThatItHas) {
  StartJob(FakeJob(/*replicas=*/2));
  trainer_->Handle(LeaseMessage(1, 4, 6));
  EXPECT_EQ(NextStep().loss_sum(), 2);
  EXPECT_EQ(NextStep().loss_sum(), 2);
  EXPECT_THAT(world_.log.EventsWith("arrived "), SizeIs(4));
}

TEST_F(StepsTest, StepsTravelAsTheJobSaysAndEvaluationsDoNot) {
  JobSpec spec = FakeJob();
  spec.mutable_precision()->set_wire(Encoding::BFLOAT16);
  StartJob(spec);
  trainer_->Handle(LeaseMessage(9, 3, 4));
  EXPECT_EQ(NextStep().step(), 3);
  trainer_->Handle(EvaluateMessage(1, "cut"));
  world_.log.Await("pull cut cut");
  EXPECT_THAT(world_.log.EventsWith("pull "),
              ElementsAre("pull newest as BFLOAT16", "pull cut cut"));
  EXPECT_THAT(world_.log.EventsWith("add "), ElementsAre("add 1 as BFLOAT16", "add 0 as BFLOAT16"));
}

TEST_F(StepsTest, ActivitiesTellWhatIsDoneForAStep) {
  std::vector<Activity> pulling, computing, pushing;
  world_.on_pull = [&](const FakePull&) {
    pulling = trainer_->Activities();
    return absl::OkStatus();
  };
  world_.on_train = [&](const Batch&) {
    computing = trainer_->Activities();
    return absl::OkStatus();
  };
  world_.on_push = [&](uint64_t) {
    pushing = trainer_->Activities();
    return absl::OkStatus();
  };
  StartJob(FakeJob(/*replicas=*/2));
  trainer_->Handle(LeaseMessage(1, 7, 8));
  const StepTimes times = NextStep().times();
  for (const double part : {times.read(), times.pull(), times.compute(), times.push()}) {
    EXPECT_GE(part, 0);
    EXPECT_LT(part, 60);
  }
  ASSERT_THAT(pulling, SizeIs(1));
  EXPECT_EQ(pulling[0].job_id(), "job-1");
  EXPECT_EQ(pulling[0].kind(), Activity::PULLING);
  EXPECT_EQ(pulling[0].step(), 7u);
  EXPECT_EQ(pulling[0].version(), 3u);
  EXPECT_FALSE(pulling[0].has_shard());  // The world's client does not say.
  ASSERT_THAT(computing, SizeIs(1));
  EXPECT_EQ(computing[0].kind(), Activity::COMPUTING);
  EXPECT_EQ(computing[0].step(), 7u);
  ASSERT_THAT(pushing, Not(IsEmpty()));
  EXPECT_EQ(pushing[0].kind(), Activity::PUSHING);
  EXPECT_EQ(pushing[0].step(), 7u);
  trainer_.reset();  // Before what its hooks use.
}

// By these the coordinator sees which workers are slow.
TEST_F(StepsTest, StepTellsHowLongItsPartsTook) {
  SimulatedClock clock;
  clock_ = &clock;
  world_.on_pull = [&clock](const FakePull&) {
    clock.Advance(absl::Seconds(1));
    return absl::OkStatus();
  };
  world_.on_train = [&clock](const Batch&) {
    clock.Advance(absl::Seconds(2));
    return absl::OkStatus();
  };
  world_.between_gradients = [&clock] { clock.Advance(absl::Seconds(3)); };
  world_.on_push = [&clock](uint64_t) {
    clock.Advance(absl::Seconds(4));
    return absl::OkStatus();
  };
  StartJob(FakeJob());
  for (const uint64_t step : {0, 1}) {
    trainer_->Handle(LeaseMessage(step + 1, step, step + 1));
    const StepTimes times = NextStep().times();
    EXPECT_EQ(times.wait(), step == 0 ? 0 : 4 + 5);
    EXPECT_EQ(times.read(), 0);
    EXPECT_EQ(times.pull(), 1);
    EXPECT_EQ(times.compute(), 2 + 3);
    EXPECT_EQ(times.forward(), 2);
    EXPECT_EQ(times.push(), 4);
    clock.Advance(absl::Seconds(5));
  }
  trainer_.reset();  // Before the clock.
}

TEST_F(StepsTest, StepsOfTheSecondEpochUseTheSameExamples) {
  StartJob(FakeJob());
  trainer_->Handle(LeaseMessage(1, 7, 10));
  NextSteps(3);
  EXPECT_THAT(world_.log.EventsWith("train "), ElementsAre("train 7", "train 0", "train 1"));
}

TEST_F(StepsTest, GradientsLeaveWhileTheBackwardPassGoesOn) {
  world_.between_gradients = [this] { world_.log.Await("add 1"); };
  StartJob(FakeJob());
  trainer_->Handle(LeaseMessage(1, 0, 1));
  EXPECT_EQ(NextStep().step(), 0);
  EXPECT_THAT(world_.log.EventsWith("add "), ElementsAre("add 1", "add 0"));
}

TEST_F(StepsTest, DropoutSeedIsAFunctionOfTheStep) {
  world_.on_push = [failures = 1](uint64_t step) mutable {
    return step == 1 && failures-- > 0 ? absl::AbortedError("voided") : absl::OkStatus();
  };
  StartJob(FakeJob());
  trainer_->Handle(LeaseMessage(1, 0, 2));
  EXPECT_EQ(NextStep().step(), 0);
  EXPECT_EQ(NextReturned().step(), 1);
  trainer_->Handle(LeaseMessage(2, 1, 2));
  EXPECT_EQ(NextStep().step(), 1);
  const std::vector<std::string> seeds = world_.log.EventsWith("seed ");
  ASSERT_THAT(seeds, SizeIs(3));
  EXPECT_NE(seeds[0], seeds[1]);
  EXPECT_EQ(seeds[1], seeds[2]);
}

TEST_F(StepsTest, LossThatIsNoNumberReturnsTheLeaseNamingTheStepAndPushesNothing) {
  world_.on_train = [](const Batch& batch) {
    return batch.features[0].floats[0] == 1 ? absl::OutOfRangeError("the loss is nan")
                                            : absl::OkStatus();
  };
  StartJob(FakeJob());
  trainer_->Handle(LeaseMessage(4, 0, 3));
  EXPECT_EQ(NextStep().step(), 0);
  const LeaseReturned returned = NextReturned();
  EXPECT_EQ(returned.job_id(), "job-1");
  EXPECT_EQ(returned.lease_id(), 4);
  EXPECT_EQ(returned.step(), 1);
  EXPECT_EQ(returned.code(), Code(absl::StatusCode::kOutOfRange));
  EXPECT_THAT(returned.message(),
              AllOf(StartsWith("step 1: the loss is nan"), HasSubstr("lower the learning rate")));
  EXPECT_THAT(world_.log.EventsWith("add "), SizeIs(2));  // Of step 0.
  EXPECT_THAT(world_.log.EventsWith("push "), ElementsAre("push 0"));
}

TEST_F(StepsTest, ModelThatReportsNoNumberIsNotPushed) {
  world_.loss_sum = std::nan("");
  StartJob(FakeJob());
  trainer_->Handle(LeaseMessage(1, 0, 1));
  EXPECT_EQ(NextReturned().code(), Code(absl::StatusCode::kOutOfRange));
  EXPECT_THAT(world_.log.EventsWith("push "), IsEmpty());
}

// It was pushed, and the variables were infinite on all ps servers from then on.
TEST_F(StepsTest, GradientThatIsNotFiniteTakesEffectNowhereAndTheStepAndVariableAreNamed) {
  for (const size_t variable : {0, 1}) {
    for (const double bad : {HUGE_VAL, -HUGE_VAL, std::nan("")}) {
      world_.bad_gradient = variable;
      world_.bad_value = static_cast<float>(bad);
      StartJob(FakeJob());
      trainer_->Handle(LeaseMessage(1, 3, 4));
      const LeaseReturned returned = NextReturned();
      EXPECT_EQ(returned.code(), Code(absl::StatusCode::kOutOfRange));
      EXPECT_THAT(returned.message(),
                  AllOf(StartsWith("step 3: the loss is finite, but the gradient of variable"),
                        HasSubstr(variable == 0 ? "'first'" : "'second'"),
                        HasSubstr("lower the learning rate")));
    }
  }
  EXPECT_THAT(world_.log.EventsWith("commit "), IsEmpty());
}

TEST_F(StepsTest, ModelThatLeavesAGradientOutIsAnError) {
  world_.finishes_all_gradients = false;
  StartJob(FakeJob());
  trainer_->Handle(LeaseMessage(1, 0, 1));
  const LeaseReturned returned = NextReturned();
  EXPECT_EQ(returned.code(), Code(absl::StatusCode::kInternal));
  EXPECT_THAT(returned.message(), HasSubstr("gradient of variable 0 0 times"));
}

TEST_F(StepsTest, NothingOfAFrozenVariableIsPushed) {
  world_.second_is_frozen = true;
  CoordinatorMessage route = RouteMessage(FakeJob(), /*generation=*/1);
  VariableSpec& second = *route.mutable_set_route()->mutable_plan()->mutable_variables(1);
  second.mutable_update()->mutable_frozen();
  Start();
  Route(route);
  trainer_->Handle(LeaseMessage(1, 3, 4));
  EXPECT_EQ(NextStep().step(), 3u);
  EXPECT_THAT(world_.log.EventsWith("frozen "), ElementsAre("frozen 1"));
  EXPECT_THAT(world_.log.EventsWith("add "), ElementsAre("add 0"));

  world_.finishes_frozen = true;
  trainer_->Handle(LeaseMessage(2, 4, 5));
  const LeaseReturned returned = NextReturned();
  EXPECT_EQ(returned.code(), Code(absl::StatusCode::kInternal));
  EXPECT_THAT(returned.message(),
              HasSubstr("gradient of variable 1 1 times in one step; it must do so not at all"));
  EXPECT_THAT(world_.log.EventsWith("commit "), ElementsAre("commit 3"));
}

TEST_F(StepsTest, NextStepIsPulledAndComputedWhileAPushIsOnItsWay) {
  world_.on_push = [this](uint64_t step) {
    if (step == 0) world_.log.Await("train 1");
    return absl::OkStatus();
  };
  StartJob(FakeJob());
  trainer_->Handle(LeaseMessage(1, 0, 3));
  EXPECT_THAT(NextSteps(3), ElementsAre(0, 1, 2));
}

TEST_F(StepsTest, DataThatCannotBeReadAreATryAgain) {
  std::atomic<bool> fails = true;
  world_.on_read = [&fails](absl::Span<const uint64_t> indices) {
    return fails && indices[0] == 1 ? absl::UnavailableError("data.train: a.bin: cannot read")
                                    : absl::OkStatus();
  };
  StartJob(FakeJob());
  trainer_->Handle(LeaseMessage(4, 0, 3));
  EXPECT_EQ(NextStep().step(), 0);
  const LeaseReturned returned = NextReturned();
  EXPECT_EQ(returned.step(), 1);
  EXPECT_EQ(returned.code(), Code(absl::StatusCode::kUnavailable));
  EXPECT_EQ(returned.message(), "step 1: data.train: a.bin: cannot read");
  fails = false;
  trainer_->Handle(LeaseMessage(5, 1, 2));
  EXPECT_EQ(NextStep().step(), 1);
  EXPECT_THAT(world_.log.EventsWith("open "), SizeIs(2));
  trainer_.reset();  // Before the flag.
}

TEST_F(StepsTest, DataThatHaveChangedAreOpenedAgain) {
  std::atomic<bool> changed = true;
  world_.on_read = [&changed](absl::Span<const uint64_t> indices) {
    return changed && indices[0] == 1 ? absl::InvalidArgumentError("data.train: a.bin: has changed")
                                      : absl::OkStatus();
  };
  StartJob(FakeJob());
  world_.log.Await("open data.evaluate");
  trainer_->Handle(LeaseMessage(4, 0, 3));
  EXPECT_EQ(NextStep().step(), 0);
  const LeaseReturned returned = NextReturned();
  EXPECT_EQ(returned.code(), Code(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(returned.message(), "step 1: data.train: a.bin: has changed");
  EXPECT_EQ(NextPrepared().code(), 0);
  changed = false;
  trainer_->Handle(LeaseMessage(5, 1, 2));
  EXPECT_EQ(NextStep().step(), 1);
  EXPECT_THAT(world_.log.EventsWith("open "), SizeIs(4));
  trainer_.reset();  // Before the flag.
}

TEST_F(StepsTest, DataThatAnEvaluationFindsChangedAreOpenedAgain) {
  std::atomic<bool> changed = true;
  world_.on_read = [&changed](absl::Span<const uint64_t>) {
    return changed ? absl::InvalidArgumentError("data.evaluate: b.bin: has changed")
                   : absl::OkStatus();
  };
  StartJob(FakeJob());
  trainer_->Handle(EvaluateMessage(1, "cut-1"));
  EXPECT_EQ(NextEvaluation().code(), Code(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(NextPrepared().code(), 0);
  changed = false;
  trainer_->Handle(EvaluateMessage(2, "cut-2"));
  EXPECT_EQ(NextEvaluation().code(), 0);
  trainer_.reset();  // Before the flag.
}

TEST_F(StepsTest, FailureIsToldAfterTheStepsBeforeIt) {
  world_.on_train = [](const Batch& batch) {
    return batch.features[0].floats[0] == 1 ? absl::OutOfRangeError("the loss is nan")
                                            : absl::OkStatus();
  };
  world_.on_push = [this](uint64_t) {
    world_.log.Await("train 1");
    return absl::OkStatus();
  };
  StartJob(FakeJob());
  trainer_->Handle(LeaseMessage(1, 0, 4));
  EXPECT_EQ(NextStep().step(), 0);
  EXPECT_EQ(NextReturned().step(), 1);
  EXPECT_THAT(world_.log.EventsWith("train "), ElementsAre("train 0", "train 1"));
}

TEST_F(StepsTest, StepsAfterOneWhosePushFailedAreNotTold) {
  world_.on_push = [this](uint64_t step) {
    if (step > 0) return absl::OkStatus();
    world_.log.Await("train 1");
    return absl::AbortedError("voided");
  };
  StartJob(FakeJob());
  trainer_->Handle(LeaseMessage(1, 0, 2));
  EXPECT_EQ(NextReturned().step(), 0);
  trainer_->Handle(LeaseMessage(2, 5, 6));
  EXPECT_EQ(NextStep().step(), 5);
}

// The pull alone was meant; with it went the pushes.
TEST_F(StepsTest, PushesGoOnWhenAPullMakesWayForALowerStep) {
  world_.on_pull = [first = true](const FakePull& pull) mutable {
    if (pull.version == uint64_t{2} && std::exchange(first, false)) pull.wait_for_cancel();
    return absl::OkStatus();
  };
  world_.on_push = [this](uint64_t step) {
    if (step == 2) world_.log.Await("pull 2", 2);
    return absl::OkStatus();
  };
  StartJob(FakeJob(/*replicas=*/2));
  trainer_->Handle(LeaseMessage(1, 2, 3));
  trainer_->Handle(LeaseMessage(2, 4, 5));
  world_.log.Await("pull 2");
  trainer_->Handle(LeaseMessage(3, 3, 4));
  EXPECT_THAT(NextSteps(3), ElementsAre(2, 3, 4));
  EXPECT_THAT(world_.log.EventsWith("cancel "), IsEmpty());
}

TEST_F(StepsTest, ErrorOfThePushReturnsTheRestOfTheLease) {
  world_.on_push = [](uint64_t step) {
    return step == 1 ? absl::FailedPreconditionError("ps-1: generation 1; the shard is at 2")
                     : absl::OkStatus();
  };
  StartJob(FakeJob());
  trainer_->Handle(LeaseMessage(1, 0, 3));
  EXPECT_EQ(NextStep().step(), 0);
  const LeaseReturned returned = NextReturned();
  EXPECT_EQ(returned.step(), 1);
  EXPECT_EQ(returned.code(), Code(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(returned.message(), "step 1: ps-1: generation 1; the shard is at 2");
}

// A ps server that has lost the shard says nothing about the job: its coordinator will put it
// right.
TEST_F(StepsTest, ShardThatIsNotThereIsATryAgain) {
  world_.on_pull = [](const FakePull&) { return absl::NotFoundError("ps-1: no shard 3"); };
  StartJob(FakeJob());
  trainer_->Handle(LeaseMessage(1, 0, 1));
  const LeaseReturned returned = NextReturned();
  EXPECT_EQ(returned.code(), Code(absl::StatusCode::kUnavailable));
  EXPECT_EQ(returned.message(), "step 0: ps-1: no shard 3");
}

// A synchronous shard whose version is behind the step's, as after a crash. That was taken for a
// loss that is no number, and failed the job.
TEST_F(StepsTest, ShardThatIsBehindIsATryAgain) {
  world_.on_push = [](uint64_t) { return absl::OutOfRangeError("ps-1: step 4 is of version 2"); };
  StartJob(FakeJob(/*replicas=*/2));
  trainer_->Handle(LeaseMessage(1, 4, 5));
  const LeaseReturned returned = NextReturned();
  EXPECT_EQ(returned.code(), Code(absl::StatusCode::kAborted));
  EXPECT_EQ(returned.message(), "step 4: ps-1: step 4 is of version 2");
}

TEST_F(StepsTest, SlowPullIsStartedOnce) {
  SimulatedClock clock;
  clock_ = &clock;
  int waits = 0;
  world_.on_pull = [&](const FakePull& pull) {
    if (++waits == 3) return absl::OkStatus();
    clock.Advance(pull.deadline - clock.Now());
    return absl::DeadlineExceededError("no answer in time from ps-0");
  };
  StartJob(FakeJob());
  trainer_->Handle(LeaseMessage(1, 0, 1));
  EXPECT_EQ(NextStep().step(), 0);
  EXPECT_THAT(world_.log.EventsWith("pull "), ElementsAre("pull newest"));
  trainer_.reset();  // Before the clock.
}

TEST_F(StepsTest, SynchronousVersionIsPulledOnce) {
  StartJob(FakeJob(/*replicas=*/2));
  trainer_->Handle(LeaseMessage(1, 2, 6));
  EXPECT_THAT(NextSteps(4), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(world_.log.EventsWith("pull "), ElementsAre("pull 1", "pull 2"));
}

TEST_F(StepsTest, SynchronousVersionIsPulledAgainInANewGeneration) {
  StartJob(FakeJob(/*replicas=*/2));
  trainer_->Handle(LeaseMessage(1, 2, 3));
  NextStep();
  Route(RouteMessage(FakeJob(/*replicas=*/2), /*generation=*/2));
  trainer_->Handle(LeaseMessage(2, 3, 4, /*generation=*/2));
  NextStep();
  EXPECT_THAT(world_.log.EventsWith("pull "), ElementsAre("pull 1", "pull 1"));
}

// The lower step may be what the higher one's version waits for, of a worker that was lost.
TEST_F(StepsTest, StepThatWaitsForItsVersionMakesWayForALowerOne) {
  world_.on_pull = [first = true](const FakePull& pull) mutable {
    if (pull.version == uint64_t{2} && std::exchange(first, false)) pull.wait_for_cancel();
    return absl::OkStatus();
  };
  StartJob(FakeJob(/*replicas=*/2));
  trainer_->Handle(LeaseMessage(1, 4, 5));
  world_.log.Await("pull 2");
  trainer_->Handle(LeaseMessage(2, 3, 4));
  EXPECT_THAT(NextSteps(2), ElementsAre(3, 4));
  EXPECT_THAT(world_.log.EventsWith("pull "), ElementsAre("pull 2", "pull 1", "pull 2"));
}

// Its pull had not begun, and there was nothing to call off.
TEST_F(StepsTest, StepWhoseBatchIsBeingReadMakesWayForALowerOne) {
  std::atomic<bool> first = true;
  world_.second_by_rows = true;
  world_.on_read = [this, &first](absl::Span<const uint64_t>) {
    if (first.exchange(false)) trainer_->Handle(LeaseMessage(2, 3, 4));
    return absl::OkStatus();
  };
  StartJob(FakeJob(/*replicas=*/2));
  trainer_->Handle(LeaseMessage(1, 4, 5));
  EXPECT_THAT(NextSteps(2), ElementsAre(3, 4));
  trainer_.reset();  // Before the flag.
}

TEST_F(StepsTest, RowsOfTheBatchArePulledAndPushed) {
  world_.second_by_rows = true;
  StartJob(FakeJob());
  trainer_->Handle(LeaseMessage(1, 4, 7));
  EXPECT_THAT(NextSteps(3), ElementsAre(4, 5, 6));
  EXPECT_THAT(world_.log.EventsWith("pull "),
              ElementsAre("pull newest rows of 1: 1", "pull newest rows of 1: 2",
                          "pull newest rows of 1: 0"));
  EXPECT_THAT(world_.log.EventsWith("add rows"),
              ElementsAre("add rows of 1: 1", "add rows of 1: 2", "add rows of 1: 0"));
}

// Of what was pulled for the version's first step only the rows are of no use for its second one.
TEST_F(StepsTest, RowsOfASynchronousVersionArePulledForEachStep) {
  world_.second_by_rows = true;
  StartJob(FakeJob(/*replicas=*/2));
  trainer_->Handle(LeaseMessage(1, 2, 5));
  for (const double version : {1, 1, 2}) EXPECT_EQ(NextStep().loss_sum(), version);
  trainer_->Handle(EvaluateMessage(1, "cut-1"));
  NextEvaluation();
  trainer_->Handle(LeaseMessage(2, 5, 6));
  EXPECT_EQ(NextStep().loss_sum(), 2);
  EXPECT_THAT(world_.log.EventsWith("pull "),
              ElementsAre("pull 1 rows of 1: 2", "pull 1 rows of 0:  rows of 1: 0",
                          "pull 2 rows of 1: 1", "pull cut cut-1", "pull 2 rows of 1: 2"));
  EXPECT_THAT(world_.log.EventsWith("held"), ElementsAre("held 0"))
      << "the device has it already, from the version's first step";
}

TEST_F(StepsTest, RowsAreThoseOfTheStepThatMadeWay) {
  world_.second_by_rows = true;
  world_.on_pull = [first = true](const FakePull& pull) mutable {
    if (pull.version == uint64_t{2} && std::exchange(first, false)) pull.wait_for_cancel();
    return absl::OkStatus();
  };
  StartJob(FakeJob(/*replicas=*/2));
  trainer_->Handle(LeaseMessage(1, 4, 5));
  world_.log.Await("pull 2 rows of 1: 1");
  trainer_->Handle(LeaseMessage(2, 3, 4));
  EXPECT_THAT(NextSteps(2), ElementsAre(3, 4));
  EXPECT_THAT(world_.log.EventsWith("pull "),
              ElementsAre("pull 2 rows of 1: 1", "pull 1 rows of 1: 0", "pull 2 rows of 1: 1"));
}

TEST_F(StepsTest, DataThatCannotBeReadForTheRowsAreATryAgain) {
  std::atomic<bool> away = true;
  world_.second_by_rows = true;
  world_.on_read = [&away](absl::Span<const uint64_t>) {
    return away ? absl::UnavailableError("the disk is away") : absl::OkStatus();
  };
  StartJob(FakeJob());
  trainer_->Handle(LeaseMessage(1, 4, 5));
  EXPECT_EQ(NextReturned().code(), Code(absl::StatusCode::kUnavailable));
  EXPECT_THAT(world_.log.EventsWith("begin pull"), IsEmpty());
  away = false;
  trainer_->Handle(LeaseMessage(2, 4, 5));
  EXPECT_EQ(NextStep().step(), 4u);
  trainer_.reset();  // Before the flag.
}

TEST_F(StepsTest, EvaluationUsesTheCutAndAllHeldOutExamples) {
  StartJob(FakeJob());
  trainer_->Handle(EvaluateMessage(6, "cut-1"));
  const EvaluationResult result = NextEvaluation();
  EXPECT_EQ(result.job_id(), "job-1");
  EXPECT_EQ(result.evaluation_id(), 6);
  EXPECT_EQ(result.code(), 0) << result.message();
  EXPECT_EQ(result.examples(), 5);
  EXPECT_EQ(result.metrics().at("loss"), 500);
  EXPECT_EQ(result.metrics().at("recall"), 0.25);
  ASSERT_THAT(result.confusion_matrices(), SizeIs(1));
  EXPECT_EQ(result.confusion_matrices(0).classes(), 2u);
  EXPECT_THAT(world_.log.EventsWith("pull "), ElementsAre("pull cut cut-1"));
  EXPECT_THAT(world_.log.EventsWith("evaluate "),
              ElementsAre("evaluate 2", "evaluate 2", "evaluate 1"));
}

TEST_F(StepsTest, ValuesOfAnEvaluationAreNotTrainedOn) {
  StartJob(FakeJob(/*replicas=*/2));
  trainer_->Handle(LeaseMessage(1, 2, 3));
  EXPECT_EQ(NextStep().loss_sum(), 1);
  trainer_->Handle(EvaluateMessage(1, "cut-1"));
  NextEvaluation();
  trainer_->Handle(LeaseMessage(2, 3, 4));
  EXPECT_EQ(NextStep().loss_sum(), 1);
  EXPECT_THAT(world_.log.EventsWith("pull "), ElementsAre("pull 1", "pull cut cut-1", "pull 1"));
}

TEST_F(StepsTest, EvaluationWhoseCutIsGoneIsATryAgain) {
  world_.on_pull = [](const FakePull&) { return absl::NotFoundError("ps-0: no cut 'cut-1'"); };
  StartJob(FakeJob());
  trainer_->Handle(EvaluateMessage(6, "cut-1"));
  const EvaluationResult result = NextEvaluation();
  EXPECT_EQ(result.code(), Code(absl::StatusCode::kUnavailable));
  EXPECT_THAT(result.message(), HasSubstr("ps-0: no cut 'cut-1'"));
}

TEST_F(StepsTest, JobWithoutHeldOutExamplesIsNotEvaluated) {
  JobSpec spec = FakeJob();
  spec.mutable_data()->clear_evaluate();
  StartJob(spec);
  trainer_->Handle(EvaluateMessage(6, "cut-1"));
  EXPECT_EQ(NextEvaluation().code(), Code(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace millrace::worker
