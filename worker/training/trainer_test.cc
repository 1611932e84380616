#include "worker/training/trainer.h"

#include <cmath>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protos/cluster.pb.h"
#include "worker/training/fakes.h"

namespace millrace::worker {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

constexpr int Code(absl::StatusCode code) { return static_cast<int>(code); }

class TrainerTest : public ::testing::Test {
 protected:
  // Set the world's hooks first.
  void Start() {
    TrainerOptions options;
    options.worker_name = "worker-0";
    options.clock = clock_;
    options.open_dataset = world_.open_dataset();
    options.make_model = world_.make_model();
    options.make_client = world_.make_client();
    trainer_ = std::make_unique<Trainer>(
        options, [this](MemberMessage message) { said_.Add(std::move(message)); });
  }

  void StartJob(const JobSpec& spec) {
    Start();
    Route(RouteMessage(spec, /*generation=*/1));
  }

  // A route that the worker can work on.
  void Route(const CoordinatorMessage& route) {
    trainer_->Handle(route);
    const JobPrepared prepared = NextPrepared();
    EXPECT_EQ(prepared.job_id(), route.set_route().job_id());
    EXPECT_EQ(prepared.code(), 0) << prepared.message();
  }

  // A route that it cannot work on; says why.
  std::string RouteError(const CoordinatorMessage& route) {
    trainer_->Handle(route);
    const JobPrepared prepared = NextPrepared();
    EXPECT_EQ(prepared.code(), Code(absl::StatusCode::kInvalidArgument));
    return prepared.message();
  }

  JobPrepared NextPrepared() {
    const MemberMessage message = said_.Next();
    EXPECT_TRUE(message.has_job_prepared()) << message.DebugString();
    return message.job_prepared();
  }

  StepResult NextStep() {
    const MemberMessage message = said_.Next();
    EXPECT_TRUE(message.has_step_result()) << message.DebugString();
    return message.step_result();
  }

  std::vector<uint64_t> NextSteps(int count) {
    std::vector<uint64_t> steps;
    for (int i = 0; i < count; ++i) steps.push_back(NextStep().step());
    return steps;
  }

  LeaseReturned NextReturned() {
    const MemberMessage message = said_.Next();
    EXPECT_TRUE(message.has_lease_returned()) << message.DebugString();
    return message.lease_returned();
  }

  EvaluationResult NextEvaluation() {
    const MemberMessage message = said_.Next();
    EXPECT_TRUE(message.has_evaluation_result()) << message.DebugString();
    return message.evaluation_result();
  }

  Clock* clock_ = Clock::Real();
  FakeWorld world_;
  Messages said_;
  std::unique_ptr<Trainer> trainer_;  // Last: ends first.
};

TEST_F(TrainerTest, PlanTellsOfTheModelAndTheData) {
  Start();
  trainer_->Handle(PlanMessage(5, FakeJob()));
  const MemberMessage message = said_.Next();
  const PlanResult& result = message.plan_result();
  EXPECT_EQ(result.request_id(), 5);
  EXPECT_EQ(result.code(), 0);
  ASSERT_THAT(result.plan().variables(), SizeIs(2));
  EXPECT_EQ(result.plan().variables(1).name(), "second");
  EXPECT_EQ(result.plan().train_examples(), 8);
  EXPECT_EQ(result.plan().evaluate_examples(), 5);
}

TEST_F(TrainerTest, PlanPassesErrorsOn) {
  world_.on_open = [](const std::string& field) {
    return absl::InvalidArgumentError(absl::StrCat(field, ".idx.images: truncated at byte 16"));
  };
  Start();
  trainer_->Handle(PlanMessage(5, FakeJob()));
  const MemberMessage message = said_.Next();
  EXPECT_EQ(message.plan_result().code(), Code(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(message.plan_result().message(), "data.train.idx.images: truncated at byte 16");
}

TEST_F(TrainerTest, JobThatWasPlannedIsNotOpenedAgain) {
  Start();
  trainer_->Handle(PlanMessage(5, FakeJob()));
  said_.Next();
  Route(RouteMessage(FakeJob(), 1));
  trainer_->Handle(LeaseMessage(1, 0, 1));
  EXPECT_EQ(NextStep().step(), 0);
  EXPECT_THAT(world_.log.EventsWith("open "), ElementsAre("open data.train", "open data.evaluate"));
  EXPECT_THAT(world_.log.EventsWith("make model"), SizeIs(1));
}

TEST_F(TrainerTest, LeaseIsComputedInOrderAndEachStepReported) {
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
  }
  EXPECT_THAT(world_.log.EventsWith("train "), ElementsAre("train 3", "train 4", "train 5"));
  EXPECT_THAT(world_.log.EventsWith("push "), ElementsAre("push 3", "push 4", "push 5"));
  EXPECT_THAT(world_.log.EventsWith("pull "),
              ElementsAre("pull newest", "pull newest", "pull newest"));
}

TEST_F(TrainerTest, StepsOfTheSecondEpochUseTheSameExamples) {
  StartJob(FakeJob());
  trainer_->Handle(LeaseMessage(1, 7, 10));
  NextSteps(3);
  EXPECT_THAT(world_.log.EventsWith("train "), ElementsAre("train 7", "train 0", "train 1"));
}

TEST_F(TrainerTest, GradientsLeaveWhileTheBackwardPassGoesOn) {
  world_.between_gradients = [this] { world_.log.Await("add 1"); };
  StartJob(FakeJob());
  trainer_->Handle(LeaseMessage(1, 0, 1));
  EXPECT_EQ(NextStep().step(), 0);
  EXPECT_THAT(world_.log.EventsWith("add "), ElementsAre("add 1", "add 0"));
}

TEST_F(TrainerTest, DropoutSeedIsAFunctionOfTheStep) {
  int failures = 1;
  world_.on_push = [&failures](uint64_t step) {
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

TEST_F(TrainerTest, LossThatIsNoNumberReturnsTheLeaseNamingTheStepAndPushesNothing) {
  world_.on_train = [](const Batch& batch) {
    return batch.features[0] == 1 ? absl::OutOfRangeError("the loss is nan") : absl::OkStatus();
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

TEST_F(TrainerTest, ModelThatReportsNoNumberIsNotPushed) {
  world_.loss_sum = std::nan("");
  StartJob(FakeJob());
  trainer_->Handle(LeaseMessage(1, 0, 1));
  EXPECT_EQ(NextReturned().code(), Code(absl::StatusCode::kOutOfRange));
  EXPECT_THAT(world_.log.EventsWith("push "), IsEmpty());
}

TEST_F(TrainerTest, ModelThatLeavesAGradientOutIsAnError) {
  world_.finishes_all_gradients = false;
  StartJob(FakeJob());
  trainer_->Handle(LeaseMessage(1, 0, 1));
  const LeaseReturned returned = NextReturned();
  EXPECT_EQ(returned.code(), Code(absl::StatusCode::kInternal));
  EXPECT_THAT(returned.message(), HasSubstr("gradient of variable 0 0 times"));
}

TEST_F(TrainerTest, NextStepIsPulledAndComputedWhileAPushIsOnItsWay) {
  world_.on_push = [this](uint64_t step) {
    if (step == 0) world_.log.Await("train 1");
    return absl::OkStatus();
  };
  StartJob(FakeJob());
  trainer_->Handle(LeaseMessage(1, 0, 3));
  EXPECT_THAT(NextSteps(3), ElementsAre(0, 1, 2));
}

TEST_F(TrainerTest, FailureIsToldAfterTheStepsBeforeIt) {
  world_.on_train = [](const Batch& batch) {
    return batch.features[0] == 1 ? absl::OutOfRangeError("the loss is nan") : absl::OkStatus();
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

TEST_F(TrainerTest, StepsAfterOneWhosePushFailedAreNotTold) {
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
TEST_F(TrainerTest, PushesGoOnWhenAPullMakesWayForALowerStep) {
  bool first = true;
  world_.on_pull = [&first](const FakePull& pull) {
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

TEST_F(TrainerTest, ErrorOfThePushReturnsTheRestOfTheLease) {
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
TEST_F(TrainerTest, ShardThatIsNotThereIsATryAgain) {
  world_.on_pull = [](const FakePull&) { return absl::NotFoundError("ps-1: no shard 3"); };
  StartJob(FakeJob());
  trainer_->Handle(LeaseMessage(1, 0, 1));
  const LeaseReturned returned = NextReturned();
  EXPECT_EQ(returned.code(), Code(absl::StatusCode::kUnavailable));
  EXPECT_EQ(returned.message(), "step 0: ps-1: no shard 3");
}

// A synchronous shard whose version is behind the step's, as after a crash. That was taken for a
// loss that is no number, and failed the job.
TEST_F(TrainerTest, ShardThatIsBehindIsATryAgain) {
  world_.on_push = [](uint64_t) { return absl::OutOfRangeError("ps-1: step 4 is of version 2"); };
  StartJob(FakeJob(/*replicas=*/2));
  trainer_->Handle(LeaseMessage(1, 4, 5));
  const LeaseReturned returned = NextReturned();
  EXPECT_EQ(returned.code(), Code(absl::StatusCode::kAborted));
  EXPECT_EQ(returned.message(), "step 4: ps-1: step 4 is of version 2");
}

TEST_F(TrainerTest, SlowPullIsStartedOnce) {
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

TEST_F(TrainerTest, JobOfAnotherModelOrOtherDataThanPlannedIsNotWorkedOn) {
  world_.fingerprint = 5;
  Start();
  CoordinatorMessage route = RouteMessage(FakeJob(), 1);
  JobPlan* plan = route.mutable_set_route()->mutable_plan();
  plan->mutable_variables(1)->add_shape(7);
  EXPECT_THAT(RouteError(route), AllOf(HasSubstr("'second' [3]"), HasSubstr("'second' [3, 7]")));
  plan->mutable_variables(1)->set_shape(0, 3);
  plan->mutable_variables(1)->mutable_shape()->Truncate(1);
  plan->set_train_examples(9);
  EXPECT_THAT(RouteError(route), AllOf(HasSubstr("has 8 examples"), HasSubstr("planned with 9")));
  plan->set_train_examples(kFakeTrainExamples);
  plan->set_data_fingerprint(1);
  EXPECT_THAT(RouteError(route), HasSubstr("0000000000000001: the files differ"));
  plan->clear_data_fingerprint();
  Route(route);
}

// A job whose data one worker of many could not open failed for all of them.
TEST_F(TrainerTest, WorkOfAJobThatCannotBeOpenedIsReturnedToBeTriedElsewhere) {
  world_.on_open = [](const std::string& field) {
    return field == "data.evaluate" ? absl::InvalidArgumentError("data.evaluate: no such file")
                                    : absl::OkStatus();
  };
  Start();
  EXPECT_EQ(RouteError(RouteMessage(FakeJob(), 1)), "data.evaluate: no such file");
  trainer_->Handle(LeaseMessage(1, 2, 4));
  const LeaseReturned returned = NextReturned();
  EXPECT_EQ(returned.step(), 2);
  EXPECT_EQ(returned.code(), Code(absl::StatusCode::kUnavailable));
  EXPECT_THAT(returned.message(), EndsWith("data.evaluate: no such file"));
  trainer_->Handle(EvaluateMessage(1, "cut-1"));
  EXPECT_EQ(NextEvaluation().code(), Code(absl::StatusCode::kUnavailable));
}

TEST_F(TrainerTest, JobIsTriedAgainUntilItCanBeOpened) {
  SimulatedClock clock;
  clock_ = &clock;
  const int failures = 3;
  int tries = 0;
  world_.on_open = [&](const std::string& field) {
    if (field != "data.train" || ++tries > failures) return absl::OkStatus();
    return absl::InvalidArgumentError(tries < failures ? "no such file" : "truncated");
  };
  Start();
  EXPECT_EQ(RouteError(RouteMessage(FakeJob(), 1)), "no such file");
  std::vector<JobPrepared> told;
  const absl::Time deadline = Clock::Real()->Now() + absl::Minutes(1);
  while (told.empty() || told.back().code() != 0) {
    ASSERT_LT(Clock::Real()->Now(), deadline);
    clock.Advance(absl::Minutes(1));
    if (!said_.empty()) told.push_back(NextPrepared());
    std::this_thread::yield();
  }
  ASSERT_THAT(told, SizeIs(2));  // Not again what was told already.
  EXPECT_EQ(told[0].message(), "truncated");
  trainer_->Handle(LeaseMessage(1, 2, 3));
  EXPECT_EQ(NextStep().step(), 2);
  trainer_.reset();  // Before the clock.
}

TEST_F(TrainerTest, RepeatedRouteIsAnsweredAgainWithoutOpeningTheDataAgain) {
  StartJob(FakeJob());
  Route(RouteMessage(FakeJob(), 1));
  trainer_->DropWork();
  Route(RouteMessage(FakeJob(), 1));
  Route(RouteMessage(FakeJob(), 2));
  EXPECT_THAT(world_.log.EventsWith("open data.train"), SizeIs(1));
}

// A coordinator that lost its journal counts its jobs from 1 again.
TEST_F(TrainerTest, JobIdThatStandsForAnotherJobIsAnotherJob) {
  JobSpec other = FakeJob();
  other.set_seed(8);
  StartJob(FakeJob());
  Route(RouteMessage(other, /*generation=*/2));
  world_.log.Await("model gone");
  EXPECT_THAT(world_.log.EventsWith("make model"), SizeIs(2));
  Route(RouteMessage(other, /*generation=*/1));
  world_.log.Await("model gone", 2);
  trainer_->Handle(LeaseMessage(1, 2, 3));
  EXPECT_EQ(NextStep().step(), 2);
}

TEST_F(TrainerTest, MemoryThatRunsOutIsATryElsewhere) {
  bool out_of_memory = true;
  world_.on_open = [&](const std::string&) -> absl::Status {
    if (std::exchange(out_of_memory, false)) throw std::bad_alloc();
    return absl::OkStatus();
  };
  world_.on_train = [](const Batch&) -> absl::Status { throw std::bad_alloc(); };
  Start();
  trainer_->Handle(RouteMessage(FakeJob(), 1));
  EXPECT_EQ(NextPrepared().code(), Code(absl::StatusCode::kResourceExhausted));
  Route(RouteMessage(FakeJob(), 1));
  trainer_->Handle(LeaseMessage(1, 2, 3));
  const LeaseReturned returned = NextReturned();
  EXPECT_EQ(returned.code(), Code(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(returned.message(), StartsWith("step 2: this worker has too little memory"));
}

TEST_F(TrainerTest, LeaseOfAJobWithoutARouteIsReturned) {
  Start();
  trainer_->Handle(LeaseMessage(3, 5, 6));
  const LeaseReturned returned = NextReturned();
  EXPECT_EQ(returned.lease_id(), 3);
  EXPECT_EQ(returned.step(), 5);
  EXPECT_EQ(returned.code(), Code(absl::StatusCode::kFailedPrecondition));
}

TEST_F(TrainerTest, NewGenerationEndsTheWorkOfTheOldOneWithoutAWord) {
  world_.on_pull = [](const FakePull& pull) {
    if (pull.generation == 1) pull.wait_for_cancel();
    return absl::OkStatus();
  };
  StartJob(FakeJob());
  trainer_->Handle(LeaseMessage(1, 0, 2, /*generation=*/1));
  world_.log.Await("pull newest");
  Route(RouteMessage(FakeJob(), /*generation=*/2));
  trainer_->Handle(LeaseMessage(2, 5, 6, /*generation=*/2));
  const StepResult result = NextStep();
  EXPECT_EQ(result.lease_id(), 2);
  EXPECT_EQ(result.step(), 5);
  EXPECT_THAT(world_.log.EventsWith("train "), ElementsAre("train 5"));
}

TEST_F(TrainerTest, LeaseOfAnOlderGenerationIsDropped) {
  Start();
  Route(RouteMessage(FakeJob(), /*generation=*/1));
  Route(RouteMessage(FakeJob(), /*generation=*/2));
  trainer_->Handle(LeaseMessage(1, 0, 1, /*generation=*/1));
  trainer_->Handle(LeaseMessage(2, 5, 6, /*generation=*/2));
  EXPECT_EQ(NextStep().lease_id(), 2);
  EXPECT_THAT(world_.log.EventsWith("train "), ElementsAre("train 5"));
  EXPECT_THAT(world_.log.EventsWith("client "), ElementsAre("client 2"));
}

TEST_F(TrainerTest, SynchronousVersionIsPulledOnce) {
  StartJob(FakeJob(/*replicas=*/2));
  trainer_->Handle(LeaseMessage(1, 2, 6));
  EXPECT_THAT(NextSteps(4), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(world_.log.EventsWith("pull "), ElementsAre("pull 1", "pull 2"));
}

TEST_F(TrainerTest, SynchronousVersionIsPulledAgainInANewGeneration) {
  StartJob(FakeJob(/*replicas=*/2));
  trainer_->Handle(LeaseMessage(1, 2, 3));
  NextStep();
  Route(RouteMessage(FakeJob(/*replicas=*/2), /*generation=*/2));
  trainer_->Handle(LeaseMessage(2, 3, 4, /*generation=*/2));
  NextStep();
  EXPECT_THAT(world_.log.EventsWith("pull "), ElementsAre("pull 1", "pull 1"));
}

// The lower step may be what the higher one's version waits for, of a worker that was lost.
TEST_F(TrainerTest, StepThatWaitsForItsVersionMakesWayForALowerOne) {
  bool first = true;
  world_.on_pull = [&first](const FakePull& pull) {
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

// Its steps may be with another worker by then.
TEST_F(TrainerTest, LeaseThatIsNotBegunInTimeGoesBack) {
  SimulatedClock clock;
  clock_ = &clock;
  world_.on_train = [this, &clock](const Batch& batch) {
    if (batch.features[0] > 0) return absl::OkStatus();
    world_.log.Await("both leased");
    clock.Advance(absl::Minutes(2));
    return absl::OkStatus();
  };
  world_.on_push = [this](uint64_t step) {
    if (step == 0) world_.log.Await("returned");  // What is told of step 0 renews the leases.
    return absl::OkStatus();
  };
  StartJob(FakeJob());
  CoordinatorMessage lease = LeaseMessage(1, 5, 6);
  lease.mutable_lease()->mutable_duration()->set_seconds(60);
  CoordinatorMessage first = LeaseMessage(2, 0, 2);
  first.mutable_lease()->mutable_duration()->set_seconds(60);
  trainer_->Handle(first);
  trainer_->Handle(lease);
  world_.log.Add("both leased");
  const LeaseReturned returned = NextReturned();
  EXPECT_EQ(returned.lease_id(), 1);
  EXPECT_EQ(returned.step(), 5);
  EXPECT_EQ(returned.code(), 0) << returned.message();
  world_.log.Add("returned");
  EXPECT_THAT(NextSteps(2), ElementsAre(0, 1));
  EXPECT_THAT(world_.log.EventsWith("train "), ElementsAre("train 0", "train 1"));
  trainer_.reset();  // Before the clock.
}

TEST_F(TrainerTest, EvaluationUsesTheCutAndAllHeldOutExamples) {
  StartJob(FakeJob());
  trainer_->Handle(EvaluateMessage(6, "cut-1"));
  const EvaluationResult result = NextEvaluation();
  EXPECT_EQ(result.job_id(), "job-1");
  EXPECT_EQ(result.evaluation_id(), 6);
  EXPECT_EQ(result.code(), 0) << result.message();
  EXPECT_EQ(result.examples(), 5);
  EXPECT_EQ(result.metrics().at("loss"), 500);
  EXPECT_THAT(world_.log.EventsWith("pull "), ElementsAre("pull cut cut-1"));
  EXPECT_THAT(world_.log.EventsWith("evaluate "),
              ElementsAre("evaluate 2", "evaluate 2", "evaluate 1"));
}

TEST_F(TrainerTest, ValuesOfAnEvaluationAreNotTrainedOn) {
  StartJob(FakeJob(/*replicas=*/2));
  trainer_->Handle(LeaseMessage(1, 2, 3));
  EXPECT_EQ(NextStep().loss_sum(), 1);
  trainer_->Handle(EvaluateMessage(1, "cut-1"));
  NextEvaluation();
  trainer_->Handle(LeaseMessage(2, 3, 4));
  EXPECT_EQ(NextStep().loss_sum(), 1);
  EXPECT_THAT(world_.log.EventsWith("pull "), ElementsAre("pull 1", "pull cut cut-1", "pull 1"));
}

TEST_F(TrainerTest, EvaluationWhoseCutIsGoneIsATryAgain) {
  world_.on_pull = [](const FakePull&) { return absl::NotFoundError("ps-0: no cut 'cut-1'"); };
  StartJob(FakeJob());
  trainer_->Handle(EvaluateMessage(6, "cut-1"));
  const EvaluationResult result = NextEvaluation();
  EXPECT_EQ(result.code(), Code(absl::StatusCode::kUnavailable));
  EXPECT_THAT(result.message(), HasSubstr("ps-0: no cut 'cut-1'"));
}

TEST_F(TrainerTest, JobWithoutHeldOutExamplesIsNotEvaluated) {
  JobSpec spec = FakeJob();
  spec.mutable_data()->clear_evaluate();
  StartJob(spec);
  trainer_->Handle(EvaluateMessage(6, "cut-1"));
  EXPECT_EQ(NextEvaluation().code(), Code(absl::StatusCode::kInvalidArgument));
}

TEST_F(TrainerTest, StopReturnsTheLeases) {
  world_.on_pull = [](const FakePull& pull) {
    pull.wait_for_cancel();
    return absl::CancelledError("cancelled");
  };
  StartJob(FakeJob());
  trainer_->Handle(LeaseMessage(1, 0, 2));
  trainer_->Handle(LeaseMessage(2, 4, 6));
  world_.log.Await("pull newest");
  trainer_->Stop();
  std::vector<uint64_t> steps;
  for (int i = 0; i < 2; ++i) {
    const LeaseReturned returned = NextReturned();
    EXPECT_EQ(returned.code(), 0) << returned.message();
    steps.push_back(returned.step());
  }
  EXPECT_THAT(steps, UnorderedElementsAre(0, 4));
  EXPECT_TRUE(said_.empty());
  trainer_->Stop();  // Again, to no effect.
}

TEST_F(TrainerTest, StopFinishesTheStepUnderWay) {
  std::thread stop;
  world_.between_gradients = [this, &stop] {
    if (!stop.joinable()) stop = std::thread([this] { trainer_->Stop(); });
  };
  StartJob(FakeJob());
  trainer_->Handle(LeaseMessage(1, 0, uint64_t{1} << 40));  // Not done before the stop.
  // How many steps are computed before the stop is noticed is open; none is left half done.
  uint64_t done = 0;
  MemberMessage message = said_.Next();
  for (; message.has_step_result(); message = said_.Next()) {
    EXPECT_EQ(message.step_result().step(), done);
    ++done;
  }
  stop.join();
  EXPECT_GE(done, 1);
  EXPECT_EQ(message.lease_returned().step(), done);
  EXPECT_EQ(message.lease_returned().code(), 0);
  EXPECT_THAT(world_.log.EventsWith("push "), SizeIs(done));
}

TEST_F(TrainerTest, MessagesAfterStopAreOfNoEffect) {
  StartJob(FakeJob());
  trainer_->Stop();
  trainer_->Handle(RouteMessage(FakeJob(), 2));
  trainer_->Handle(LeaseMessage(1, 0, 1, 2));
  EXPECT_EQ(NextReturned().step(), 0);
}

TEST_F(TrainerTest, ForgottenJobIsDroppedWithoutAWord) {
  world_.on_pull = [](const FakePull& pull) {
    pull.wait_for_cancel();
    return absl::OkStatus();
  };
  StartJob(FakeJob());
  trainer_->Handle(LeaseMessage(1, 0, 2));
  world_.log.Await("pull newest");
  trainer_->Handle(ForgetMessage());
  world_.log.Await("model gone");
  EXPECT_TRUE(said_.empty());
}

TEST_F(TrainerTest, WorkOfAnEarlierSessionIsDropped) {
  bool first = true;
  world_.on_pull = [&first](const FakePull& pull) {
    if (std::exchange(first, false)) pull.wait_for_cancel();
    return absl::OkStatus();
  };
  StartJob(FakeJob());
  trainer_->Handle(LeaseMessage(1, 0, 2));
  world_.log.Await("pull newest");
  trainer_->DropWork();
  Route(RouteMessage(FakeJob(), 1));
  trainer_->Handle(LeaseMessage(2, 6, 7));
  const StepResult result = NextStep();
  EXPECT_EQ(result.lease_id(), 2);
  EXPECT_EQ(result.step(), 6);
  EXPECT_THAT(world_.log.EventsWith("make model"), SizeIs(1));
}

// It may have ended while this worker had no session.
TEST_F(TrainerTest, JobThatANewSessionDoesNotRouteIsForgotten) {
  SimulatedClock clock;
  clock_ = &clock;
  StartJob(FakeJob());
  CoordinatorMessage other = RouteMessage(FakeJob(), 1);
  other.mutable_set_route()->set_job_id("job-2");
  Route(other);
  trainer_->DropWork();
  Route(other);
  clock.Advance(absl::Minutes(2));
  world_.log.Await("model gone");
  Route(other);  // Goes on.
  EXPECT_THAT(world_.log.EventsWith("make model"), SizeIs(2));
  trainer_.reset();  // Before the clock.
}

TEST_F(TrainerTest, JobThatDoesNotBeginIsNotKeptOpen) {
  SimulatedClock clock;
  clock_ = &clock;
  Start();
  trainer_->Handle(PlanMessage(5, FakeJob()));
  said_.Next();
  clock.Advance(absl::Minutes(6));
  world_.log.Await("model gone");
  trainer_.reset();  // Before the clock.
}

TEST_F(TrainerTest, JobsDoNotWaitForEachOther) {
  world_.on_pull = [](const FakePull& pull) {
    if (pull.version == uint64_t{1}) pull.wait_for_cancel();
    return absl::OkStatus();
  };
  StartJob(FakeJob(/*replicas=*/2));
  trainer_->Handle(LeaseMessage(1, 2, 3));
  world_.log.Await("pull 1");
  CoordinatorMessage other = RouteMessage(FakeJob(), 1);
  other.mutable_set_route()->set_job_id("job-2");
  Route(other);
  CoordinatorMessage lease = LeaseMessage(2, 0, 1);
  lease.mutable_lease()->set_job_id("job-2");
  trainer_->Handle(lease);
  EXPECT_EQ(NextStep().job_id(), "job-2");
}

}  // namespace
}  // namespace millrace::worker
