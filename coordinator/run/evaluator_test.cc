#include "coordinator/run/evaluator.h"

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "coordinator/membership/silent_link.h"
#include "coordinator/testing/fake_ps.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kEvaluatedJob[] = "j-1";
constexpr uint64_t kEvaluations = 7;

class SilentOutbox final : public Outbox {
 public:
  void Send(uint64_t /*member*/, const CoordinatorMessage& /*message*/) override {}
};

// A job with one shard, on a server of its own, that is evaluated after each step. The test's
// workers are ready for it.
class EvaluatorTest : public testing::Test {
 protected:
  void SetUp() override {
    ps_.Serve();
    RegisterPs ps;
    ps.set_name("ps-0");
    ps.set_directory_id(ps_.directory_id());
    ps.set_address(ps_.address());
    ASSERT_TRUE(registry_.AddPs(ps, std::make_shared<SilentLink>()).ok());
    shards_ = std::make_unique<ShardGroup>(Record(), &registry_);
    ASSERT_EQ(shards_->Locate(), "");
    ASSERT_TRUE(shards_->Bring(kGeneration, /*all=*/true).ok());
    evaluator_ = std::make_unique<Evaluator>(Evaluator::Options{.job_id = kEvaluatedJob,
                                                                .spec = Record().spec(),
                                                                .total_steps = kEvaluations,
                                                                .clock = &clock_},
                                             shards_.get(), &dispatcher_);
    SetRoute route;
    route.set_job_id(kEvaluatedJob);
    route.mutable_routing()->set_generation(kGeneration);
    dispatcher_.Start({.total_steps = kEvaluations}, route, AppliedSet(), kEvaluations);
  }

  void AddWorkers(int count) {
    std::vector<WorkerCapacity> capacities;
    for (int i = 0; i < count; ++i) {
      RegisterWorker worker;
      worker.set_name(absl::StrCat("worker-", i));
      worker.set_lease_slots(1);
      workers_.push_back(registry_.AddWorker(worker, std::make_shared<SilentLink>()).value());
      capacities.push_back({workers_.back(), 1, worker.name()});
    }
    dispatcher_.SetWorkers(capacities);
    JobPrepared prepared;
    prepared.set_job_id(kEvaluatedJob);
    for (const uint64_t worker : workers_) dispatcher_.SetPrepared(worker, prepared);
  }

  // It gets nothing of the job any more.
  void Refuse(uint64_t worker) {
    JobPrepared refusal;
    refusal.set_job_id(kEvaluatedJob);
    refusal.set_code(static_cast<int>(absl::StatusCode::kFailedPrecondition));
    refusal.set_message("it reported what is not so");
    dispatcher_.SetPrepared(worker, refusal);
  }

  // The state after the next step is to be evaluated.
  void Begin(bool may_be_last = false) {
    ASSERT_TRUE(ps_.Push(kEvaluatedJob, 0, kGeneration, step_++).ok());
    const auto pinned = evaluator_->Begin(step_, kGeneration, may_be_last);
    ASSERT_TRUE(pinned.ok()) << pinned.status();
    ASSERT_TRUE(evaluator_->under_way());
    ++evaluation_;
  }

  // The workers that have it to do.
  std::vector<uint64_t> Asked() {
    std::vector<uint64_t> asked;
    for (const uint64_t worker : workers_) {
      if (IsAsked(worker)) asked.push_back(worker);
    }
    return asked;
  }
  bool IsAsked(uint64_t worker) {
    return dispatcher_.HasEvaluation(worker, kEvaluatedJob, EvaluationId());
  }

  void Unpin(const std::string& cut_id) {
    EXPECT_TRUE(shards_->UnpinCut(kGeneration, cut_id).ok());
  }
  ShardGroup* shards() { return shards_.get(); }
  FakePs& ps() { return ps_; }
  absl::optional<uint64_t> PinnedSteps(const std::string& cut_id) {
    return ps_.PinnedSteps(kEvaluatedJob, 0, cut_id);
  }

  // The evaluation fails ten times; then the shards are asked. Returns what is gone.
  std::string FailUntilLook() {
    for (int i = 0; i < 10; ++i) {
      EXPECT_EQ(evaluator_->LookAtPins(), absl::nullopt) << "after " << i << " failures";
      Answer(workers_[0], absl::StatusCode::kUnavailable);
      clock_.Advance(absl::Seconds(2));
      CheckWorker();
    }
    return evaluator_->LookAtPins().value_or("");
  }

  // What people are told.
  std::string CheckWorker() { return evaluator_->CheckWorker(registry_.Workers()); }

  // Its answer is not heard where it was not asked, as in JobRunner.
  void Answer(uint64_t worker, absl::StatusCode code = absl::StatusCode::kOk) {
    dispatcher_.SetAnswersEvaluations(worker, true);
    if (!IsAsked(worker)) return;
    EvaluationReport report{worker, {}, "worker-x"};
    report.result.set_job_id(kEvaluatedJob);
    report.result.set_evaluation_id(EvaluationId());
    report.result.set_code(static_cast<int>(code));
    (*report.result.mutable_metrics())["loss"] = 0.5;
    ConfusionMatrix* matrix = report.result.add_confusion_matrices();
    matrix->set_classes(1);
    matrix->add_counts(3);
    const auto evaluated = evaluator_->OnResult(report);
    EXPECT_TRUE(evaluated.ok()) << evaluated.status();
    if (!evaluated.ok() || !evaluated->has_value()) return;
    told_ = **evaluated;
    evaluator_->End();
  }

  SimulatedClock clock_;
  std::unique_ptr<Evaluator> evaluator_;
  std::vector<uint64_t> workers_;
  Evaluated told_;  // The newest.

  static constexpr uint64_t kGeneration = 1;
  uint64_t EvaluationId() const { return kGeneration << 32 | evaluation_; }

 private:
  JobRecord Record() const {
    JobRecord record;
    record.set_job_id(kEvaluatedJob);
    record.mutable_spec()->mutable_data()->mutable_evaluate();
    record.mutable_spec()->mutable_evaluation()->set_every_steps(1);
    record.set_total_steps(kEvaluations);
    record.add_shards()->set_directory_id(ps_.directory_id());
    return record;
  }

  FakePs ps_{"ps-0"};
  SilentOutbox outbox_;
  MemberRegistry registry_{absl::Hours(1), &clock_};
  Dispatcher dispatcher_{&outbox_, {.clock = &clock_}};
  std::unique_ptr<ShardGroup> shards_;
  uint64_t step_ = 0;
  uint64_t evaluation_ = 0;
};

TEST_F(EvaluatorTest, WhatComesLateForOneEvaluationDoesNotTakeThePinsOfLaterOnes) {
  AddWorkers(1);
  Begin();
  const std::string first = evaluator_->cut_id();
  Answer(workers_[0]);
  EXPECT_FALSE(PinnedSteps(first));
  for (const uint64_t steps : {2, 3}) {
    Begin();
    Unpin(first);
    EXPECT_EQ(PinnedSteps(evaluator_->cut_id()), steps);
    Answer(workers_[0]);
  }
}

// A try that could not unpin it had taken another name, and the next one did not know the first.
TEST_F(EvaluatorTest, WhatATryPinnedGoesBeforeTheNext) {
  AddWorkers(1);
  EXPECT_EQ(evaluator_->Begin(/*step=*/1, kGeneration)->state, BarrierState::kMissing);
  EXPECT_TRUE(PinnedSteps("evaluation-1"));
  ps().set_on_unpin([failures = 2]() mutable {
    return failures-- > 0 ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "") : grpc::Status::OK;
  });
  EXPECT_FALSE(evaluator_->Begin(/*step=*/1, kGeneration).ok());
  EXPECT_FALSE(evaluator_->Begin(/*step=*/1, kGeneration).ok());
  Begin();
  EXPECT_FALSE(PinnedSteps("evaluation-1"));
  EXPECT_EQ(PinnedSteps(evaluator_->cut_id()), 1u);
}

TEST_F(EvaluatorTest, CallToPinThatComesAfterItsEvaluationLeavesNothingForLong) {
  AddWorkers(1);
  Begin();
  const std::string first = evaluator_->cut_id();
  Answer(workers_[0]);
  Begin();
  EXPECT_TRUE(shards()->PinCut(kGeneration, first).ok());
  Answer(workers_[0]);
  Begin();
  EXPECT_FALSE(PinnedSteps(first));
}

// Or the job waits for an evaluation of which nobody has the state.
TEST_F(EvaluatorTest, WhatSomebodyUnpinnedIsPinnedAgainOrFoundToBeGone) {
  AddWorkers(1);
  Begin();
  Unpin(evaluator_->cut_id());
  EXPECT_EQ(FailUntilLook(), "");
  EXPECT_EQ(PinnedSteps(evaluator_->cut_id()), 1u);
  Unpin(evaluator_->cut_id());
  ASSERT_TRUE(ps().Push(kEvaluatedJob, 0, kGeneration, /*step=*/1).ok());
  EXPECT_THAT(FailUntilLook(), HasSubstr("had pinned for the evaluation at step 1 is gone"));
}

TEST_F(EvaluatorTest, WhatCannotBePinnedAgainIsGone) {
  AddWorkers(1);
  Begin();
  ps().set_on_pin([] { return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "full"); });
  EXPECT_THAT(FailUntilLook(), HasSubstr("is gone: "));
}

// A shard that lacked what it had pinned, and has gone on, may have pinned something else.
TEST_F(EvaluatorTest, ResultCountsOnlyOnceAllShardsHaveSaidWhatTheyHavePinned) {
  AddWorkers(1);
  Begin();
  ps().set_on_pin([failures = 1]() mutable {
    return failures-- > 0 ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "") : grpc::Status::OK;
  });
  EXPECT_EQ(FailUntilLook(), "");
  const auto result_counts = [&] {
    EvaluationReport report{workers_[0], {}, "worker-x"};
    report.result.set_evaluation_id(EvaluationId());
    (*report.result.mutable_metrics())["loss"] = 0.5;
    return evaluator_->OnResult(report).value().has_value();
  };
  EXPECT_FALSE(result_counts());
  clock_.Advance(absl::Seconds(2));
  CheckWorker();
  EXPECT_FALSE(evaluator_->LookAtPins().has_value()) << "nothing is gone";
  EXPECT_TRUE(result_counts());
}

TEST_F(EvaluatorTest, StateThatIsNotOfTheStepsBeforeItIsNotEvaluated) {
  AddWorkers(1);
  const auto pinned = evaluator_->Begin(/*step=*/1, kGeneration);
  ASSERT_TRUE(pinned.ok()) << pinned.status();
  EXPECT_EQ(pinned->state, BarrierState::kMissing);
  EXPECT_FALSE(evaluator_->under_way());
  EXPECT_THAT(Asked(), IsEmpty());
}

// A worker answers twice where it has not heard that it was heard.
TEST_F(EvaluatorTest, ResultThatComesAgainIsNoOther) {
  AddWorkers(1);
  Begin();
  EvaluationReport report{workers_[0], {}, "worker-x"};
  report.result.set_evaluation_id(EvaluationId());
  (*report.result.mutable_metrics())["loss"] = 0.5;
  const auto is_told = [&] { return evaluator_->OnResult(report).value().has_value(); };
  EXPECT_TRUE(is_told());
  EXPECT_FALSE(is_told()) << "it is being saved, perhaps";
  evaluator_->End();
  EXPECT_FALSE(is_told());
}

TEST_F(EvaluatorTest, ConfusionMatricesAreToldAtTheJobsEndAlone) {
  AddWorkers(1);
  for (uint64_t i = 1; i <= kEvaluations; ++i) {
    Begin();
    Answer(Asked().at(0));
    EXPECT_EQ(told_.metrics().at("eval_loss"), 0.5);
    EXPECT_EQ(told_.confusion_matrices_size(), i == kEvaluations ? 1 : 0);
  }
}

TEST_F(EvaluatorTest, ConfusionMatricesAreToldWhereTheJobMayEnd) {
  AddWorkers(1);
  Begin(/*may_be_last=*/true);
  Answer(workers_[0]);
  EXPECT_EQ(told_.confusion_matrices_size(), 1);
  Begin();
  Answer(workers_[0]);
  EXPECT_EQ(told_.confusion_matrices_size(), 0);
}

// The time that its worker was waited for counted as the evaluation's, and the next one's patience
// was four times as long: 44 s, 3 minutes, 12 minutes, 48 minutes.
TEST_F(EvaluatorTest, WorkerThatNeverAnswersDoesNotHoldUpLaterEvaluationsForLonger) {
  AddWorkers(2);
  Begin();
  clock_.Advance(absl::Seconds(1));
  Answer(Asked().at(0));
  ASSERT_FALSE(evaluator_->under_way());
  for (uint64_t i = 1; i < kEvaluations; ++i) {
    const absl::Time begun_at = clock_.Now();
    Begin();
    const uint64_t stuck = Asked().at(0);
    while (Asked().size() == 1 && clock_.Now() - begun_at < absl::Hours(10)) {
      clock_.Advance(absl::Seconds(1));
      CheckWorker();
    }
    ASSERT_EQ(Asked().size(), 2u);
    clock_.Advance(absl::Seconds(1));
    for (const uint64_t worker : workers_) {
      if (worker != stuck) Answer(worker);
    }
    ASSERT_FALSE(evaluator_->under_way());
    EXPECT_LE(clock_.Now() - begun_at, absl::Seconds(11)) << "evaluation " << i;
  }
}

// It was waited for, up to a minute, and what it answered was not heard.
TEST_F(EvaluatorTest, WorkerThatIsExcludedWhileItEvaluatesIsNotWaitedFor) {
  AddWorkers(2);
  Begin();
  const uint64_t excluded = Asked().at(0);
  Refuse(excluded);
  EXPECT_THAT(Asked(), IsEmpty());
  CheckWorker();
  ASSERT_THAT(Asked(), SizeIs(1));
  EXPECT_NE(Asked()[0], excluded);
  Answer(excluded);
  EXPECT_TRUE(evaluator_->under_way());
  Answer(Asked()[0]);
  EXPECT_FALSE(evaluator_->under_way());
}

// It beats, and each evaluation waited for it first.
TEST_F(EvaluatorTest, WorkerThatNeverAnswersIsAskedLastUntilItDoes) {
  AddWorkers(3);
  Begin();
  const uint64_t silent = Asked().at(0);
  clock_.Advance(absl::Minutes(1));
  EXPECT_THAT(CheckWorker(), HasSubstr("longer than 1m on worker-0; another worker tries"));
  for (int i = 0; i < 4; ++i) {
    if (i > 0) Begin();
    EXPECT_EQ(IsAsked(silent), i == 0) << "evaluation " << i;
    for (const uint64_t worker : Asked()) {
      if (worker != silent) Answer(worker);
    }
    ASSERT_FALSE(evaluator_->under_way());
  }
  Answer(silent);  // In vain, but it answers.
  std::vector<uint64_t> asked;
  for (int i = 0; i < 2; ++i) {
    Begin();
    asked.push_back(Asked().at(0));
    Answer(asked.back());
  }
  EXPECT_THAT(asked, testing::Contains(silent));
}

TEST_F(EvaluatorTest, FinalErrorNamesTheWorkerAndCodesThatThereAreNotAreNotFinal) {
  AddWorkers(1);
  Begin();
  EvaluationReport report{workers_[0], {}, "worker-0"};
  report.result.set_evaluation_id(uint64_t{1} << 32 | 1);
  report.result.set_code(77);
  ASSERT_TRUE(evaluator_->OnResult(report).ok());
  clock_.Advance(absl::Seconds(1));
  CheckWorker();
  report.result.set_code(static_cast<int>(absl::StatusCode::kInternal));
  EXPECT_EQ(evaluator_->OnResult(report).status(),
            absl::InternalError("the evaluation at step 1: it does not say why (on worker-0)"));
  report.result.set_code(0);
  (*report.result.mutable_metrics())["loss"] = std::nan("");
  EXPECT_EQ(evaluator_->OnResult(report).status(),
            absl::InvalidArgumentError("the evaluation at step 1: the loss is nan (on worker-0); a "
                                       "smaller learning rate may help"));
}

// It was taken in silence: the job went on as if it were evaluated.
TEST_F(EvaluatorTest, EvaluationWithoutMetricsIsToldWithItsWorker) {
  AddWorkers(1);
  Begin();
  EvaluationReport report{workers_[0], {}, "worker-0"};
  report.result.set_evaluation_id(uint64_t{1} << 32 | 1);
  const auto evaluated = evaluator_->OnResult(report);
  ASSERT_TRUE(evaluated.ok()) << evaluated.status();
  EXPECT_TRUE(evaluated->has_value());
  EXPECT_THAT(CheckWorker(),
              HasSubstr("the evaluation at step 1 has no metrics (on worker-0): nobody learns"));
}

// The error of the one that was asked last made the coordinator deaf to it.
TEST_F(EvaluatorTest, ResultOfAWorkerThatWasGivenUpCountsAfterAnErrorOfAnother) {
  AddWorkers(2);
  Begin();
  const uint64_t slow = Asked().at(0);
  clock_.Advance(absl::Minutes(1));
  EXPECT_THAT(CheckWorker(), HasSubstr("another worker tries"));
  for (const uint64_t worker : workers_) {
    if (worker != slow) Answer(worker, absl::StatusCode::kUnavailable);
  }
  EXPECT_THAT(Asked(), ElementsAre(slow));
  Answer(slow);
  EXPECT_FALSE(evaluator_->under_way());
}

}  // namespace
}  // namespace millrace::coordinator
