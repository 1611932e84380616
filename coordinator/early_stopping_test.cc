// A real coordinator with fake members: jobs that end where evaluations get no better, and what is
// kept of the best one.
#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "common/checkpoint/checkpoint_directory.h"
#include "coordinator/testing/fake_cluster.h"
#include "coordinator/testing/gate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/directory/test_directory.h"
#include "testing/spin/spin_until.h"

namespace millrace::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class EarlyStoppingTest : public testing::Test {
 protected:
  EarlyStoppingTest() { cluster_.StartPs(); }

  // Of 200 steps, evaluated every 10.
  static JobSpec StoppingJob(uint32_t patience) {
    JobSpec spec = EvaluatedJob(200, 10);
    spec.mutable_evaluation()->mutable_early_stopping()->set_patience(patience);
    return spec;
  }
  JobSpec KeepingJob(uint64_t steps) const {
    JobSpec spec = EvaluatedJob(steps, 10);
    spec.mutable_evaluation()->mutable_keep_best();
    spec.mutable_checkpoints()->set_directory(directory_);
    spec.mutable_checkpoints()->set_keep(1);
    return spec;
  }

  // A worker to which the state after so many steps has this loss; 1 after any other number.
  FakeWorkerScript Finds(std::map<uint64_t, double> losses) {
    FakeWorkerScript script;
    script.lease_slots = 8;
    script.evaluation_loss = [this, losses](const Evaluate& evaluate) {
      const auto steps = cluster_.ps(0).PinnedSteps(evaluate.job_id(), 0, evaluate.cut_id());
      const auto loss = losses.find(steps.value_or(0));
      return loss == losses.end() ? 1 : loss->second;
    };
    return script;
  }

  std::vector<uint64_t> EvaluatedSteps(const std::string& job) {
    std::vector<uint64_t> steps;
    const auto events = cluster_.Watch(job);
    for (const JobEvent& event : *events) {
      if (event.has_evaluated()) steps.push_back(event.evaluated().step());
    }
    return steps;
  }
  std::vector<CheckpointManifest> Manifests() const {
    std::vector<CheckpointManifest> manifests;
    const auto listed = CheckpointDirectory(RealFileSystem(), directory_).List();
    if (!listed.ok()) return manifests;
    for (const auto& each : *listed) manifests.push_back(each.manifest.value());
    return manifests;
  }
  // The checkpoint of the best state, and what the newest one says of it.
  void ExpectBestIsKept(const JobStatus& status, uint64_t step, double value) {
    EXPECT_EQ(status.best().step(), step);
    EXPECT_EQ(status.best().value(), value);
    EXPECT_EQ(status.best().checkpoint().directory(), directory_);
    const auto manifests = Manifests();
    ASSERT_THAT(manifests, testing::Not(IsEmpty()));
    EXPECT_EQ(manifests.back().best().checkpoint().number(), status.best().checkpoint().number());
    const auto best = std::find_if(manifests.begin(), manifests.end(), [&](const auto& manifest) {
      return manifest.number() == status.best().checkpoint().number();
    });
    ASSERT_NE(best, manifests.end());
    EXPECT_EQ(best->step(), step);
    EXPECT_TRUE(best->exact());
    EXPECT_EQ(best->metrics().at("eval_loss"), value);
    EXPECT_EQ(best->best().checkpoint().number(), best->number());
  }

  const std::string directory_ = TestDirectory("checkpoints");
  // They outlive the members that stand at them.
  Gate gate_;
  Gate second_gate_;
  FakeCluster cluster_{2};
};

TEST_F(EarlyStoppingTest, JobEndsWithTheEvaluationThatIsOneTooManyNoBetter) {
  cluster_.AddWorker(Finds({{10, 0.5}, {20, 0.4}, {30, 0.6}, {40, 0.45}}));
  const std::string job = cluster_.Submit(StoppingJob(2)).value();
  const JobStatus status = cluster_.AwaitEnd(job);
  EXPECT_EQ(status.state(), SUCCEEDED);
  EXPECT_EQ(status.step(), 40u);
  EXPECT_EQ(status.total_steps(), 40u);
  EXPECT_EQ(status.message(),
            "stopped early at step 40 of 200: eval_loss has not been below 0.4 since step 20");
  EXPECT_EQ(status.stopped_early().total_steps(), 200u);
  EXPECT_EQ(status.stopping().evaluations_since(), 2u);
  EXPECT_EQ(status.metrics().at("eval_loss"), 0.45);
  cluster_.ExpectAllApplied(job, 40);
  EXPECT_THAT(EvaluatedSteps(job), ElementsAre(10, 20, 30, 40));
  cluster_.AwaitNotice(job, "stopped early at step 40 of 200");
}

TEST_F(EarlyStoppingTest, SynchronousJobEndsWithAWholeVersion) {
  cluster_.AddWorker(Finds({{12, 0.5}}));
  cluster_.AddWorker(Finds({{12, 0.5}}));
  JobSpec spec = StoppingJob(1);
  spec.mutable_synchronous()->set_replicas(3);
  const std::string job = cluster_.Submit(spec).value();
  const JobStatus status = cluster_.AwaitEnd(job);
  EXPECT_EQ(status.state(), SUCCEEDED);
  EXPECT_EQ(status.step(), 24u);
  cluster_.ExpectAllApplied(job, 24);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(cluster_.ps(i).Shards(job)[0].version(), 8u);
}

TEST_F(EarlyStoppingTest, TrainingGoesOnBesideAnEvaluationThatCannotEndTheJob) {
  FakeWorkerScript evaluates = Finds({{10, 0.5}, {20, 0.4}});
  evaluates.on_evaluate = [&](const Evaluate&) {
    gate_.Pass();
    return absl::OkStatus();
  };
  evaluates.on_step = [&](const std::string&, uint64_t step) {
    if (step == 15) second_gate_.Open();
    return absl::OkStatus();
  };
  cluster_.AddWorker(evaluates);
  cluster_.AddWorker(evaluates);
  const std::string job = cluster_.Submit(StoppingJob(1)).value();
  gate_.AwaitSomebody();
  second_gate_.Pass();
  gate_.Open();
  EXPECT_EQ(cluster_.AwaitEnd(job).step(), 30u);
}

TEST_F(EarlyStoppingTest, WhatWasDecidedOutlivesTheCoordinator) {
  cluster_.ps(0).set_on_flush([&] {
    gate_.Pass();
    return grpc::Status::OK;
  });
  FakeWorker& worker = cluster_.AddWorker(Finds({{10, 0.5}}));
  const std::string job = cluster_.Submit(StoppingJob(1)).value();
  gate_.AwaitSomebody();  // It is ending.
  cluster_.StopCoordinator();
  gate_.Open();
  cluster_.StartCoordinator();
  EXPECT_EQ(cluster_.Get(job)->total_steps(), 20u);
  for (int i = 0; i < 2; ++i) cluster_.ps(i).Join(cluster_.address());
  FakeWorker& other = cluster_.AddWorker(Finds({}));
  const JobStatus status = cluster_.AwaitEnd(job);
  EXPECT_EQ(status.state(), SUCCEEDED);
  EXPECT_EQ(status.step(), 20u);
  EXPECT_THAT(status.message(), HasSubstr("has not been below 0.5 since step 10"));
  EXPECT_THAT(worker.Computed(job), SizeIs(20));
  EXPECT_THAT(other.Computed(job), IsEmpty());
  cluster_.ExpectAllApplied(job, 20);
}

TEST_F(EarlyStoppingTest, CountsOfEvaluationsOutliveTheCoordinator) {
  FakeWorkerScript script = Finds({{10, 0.5}});
  script.on_step = [&](const std::string&, uint64_t step) {
    if (step == 25) gate_.Pass();
    return absl::OkStatus();
  };
  cluster_.AddWorker(script);
  const std::string job = cluster_.Submit(StoppingJob(3)).value();
  gate_.AwaitSomebody();
  cluster_.Watch(job, 0, [](const JobEvent& event) { return event.evaluated().step() == 20; })
      .IgnoreError();
  cluster_.StopCoordinator();
  cluster_.StartCoordinator();
  EXPECT_EQ(cluster_.Get(job)->stopping().evaluations_since(), 1u);
  gate_.Open();
  for (int i = 0; i < 2; ++i) cluster_.ps(i).Join(cluster_.address());
  cluster_.AddWorker(Finds({}));
  const JobStatus status = cluster_.AwaitEnd(job);
  EXPECT_EQ(status.step(), 40u);
  EXPECT_EQ(status.stopping().best(), 0.5);
}

// It was attached again and again, for ever.
TEST_F(EarlyStoppingTest, JobFailsWhereAShardHasAStepBeyondTheEnd) {
  cluster_.ps(1).set_on_flush([&] {
    gate_.Pass();
    return grpc::Status::OK;
  });
  cluster_.AddWorker(Finds({{10, 0.5}}));
  const std::string job = cluster_.Submit(StoppingJob(1)).value();
  gate_.AwaitSomebody();
  const uint64_t generation = cluster_.Get(job)->generation();
  ASSERT_EQ(cluster_.ps(1).Push(job, 1, generation, 150), absl::OkStatus());
  gate_.Open();
  const JobStatus status = cluster_.AwaitEnd(job);
  EXPECT_EQ(status.state(), FAILED);
  EXPECT_EQ(
      status.message(),
      "shard 1 on ps-1 has step 150, which no worker was given: the job has stopped early, and "
      "its last step is 19");
}

// Evaluations ceased without a word, and with them early stopping.
TEST_F(EarlyStoppingTest, EvaluationsThatAStepAheadOfTheOthersLeavesOutAreTold) {
  FakeWorkerScript script = Finds({{70, 0.5}});
  script.on_evaluate = [&](const Evaluate&) {
    gate_.Pass();
    return absl::OkStatus();
  };
  cluster_.AddWorker(script);
  const std::string job = cluster_.Submit(StoppingJob(2)).value();
  gate_.AwaitSomebody();  // At step 10: those up to 20 are being handed out.
  const uint64_t generation = cluster_.Get(job)->generation();
  ASSERT_EQ(cluster_.ps(1).Push(job, 1, generation, 55), absl::OkStatus());
  gate_.Open();
  cluster_.AwaitNotice(job,
                       "the job is not evaluated before step 60, though it would have been at step "
                       "20: shard 1 on ps-1 has step 55 already");
  EXPECT_EQ(cluster_.AwaitEnd(job).state(), SUCCEEDED);
  EXPECT_THAT(EvaluatedSteps(job), ElementsAre(10, 60, 70, 80, 90));
}

// The state at the end is evaluated again, and whatever that comes to the end stays where it is.
TEST_F(EarlyStoppingTest, StepsThatAreLostAfterTheDecisionAreRunAgainUpToTheEnd) {
  cluster_.ps(1).set_on_flush([&] {
    gate_.Pass();
    return grpc::Status::OK;
  });
  std::map<uint64_t, double> losses = {{10, 0.5}};
  cluster_.AddWorker(Finds(losses));
  const std::string job = cluster_.Submit(StoppingJob(1)).value();
  gate_.AwaitSomebody();
  std::thread opens([&] { gate_.Open(); });
  cluster_.ps(1).Kill();
  opens.join();
  cluster_.ps(1).Start(cluster_.address());
  const JobStatus status = cluster_.AwaitEnd(job);
  EXPECT_EQ(status.state(), SUCCEEDED);
  EXPECT_EQ(status.step(), 20u);
  EXPECT_EQ(status.stopping().evaluations_since(), 1u);
  cluster_.ExpectAllApplied(job, 20);
}

TEST_F(EarlyStoppingTest, MetricThatACustomModelDoesNotReportEndsTheJobWithThoseThatItDoes) {
  cluster_.AddWorker();
  JobSpec spec = StoppingJob(1);
  spec.mutable_model()->Clear();
  spec.mutable_model()->mutable_custom()->set_name("own");
  spec.mutable_evaluation()->mutable_early_stopping()->set_metric("eval_my_loss");
  const std::string job = cluster_.Submit(spec).value();
  const JobStatus status = cluster_.AwaitEnd(job);
  EXPECT_EQ(status.state(), FAILED);
  EXPECT_THAT(status.message(), HasSubstr("'eval_my_loss'; must be one of "));
  EXPECT_THAT(status.message(), HasSubstr("eval_auc"));
}

TEST_F(EarlyStoppingTest, StateOfTheBestEvaluationIsKept) {
  cluster_.AddWorker(Finds({{10, 0.5}, {20, 0.3}, {30, 0.4}, {40, 0.3}}));
  const std::string job = cluster_.Submit(KeepingJob(60)).value();
  const JobStatus status = cluster_.AwaitEnd(job);
  EXPECT_EQ(status.state(), SUCCEEDED);
  EXPECT_EQ(status.checkpoint().step(), 60u);
  ExpectBestIsKept(status, 20, 0.3);
  EXPECT_THAT(Manifests(), SizeIs(2));  // And the last one, though only one is to be kept.
  std::vector<uint64_t> best;
  const auto events = cluster_.Watch(job);
  for (const JobEvent& event : *events) {
    if (event.evaluated().best()) best.push_back(event.evaluated().step());
  }
  EXPECT_THAT(best, ElementsAre(10, 20));
  cluster_.StopCoordinator();
  cluster_.StartCoordinator();
  ExpectBestIsKept(cluster_.Get(job).value(), 20, 0.3);
}

TEST_F(EarlyStoppingTest, StateOfASynchronousJobIsKeptToo) {
  cluster_.AddWorker(Finds({{12, 0.5}, {24, 0.3}}));
  JobSpec spec = KeepingJob(60);
  spec.mutable_synchronous()->set_replicas(3);
  spec.mutable_checkpoints()->set_every_steps(7);
  const std::string job = cluster_.Submit(spec).value();
  const JobStatus status = cluster_.AwaitEnd(job);
  EXPECT_EQ(status.state(), SUCCEEDED);
  ExpectBestIsKept(status, 24, 0.3);
}

TEST_F(EarlyStoppingTest, WhereTheLastStateIsTheBestItIsKept) {
  cluster_.AddWorker(Finds({{10, 0.5}, {20, 0.3}, {25, 0.1}}));
  const std::string job = cluster_.Submit(KeepingJob(25)).value();
  ExpectBestIsKept(cluster_.AwaitEnd(job), 25, 0.1);
}

// The pins go with the generation.
TEST_F(EarlyStoppingTest, AnEvaluationWhoseStateIsLostBeforeItIsKeptDoesNotCount) {
  cluster_.ps(0).set_on_write([&](grpc::ServerContext* context) {
    gate_.Open();
    SpinUntil("a cancellation", [&] { return context->IsCancelled(); });
    return grpc::Status(grpc::StatusCode::CANCELLED, "cancelled");
  });
  cluster_.AddWorker(Finds({{10, 0.1}, {20, 0.3}, {30, 0.2}, {40, 0.25}}));
  const std::string job = cluster_.Submit(KeepingJob(50)).value();
  gate_.Pass();
  cluster_.ps(0).FlushAll();
  cluster_.ps(0).Kill();
  cluster_.ps(0).set_on_write(nullptr);
  cluster_.ps(0).Start(cluster_.address());
  const JobStatus status = cluster_.AwaitEnd(job);
  EXPECT_EQ(status.state(), SUCCEEDED);
  cluster_.AwaitNotice(job, "the evaluation at step 10 was given up");
  // What was told is what is kept.
  double least = 1;
  uint64_t step = 0;
  const auto events = cluster_.Watch(job);
  for (const JobEvent& event : *events) {
    if (!event.has_evaluated() || event.evaluated().metrics().at("eval_loss") >= least) continue;
    least = event.evaluated().metrics().at("eval_loss");
    step = event.evaluated().step();
  }
  ExpectBestIsKept(status, step, least);
}

// Another run takes the directory while the second one is under way.
TEST_F(EarlyStoppingTest, AnEvaluationWhoseStateCannotBeKeptDoesNotCount) {
  FakeWorkerScript script = Finds({{10, 0.5}, {20, 0.4}, {30, 0.3}});
  script.evaluation_loss = [this, finds = script.evaluation_loss](const Evaluate& evaluate) {
    const double loss = finds(evaluate);
    if (loss == 0.4) {
      EXPECT_TRUE(CheckpointDirectory(RealFileSystem(), directory_).SetOwner("other-1").ok());
    }
    return loss;
  };
  cluster_.AddWorker(script);
  const std::string job = cluster_.Submit(KeepingJob(30)).value();
  const JobStatus status = cluster_.AwaitEnd(job);
  EXPECT_EQ(status.state(), FAILED) << "its end is not in its directory";
  EXPECT_EQ(status.best().step(), 10u);
  EXPECT_EQ(status.best().value(), 0.5);
  cluster_.AwaitNotice(job, "the best state so far, of step 20, is not kept, and does not count");
  EXPECT_THAT(EvaluatedSteps(job), ElementsAre(10, 20, 30));
  ASSERT_THAT(Manifests(), SizeIs(1));
  EXPECT_EQ(Manifests()[0].step(), 10u);
}

TEST_F(EarlyStoppingTest, RestoredJobGoesOnFromTheBestAndHasItsPatienceAgain) {
  cluster_.AddWorker(Finds({{10, 0.5}, {20, 0.3}, {30, 0.4}, {40, 0.35}}));
  JobSpec spec = KeepingJob(200);
  spec.mutable_evaluation()->mutable_early_stopping()->set_patience(2);
  const std::string first = cluster_.Submit(spec).value();
  EXPECT_EQ(cluster_.AwaitEnd(first).step(), 40u);
  EXPECT_EQ(Manifests().back().stopped_early().step(), 40u);
  spec.mutable_restore()->set_directory(directory_);
  const std::string second = cluster_.Submit(spec).value();
  const JobStatus status = cluster_.AwaitEnd(second);
  EXPECT_EQ(status.state(), SUCCEEDED);
  EXPECT_EQ(status.step(), 60u);
  EXPECT_THAT(status.message(), HasSubstr("has not been below 0.3 since step 20"));
  ExpectBestIsKept(status, 20, 0.3);
}

TEST_F(EarlyStoppingTest, RestoredJobInAnotherDirectoryBeginsWithoutABest) {
  cluster_.AddWorker(Finds({{10, 0.3}, {20, 0.4}, {30, 0.5}, {40, 0.6}}));
  JobSpec spec = KeepingJob(20);
  EXPECT_EQ(cluster_.AwaitEnd(cluster_.Submit(spec).value()).best().step(), 10u);
  spec.mutable_restore()->set_directory(directory_);
  spec.mutable_checkpoints()->set_directory(directory_ + "-other");
  spec.set_steps(40);
  const JobStatus status = cluster_.AwaitEnd(cluster_.Submit(spec).value());
  std::filesystem::remove_all(directory_ + "-other");
  EXPECT_EQ(status.best().step(), 20u);  // The state that it begins with is evaluated.
}

}  // namespace
}  // namespace millrace::coordinator
