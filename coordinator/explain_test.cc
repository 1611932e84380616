// A real coordinator on loopback with fake members that are at fault: each time the verdict names
// the culprit. With all facts made up see coordinator/explain/explain_test.cc.
#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/proto_duration.h"
#include "coordinator/remake_fixture.h"
#include "coordinator/testing/fake_cluster.h"
#include "coordinator/testing/gate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/faults/fault_file_system.h"

namespace millrace::coordinator {
namespace {

using ::testing::HasSubstr;

// Time stands still unless a test moves it: nothing is late by chance.
class FaultTest : public ::testing::Test {
 protected:
  FaultTest() { options_.clock = &clock_; }

  void Start(int ps) { cluster_ = std::make_unique<FakeCluster>(ps, options_); }

  // One server, whose shard's pins others have in the first generation, and a worker.
  void StartWithPinsOfStrangers() {
    Start(1);
    cluster_->ps(0).set_on_generation([this] {
      ++generations_;
      return grpc::Status::OK;
    });
    cluster_->ps(0).set_on_pin([this] {
      return generations_ > 1 ? grpc::Status::OK
                              : grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                                             "4 cuts of shard 0 are pinned; unpin one first");
    });
    cluster_->StartPs();
    cluster_->AddWorker();
  }

  // A job of one server and one worker, which stands before the gate at `step`.
  std::string StandAt(uint64_t step, const JobSpec& spec = PlainJob(20)) {
    Start(1);
    cluster_->StartPs();
    cluster_->AddWorker(WaitingAt(step, &gate_));
    const std::string job = cluster_->Submit(spec).value();
    gate_.AwaitSomebody();
    AwaitStepsDone(job, step);
    return job;
  }

  // Until the coordinator has heard of so many: what it hears after the clock was moved is news.
  void AwaitStepsDone(const std::string& job, uint64_t steps) {
    const absl::Time deadline = Clock::Real()->Now() + absl::Seconds(30);
    for (;;) {
      const JobExplanation told = cluster_->Explain(job).value();
      if (told.workers_size() > 0 && told.workers(0).steps_done() >= steps) return;
      ASSERT_LT(Clock::Real()->Now(), deadline) << told.DebugString();
    }
  }

  // Moves the clock on until what is told of the job is as wanted: a move in the midst of the
  // coordinator's look at the job may count as training, the next one does not.
  void AdvanceUntil(const std::string& job,
                    const std::function<bool(const JobExplanation&)>& is_wanted) {
    constexpr int kMostMoves = 15;
    for (int moves = 0; moves < kMostMoves; ++moves) {
      clock_.Advance(absl::Seconds(40));
      const absl::Time enough = Clock::Real()->Now() + absl::Seconds(2);
      do {
        if (is_wanted(cluster_->Explain(job).value())) return;
      } while (Clock::Real()->Now() < enough);
    }
    FAIL() << cluster_->Explain(job)->DebugString();
  }

  // The same until it is said to have waited for `whom` for half a minute.
  void AdvanceUntilWaitedFor(const std::string& whom, const std::string& job) {
    AdvanceUntil(job, [&](const JobExplanation& told) {
      return TimeWaitedFor(whom, told.status().time_spent()) >= absl::Seconds(30);
    });
  }

  static absl::Duration TimeWaitedFor(const std::string& whom, const TimeSpent& spent) {
    absl::Duration time;
    for (const WaitedFor& waited : spent.waiting()) {
      if (waited.whom() == whom) time += FromProto(waited.time());
    }
    return time;
  }

  static Activity ActivityOf(const std::string& job, Activity::Kind kind, uint64_t step,
                             uint32_t shard) {
    Activity activity;
    activity.set_job_id(job);
    activity.set_kind(kind);
    activity.set_step(step);
    activity.set_shard(shard);
    *activity.mutable_since() = ToProto(absl::Seconds(2));
    return activity;
  }

  SimulatedClock clock_{absl::UnixEpoch() + absl::Hours(1)};
  CoordinatorOptions options_;
  Gate gate_;  // Opened before its worker ends.
  std::atomic<int> generations_{0};
  std::unique_ptr<FakeCluster> cluster_;
};

TEST_F(FaultTest, NoneWhileAJobGetsOn) {
  const std::string job = StandAt(3);
  cluster_->AwaitVerdict(job, "nobody keeps it waiting");
  gate_.Open();
  EXPECT_EQ(cluster_->AwaitEnd(job).state(), SUCCEEDED);
  EXPECT_EQ(cluster_->Explain(job)->verdict(), "the job has ended: SUCCEEDED");
  EXPECT_TRUE(absl::IsNotFound(cluster_->Explain("none").status()));
}

TEST_F(FaultTest, WorkerThatHasStopped) {
  const std::string job = StandAt(3);
  clock_.Advance(absl::Seconds(34));
  const JobExplanation told = cluster_->AwaitVerdict(job, "worker-0 has had step 3 for 34 s");
  EXPECT_EQ(told.waits(0).whom(), "worker-0");
  gate_.Open();
}

TEST_F(FaultTest, WorkerThatDoesNotComeToItsFirstStep) {
  const std::string job = StandAt(0);
  clock_.Advance(absl::Seconds(5));
  cluster_->AwaitVerdict(job, "worker-0 has had step 0 for 5 s");
  gate_.Open();
}

TEST_F(FaultTest, WorkerThatDoesNotRegister) {
  Start(1);
  cluster_->StartPs();
  cluster_->AwaitVerdict(cluster_->Submit(PlainJob(5)).value(),
                         "waits for a worker (none is connected)");
}

TEST_F(FaultTest, OnlyWorkerThatDied) {
  const std::string job = StandAt(3, PlainJob(1'000'000'000));
  gate_.Open();
  cluster_->worker(0).Kill();
  cluster_->AwaitVerdict(job, "worker-0 is gone");
}

// Jobs were said to get on without workers that they had never had.
TEST_F(FaultTest, WorkerThatWasGoneBeforeTheJobBeganIsNotNamed) {
  const std::string before = StandAt(3, PlainJob(1'000'000'000));
  gate_.Open();
  cluster_->worker(0).Kill();
  cluster_->AwaitVerdict(before, "worker-0 is gone");
  ASSERT_TRUE(cluster_->Cancel(before).ok());
  clock_.Advance(absl::Seconds(5));
  cluster_->AddWorker();
  const std::string job = cluster_->Submit(PlainJob(1'000'000'000)).value();
  const JobExplanation told = cluster_->AwaitVerdict(job, "nobody keeps it waiting");
  ASSERT_EQ(told.workers_size(), 1);
  EXPECT_EQ(told.workers(0).name(), "worker-1");
  EXPECT_EQ(cluster_->Cancel(job)->state(), CANCELLED);
}

TEST_F(FaultTest, DataThatOneWorkerCannotRead) {
  const std::string job = StandAt(3);
  FakeWorkerScript blind;
  blind.prepare = [](const SetRoute&) {
    return absl::NotFoundError("data.train: /data/train: no such file");
  };
  cluster_->AddWorker(blind);
  cluster_->AwaitVerdict(
      job, "gets on; worker-1 cannot run the job: data.train: /data/train: no such file");
  gate_.Open();
}

TEST_F(FaultTest, DataThatNoWorkerCanRead) {
  Start(1);
  cluster_->StartPs();
  FakeWorkerScript blind;
  blind.prepare = [](const SetRoute&) {
    return absl::NotFoundError("data.train: /data/train: no such file");
  };
  cluster_->AddWorker(blind);
  cluster_->AwaitVerdict(cluster_->Submit(PlainJob(5)).value(),
                         "worker-0: data.train: /data/train: no such file");
}

TEST_F(FaultTest, WorkerThatOpensTheDataForLong) {
  Start(1);
  cluster_->StartPs();
  FakeWorkerScript slow;
  slow.prepare = [this](const SetRoute&) {
    gate_.Pass();
    return absl::OkStatus();
  };
  cluster_->AddWorker(slow);
  const std::string job = cluster_->Submit(PlainJob(5)).value();
  cluster_->AwaitVerdict(job, "worker-0 has not answered yet whether it can run the job");
  cluster_->worker(0).Tell(ActivityOf(job, Activity::PREPARING, 0, 0));
  cluster_->AwaitVerdict(job, "worker-0 opens the data and compiles the model for ");
  gate_.Open();
  EXPECT_EQ(cluster_->AwaitEnd(job).state(), SUCCEEDED);
}

TEST_F(FaultTest, ServerThatIsGone) {
  const std::string job = StandAt(3);
  cluster_->ps(0).Kill();
  const JobExplanation told = cluster_->AwaitVerdict(job, "waits for ps-0 (");
  EXPECT_THAT(told.verdict(), HasSubstr("gone"));
  EXPECT_THAT(told.shards(0).trouble(), HasSubstr("is gone"));
  gate_.Open();
}

TEST_F(FaultTest, ServerThatDoesNotAnswer) {
  Start(1);
  std::atomic<bool> silent{false};
  cluster_->ps(0).set_on_get([&] {
    if (silent) gate_.Pass();
    return grpc::Status::OK;
  });
  cluster_->StartPs();
  Gate step;
  cluster_->AddWorker(WaitingAt(3, &step));
  const std::string job = cluster_->Submit(PlainJob(20)).value();
  step.AwaitSomebody();
  silent = true;
  clock_.Advance(absl::Seconds(1));  // Its shard is asked again.
  gate_.AwaitSomebody();
  AdvanceUntil(job, [](const JobExplanation& told) {
    return absl::StrContains(told.verdict(), "ps-0, which has shard 0, does not answer for ");
  });
  // The worker that has a step is not who keeps the job waiting.
  AdvanceUntilWaitedFor("ps-0", job);
  AdvanceUntil(job, [](const JobExplanation& told) {
    return absl::StrContains(told.status().message(), "which has shard 0 and does not answer");
  });
  step.Open();
  gate_.Open();
  // What passed until the step was late counts as training.
  const TimeSpent spent = cluster_->AwaitEnd(job).time_spent();
  EXPECT_GE(TimeWaitedFor("ps-0", spent), absl::Seconds(30));
  cluster_.reset();  // It uses `step` and `silent`.
}

// The job waited for ever for those who had pinned the states, and were gone.
TEST_F(FaultTest, PinsThatNobodyLetsGoOfEndWithTheGeneration) {
  StartWithPinsOfStrangers();
  const std::string job = cluster_->Submit(EvaluatedJob(20, 10)).value();
  AdvanceUntil(job, [](const JobExplanation& told) {
    return told.verdict() == "the job has ended: SUCCEEDED";
  });
  cluster_->ExpectAllApplied(job, 20);
  EXPECT_GT(generations_, 1);
}

// None was taken any more.
TEST_F(FaultTest, PinsThatKeepCheckpointsFromBeingTakenEndWithTheGeneration) {
  StartWithPinsOfStrangers();
  JobSpec spec = JobWithCheckpoints(1'000'000'000);
  spec.mutable_checkpoints()->set_exact(true);
  spec.mutable_checkpoints()->set_every_steps(5);
  const std::string job = cluster_->Submit(spec).value();
  AdvanceUntil(job, [](const JobExplanation& told) { return told.status().has_checkpoint(); });
  EXPECT_EQ(cluster_->Cancel(job)->state(), CANCELLED);
}

TEST_F(FaultTest, ServerWhoseDiskIsFull) {
  Start(1);
  cluster_->ps(0).set_trouble("cuts cannot be written: no space on the disk");
  cluster_->StartPs();
  cluster_->AddWorker(WaitingAt(3, &gate_));
  const std::string job = cluster_->Submit(PlainJob(20)).value();
  cluster_->AwaitVerdict(job, "gets on; ps-0: cuts cannot be written: no space on the disk");
  gate_.Open();
}

TEST_F(FaultTest, LastCutThatCannotBeWritten) {
  Start(1);
  std::atomic<bool> full{true};
  cluster_->ps(0).set_on_flush([&] {
    return full ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "no space on the disk")
                : grpc::Status::OK;
  });
  cluster_->StartPs();
  cluster_->AddWorker();
  const std::string job = cluster_->Submit(PlainJob(5)).value();
  const JobExplanation told = cluster_->AwaitVerdict(job, "no space on the disk");
  EXPECT_THAT(told.verdict(), HasSubstr("waits for ps-0 ("));
  full = false;
  clock_.Advance(absl::Seconds(5));
  EXPECT_EQ(cluster_->AwaitEnd(job).state(), SUCCEEDED);
  cluster_.reset();  // It uses `full`.
}

TEST_F(FaultTest, PullThatDoesNotEnd) {
  const std::string job = StandAt(3);
  clock_.Advance(absl::Seconds(34));
  cluster_->worker(0).Tell(ActivityOf(job, Activity::PULLING, 3, 0));
  cluster_->AwaitVerdict(job,
                         "worker-0 has had step 3 for 34 s; it has been pulling the values of "
                         "shard 0 from ps-0 for 2 s");
  gate_.Open();
}

TEST_F(FaultTest, PushThroughABlockedPort) {
  const std::string job = StandAt(3);
  clock_.Advance(absl::Seconds(34));
  cluster_->worker(0).Tell(ActivityOf(job, Activity::PUSHING, 3, 0));
  cluster_->AwaitVerdict(job,
                         "it has been pushing step 3 to shard 0 on ps-0 for 2 s, which answers "
                         "the coordinator: see what is between them");
  gate_.Open();
}

TEST_F(FaultTest, TooFewServersAtTheStart) {
  Start(2);
  cluster_->AddWorker();
  cluster_->ps(0).Start(cluster_->address());
  cluster_->AwaitVerdict(cluster_->Submit(PlainJob(5)).value(), "2 ps servers (1 is connected)");
}

TEST_F(FaultTest, JournalThatCannotBeWritten) {
  const auto files = std::make_shared<::millrace::testing::FaultFileSystem>();
  options_.file_system = files;
  Start(1);
  cluster_->AddWorker();
  const std::string job = cluster_->Submit(PlainJob(5)).value();
  files->Arm(0, ::millrace::testing::Fault::kFull);
  cluster_->StartPs();
  cluster_->AwaitVerdict(job, "waits for the coordinator's journal (it cannot be written: ");
  files->Heal();
  clock_.Advance(absl::Seconds(5));
}

TEST_F(FaultTest, JobThatWaitsForItsTurn) {
  options_.max_running_jobs = 1;
  const std::string first = StandAt(3);
  const std::string second = cluster_->Submit(PlainJob(5)).value();
  cluster_->AwaitVerdict(second, "the job waits for its turn (0 jobs before it");
  gate_.Open();
}

TEST_F(FaultTest, ServerWithoutMemory) {
  Start(1);
  cluster_->ps(0).set_on_create([](const std::string&) {
    return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "not enough memory");
  });
  cluster_->StartPs();
  cluster_->AddWorker();
  const std::string job = cluster_->Submit(PlainJob(5)).value();
  const JobExplanation told = cluster_->AwaitVerdict(job, "not enough memory");
  EXPECT_THAT(told.verdict(), HasSubstr("waits for ps-0 ("));
}

TEST_F(FaultTest, EvaluationOnAStoppedWorker) {
  Start(1);
  cluster_->StartPs();
  cluster_->AddWorker(WaitingAtEvaluation(&gate_));
  const std::string job = cluster_->Submit(EvaluatedJob(5, 0)).value();
  gate_.AwaitSomebody();
  clock_.Advance(absl::Seconds(12));
  cluster_->AwaitVerdict(job, "worker-0 has been evaluating the model for 12 s");
  gate_.Open();
}

TEST_F(FaultTest, SlowWorker) {
  Start(1);
  cluster_->StartPs();
  FakeWorkerScript slow;
  slow.compute_seconds = [](uint64_t) { return 2.5; };
  cluster_->AddWorker(slow);
  FakeWorkerScript quick;
  quick.compute_seconds = [](uint64_t) { return 1.0; };
  cluster_->AddWorker(quick);
  const std::string job = cluster_->Submit(PlainJob(1'000'000'000)).value();
  cluster_->AwaitVerdict(job,
                         "the slowest worker is worker-0, whose steps take 2.5 times the median");
  EXPECT_EQ(cluster_->Cancel(job)->state(), CANCELLED);
}

TEST_F(FaultTest, WorkerThatLies) {
  options_.clock = Clock::Real();
  Start(1);
  cluster_->StartPs();
  cluster_->AddWorker();
  FakeWorkerScript liar;
  liar.lies = [](const std::string&, uint64_t step) { return step % 10 == 0; };
  cluster_->AddWorker(liar);
  const std::string job = cluster_->Submit(PlainJob(1'000'000'000)).value();
  cluster_->AwaitVerdict(job,
                         "worker-1 cannot run the job: it reported steps that shards have not");
  EXPECT_EQ(cluster_->Cancel(job)->state(), CANCELLED);
}

TEST_F(FaultTest, WorkerThatGivesAllStepsBack) {
  Start(1);
  cluster_->StartPs();
  FakeWorkerScript cut_off;
  cut_off.on_step = [](const std::string&, uint64_t) {
    return absl::UnavailableError("no answer in time from ps-0");
  };
  cluster_->AddWorker(cut_off);
  const std::string job = cluster_->Submit(PlainJob(5)).value();
  const JobExplanation told = cluster_->AwaitVerdict(job, "worker-0 gives steps back undone");
  EXPECT_THAT(told.verdict(), HasSubstr("no answer in time from ps-0"));
}

TEST_F(FaultTest, ServerThatDoesNotComeBackToARestartedCoordinator) {
  const std::string job = StandAt(3);
  cluster_->StopCoordinator();
  cluster_->StartCoordinator();
  const JobExplanation told = cluster_->AwaitVerdict(job, "waits for ps-0 (");
  EXPECT_THAT(told.recent(0).notice().message(), HasSubstr("coordinator was started again"));
  gate_.Open();
}

TEST_F(FaultTest, TimeOfAJobAddsUpAndNamesForWhomItWaited) {
  const std::string job = StandAt(0);
  const absl::Time before = clock_.Now();
  AdvanceUntilWaitedFor("worker-0", job);
  cluster_->AwaitNotice(job, "waits for worker-0, which has step 0, for ");
  gate_.Open();
  const JobStatus status = cluster_->AwaitEnd(job);
  EXPECT_EQ(status.state(), SUCCEEDED);
  const TimeSpent& spent = status.time_spent();
  EXPECT_EQ(FromProto(spent.wall()), clock_.Now() - before);
  absl::Duration sum = FromProto(spent.training()) + FromProto(spent.running_again()) +
                       FromProto(spent.recovering()) + FromProto(spent.evaluating()) +
                       FromProto(spent.checkpointing());
  for (const WaitedFor& waited : spent.waiting()) sum += FromProto(waited.time());
  EXPECT_EQ(sum, FromProto(spent.wall()));
  EXPECT_GE(TimeWaitedFor("worker-0", spent), absl::Seconds(30));
}

}  // namespace
}  // namespace millrace::coordinator
