// A trainer in a fake world, and what it says.
#ifndef MILLRACE_WORKER_TRAINING_TRAINER_FIXTURE_H_
#define MILLRACE_WORKER_TRAINING_TRAINER_FIXTURE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/clock.h"
#include "common/start_thread.h"
#include "gtest/gtest.h"
#include "protos/cluster.pb.h"
#include "protos/job.pb.h"
#include "worker/training/fakes.h"
#include "worker/training/trainer.h"

namespace millrace::worker {

constexpr int Code(absl::StatusCode code) { return static_cast<int>(code); }

class TrainerFixture : public ::testing::Test {
 protected:
  // Set the world's hooks first.
  void Start() {
    TrainerOptions options;
    options.worker_name = "worker-0";
    options.clock = clock_;
    options.open_dataset = world_.open_dataset();
    options.make_model = world_.make_model();
    options.make_client = world_.make_client();
    options.start_thread = start_thread_;
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
  ThreadStarter start_thread_ = StartThread;
  FakeWorld world_;
  Messages said_;
  std::unique_ptr<Trainer> trainer_;  // Last: ends first.
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_TRAINING_TRAINER_FIXTURE_H_
