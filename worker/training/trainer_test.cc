// What a trainer does with plans, routes, leases and their ends.
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
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
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

using TrainerTest = TrainerFixture;

// Where the system has but so many threads for jobs, until it has more.
class FewThreadsTest : public TrainerFixture {
 protected:
  FewThreadsTest() {
    clock_ = &simulated_clock_;
    start_thread_ = [this](std::function<void()> run) -> absl::StatusOr<std::thread> {
      if (threads_-- <= 0) return absl::ResourceExhaustedError("none can be started: no memory");
      return std::thread(std::move(run));
    };
  }
  ~FewThreadsTest() override { trainer_.reset(); }  // Before the clock.

  static CoordinatorMessage RouteOf(const std::string& job_id, uint64_t generation = 1) {
    CoordinatorMessage route = RouteMessage(FakeJob(), generation);
    route.mutable_set_route()->set_job_id(job_id);
    return route;
  }

  void ExpectNoThread(const CoordinatorMessage& route) {
    trainer_->Handle(route);
    const JobPrepared prepared = NextPrepared();
    EXPECT_EQ(prepared.job_id(), route.set_route().job_id());
    EXPECT_EQ(prepared.code(), Code(absl::StatusCode::kResourceExhausted));
    EXPECT_THAT(prepared.message(), HasSubstr("no thread left for the job"));
  }

  void ExpectStep(const std::string& job_id, uint64_t step) {
    CoordinatorMessage lease = LeaseMessage(/*lease_id=*/1, step, step + 1);
    lease.mutable_lease()->set_job_id(job_id);
    trainer_->Handle(lease);
    const StepResult result = NextStep();
    EXPECT_EQ(result.job_id(), job_id);
    EXPECT_EQ(result.step(), step);
  }

  // Lets time pass until something is said: that the worker can run this job.
  void ExpectPreparedLater(const std::string& job_id) {
    const absl::Time deadline = Clock::Real()->Now() + absl::Minutes(1);
    while (said_.empty()) {
      ASSERT_LT(Clock::Real()->Now(), deadline);
      simulated_clock_.Advance(absl::Seconds(1));
      std::this_thread::yield();
    }
    const JobPrepared prepared = NextPrepared();
    EXPECT_EQ(prepared.job_id(), job_id);
    EXPECT_EQ(prepared.code(), 0) << prepared.message();
  }

  // Lets time pass until a thread was asked for, of which there is none.
  void LetItTryInVain() {
    const absl::Time deadline = Clock::Real()->Now() + absl::Minutes(1);
    for (const int before = threads_ = 0; threads_ == before; std::this_thread::yield()) {
      ASSERT_LT(Clock::Real()->Now(), deadline);
      simulated_clock_.Advance(absl::Seconds(1));
    }
  }

  SimulatedClock simulated_clock_;
  std::atomic<int> threads_{0};
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

// A file system that did not answer once ended all planning on its worker.
TEST_F(TrainerTest, DataThatDoesNotOpenDoesNotHoldUpThePlansOfOtherJobs) {
  SimulatedClock clock;
  clock_ = &clock;
  std::promise<void> answers;
  std::shared_future<void> answer = answers.get_future().share();
  std::atomic<bool> hangs{true};
  world_.on_open = [&](const std::string& /*field*/) {
    if (hangs.exchange(false)) {
      world_.log.Add("hangs");
      answer.wait_for(std::chrono::minutes(1));
    }
    return absl::OkStatus();
  };
  Start();
  trainer_->Handle(PlanMessage(1, FakeJob()));
  world_.log.Await("hangs");
  trainer_->Handle(PlanMessage(2, FakeJob()));
  JobSpec other = FakeJob();
  other.set_seed(8);
  trainer_->Handle(PlanMessage(3, other));
  clock.Advance(Background::kPatience);
  EXPECT_EQ(said_.Next().plan_result().request_id(), 3);
  answers.set_value();
  // Asked twice and opened once.
  EXPECT_EQ(said_.Next().plan_result().request_id(), 1);
  EXPECT_EQ(said_.Next().plan_result().request_id(), 2);
  EXPECT_THAT(world_.log.EventsWith("open data.train"), SizeIs(2));
  trainer_.reset();  // Before the clock.
}

// The plan of the one job was taken for that of another, whose request had its number.
TEST_F(TrainerTest, PlansThatACoordinatorAskedForInItsLifeBeforeAreNotAnswered) {
  std::promise<void> answers;
  std::shared_future<void> answer = answers.get_future().share();
  world_.on_open = [&](const std::string& /*field*/) {
    world_.log.Add("hangs");
    answer.wait_for(std::chrono::minutes(1));
    return absl::OkStatus();
  };
  Start();
  trainer_->Handle(PlanMessage(1, FakeJob()));
  world_.log.Await("hangs");
  trainer_->DropWork();
  trainer_->Handle(PlanMessage(2, FakeJob()));
  answers.set_value();
  EXPECT_EQ(said_.Next().plan_result().request_id(), 2);
  EXPECT_THAT(world_.log.EventsWith("open data.train"), SizeIs(1));
  trainer_.reset();  // It uses `answer`.
}

TEST_F(TrainerTest, PlansOfTooManyJobsAreLeftToOtherWorkers) {
  std::promise<void> answers;
  std::shared_future<void> answer = answers.get_future().share();
  world_.on_open = [&](const std::string& /*field*/) {
    answer.wait_for(std::chrono::minutes(1));
    return absl::OkStatus();
  };
  Start();
  JobSpec spec = FakeJob();
  for (int i = 1; i <= 17; ++i) {
    spec.set_seed(i);
    trainer_->Handle(PlanMessage(i, spec));
  }
  const PlanResult refused = said_.Next().plan_result();
  EXPECT_EQ(refused.request_id(), 17);
  EXPECT_EQ(refused.code(), Code(absl::StatusCode::kUnavailable));
  EXPECT_THAT(refused.message(), HasSubstr("has not opened the data of 16 other jobs yet"));
  answers.set_value();
  EXPECT_EQ(said_.Next().plan_result().code(), 0);
  trainer_.reset();  // It goes on to use `answer`.
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
  trainer_->Handle(ForgetMessage());
  Route(RouteMessage(FakeJob(), 1));
  EXPECT_THAT(world_.log.EventsWith("make model"), SizeIs(2)) << "the first one is the job's";
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
  trainer_->Handle(LeaseMessage(1, 2, 3));
  EXPECT_EQ(NextStep().step(), 2);
  Route(RouteMessage(FakeJob(), 1));
  trainer_->DropWork();
  Route(RouteMessage(FakeJob(), 1));
  EXPECT_THAT(world_.log.EventsWith("cancel "), IsEmpty()) << "its pushes go on";
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
  world_.on_open = [out_of_memory = true](const std::string&) mutable -> absl::Status {
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

// The worker was gone, with the steps of all its jobs; started again, it was told of the same ones.
TEST_F(FewThreadsTest, JobForWhichThereIsNoThreadIsRefusedAndPreparedLater) {
  Start();
  // A job has three: its own, one for its pushes, and one for its batches.
  for (const int left : {0, 1, 2}) {
    SCOPED_TRACE(left);
    const std::string other = absl::StrCat("other-", left);
    const std::string late = absl::StrCat("late-", left);
    threads_ = 3;
    Route(RouteOf(other));
    threads_ = left;
    ExpectNoThread(RouteOf(late));
    threads_ = 0;
    ExpectNoThread(RouteOf(late));  // Each route has its answer.
    ExpectStep(other, 3);
    for (int i = 0; i < 2; ++i) LetItTryInVain();
    threads_ = 1000;
    ExpectPreparedLater(late);
    ExpectStep(late, 5);
    ExpectStep(other, 4);
  }
}

TEST_F(FewThreadsTest, WorkOfAJobThatHasNoThreadForItsPushesIsReturned) {
  threads_ = 1;
  Start();
  ExpectNoThread(RouteOf("job-1"));
  trainer_->Handle(LeaseMessage(1, 2, 4));
  const LeaseReturned returned = NextReturned();
  EXPECT_EQ(returned.step(), 2);
  EXPECT_EQ(returned.code(), Code(absl::StatusCode::kUnavailable));
  EXPECT_THAT(returned.message(), HasSubstr("no thread left for the job"));
}

TEST_F(FewThreadsTest, NewerRouteTakesThePlaceOfOneForWhichThereWasNoThread) {
  Start();
  ExpectNoThread(RouteOf("job-1", /*generation=*/1));
  ExpectNoThread(RouteOf("other"));
  threads_ = 1000;
  Route(RouteOf("job-1", /*generation=*/2));
  ExpectPreparedLater("other");
  trainer_->Handle(LeaseMessage(1, 5, 6, /*generation=*/2));
  EXPECT_EQ(NextStep().step(), 5);
  EXPECT_THAT(world_.log.EventsWith("make model"), SizeIs(2));
}

TEST_F(FewThreadsTest, JobIsNotStartedLaterWhenNobodyWantsItAnyMore) {
  Start();
  ExpectNoThread(RouteOf("of the session before"));
  trainer_->DropWork();
  ExpectNoThread(RouteOf("job-1"));
  trainer_->Handle(ForgetMessage());
  ExpectNoThread(RouteOf("wanted"));
  threads_ = 1000;
  ExpectPreparedLater("wanted");
  EXPECT_THAT(world_.log.EventsWith("make model"), SizeIs(1));
}

// Destroying it may take half a minute, in which the coordinator heard nothing of the worker.
TEST_F(TrainerTest, ClientOfAnOldRouteIsNotDestroyedByWhoTellsOfTheNewOne) {
  std::promise<std::thread::id> gone;
  std::future<std::thread::id> gone_in = gone.get_future();
  world_.on_cancel = [this](uint64_t generation) {
    if (generation != 1) return;
    trainer_->Handle(LeaseMessage(2, 5, 6, /*generation=*/2));
    world_.log.Await("client 2");  // The job's thread has no use for the old one any more.
  };
  world_.on_client_gone = [&gone](uint64_t generation) {
    if (generation == 1) gone.set_value(std::this_thread::get_id());
  };
  StartJob(FakeJob());
  trainer_->Handle(LeaseMessage(1, 0, 1));
  EXPECT_EQ(NextStep().step(), 0);
  Route(RouteMessage(FakeJob(), /*generation=*/2));
  EXPECT_EQ(NextStep().step(), 5);
  ASSERT_EQ(gone_in.wait_for(std::chrono::minutes(1)), std::future_status::ready);
  EXPECT_NE(gone_in.get(), std::this_thread::get_id());
  trainer_.reset();  // It uses `gone`.
}

TEST_F(TrainerTest, WorkOfAJobWithoutARouteIsReturned) {
  Start();
  trainer_->Handle(LeaseMessage(3, 5, 6));
  const LeaseReturned returned = NextReturned();
  EXPECT_EQ(returned.lease_id(), 3);
  EXPECT_EQ(returned.step(), 5);
  EXPECT_EQ(returned.code(), Code(absl::StatusCode::kFailedPrecondition));
  trainer_->Handle(EvaluateMessage(1, "cut-1"));
  EXPECT_EQ(NextEvaluation().code(), Code(absl::StatusCode::kFailedPrecondition));
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

TEST_F(TrainerTest, WorkOfAnOlderGenerationIsDropped) {
  Start();
  Route(RouteMessage(FakeJob(), /*generation=*/1));
  Route(RouteMessage(FakeJob(), /*generation=*/2));
  trainer_->Handle(LeaseMessage(1, 0, 1, /*generation=*/1));
  trainer_->Handle(EvaluateMessage(1, "cut-1", /*generation=*/1));
  trainer_->Handle(LeaseMessage(2, 5, 6, /*generation=*/2));
  EXPECT_EQ(NextStep().lease_id(), 2);
  EXPECT_THAT(world_.log.EventsWith("train "), ElementsAre("train 5"));
  EXPECT_THAT(world_.log.EventsWith("client "), ElementsAre("client 2"));
}

// Its steps may be with another worker by then.
TEST_F(TrainerTest, LeaseThatIsNotBegunInTimeGoesBack) {
  SimulatedClock clock;
  clock_ = &clock;
  world_.on_train = [this, &clock](const Batch& batch) {
    if (batch.features[0].floats[0] > 0) return absl::OkStatus();
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
  trainer_.reset();  // It uses `stop`.
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
  world_.on_pull = [first = true](const FakePull& pull) mutable {
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

TEST_F(TrainerTest, JobThatDoesNotBeginIsNotKeptOpen) {
  SimulatedClock clock;
  clock_ = &clock;
  Start();
  trainer_->Handle(PlanMessage(5, FakeJob()));
  said_.Next();
  clock.Advance(absl::Minutes(6));
  world_.log.Await("model gone");
  Route(RouteMessage(FakeJob(), 1));
  EXPECT_THAT(world_.log.EventsWith("make model"), SizeIs(2));
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
