// A real coordinator on loopback with fake ps servers and workers, and a worker that is not ours:
// it speaks of leases and evaluations that it was not given, and says more than it should.
#include <atomic>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/testing/fake_cluster.h"
#include "coordinator/testing/gate.h"
#include "coordinator/testing/member_connection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

MemberMessage Registration(const std::string& name) {
  MemberMessage message;
  message.mutable_register_worker()->set_name(name);
  message.mutable_register_worker()->set_incarnation(77);
  message.mutable_register_worker()->set_lease_slots(1);
  return message;
}

// A worker joins, says all that, and leaves. When this returns the coordinator has heard it.
void JoinSayAndLeave(FakeCluster& cluster, const std::string& name,
                     const std::vector<MemberMessage>& messages) {
  MemberConnection connection(cluster.address(), [](const CoordinatorMessage&) {});
  connection.Send(Registration(name));
  connection.AwaitAnswer();
  for (const MemberMessage& message : messages) connection.Send(message);
  MemberMessage leaving;
  leaving.mutable_leaving();
  connection.Send(leaving);
  const absl::Status end = connection.AwaitEnd();
  EXPECT_TRUE(end.ok()) << end;
}

// Such ids are easy to guess.
uint64_t LeaseId(uint64_t generation, uint64_t number) { return generation << 32 | number; }

MemberMessage Report(const std::string& job, uint64_t lease_id, uint64_t step, double loss) {
  MemberMessage message;
  StepResult& result = *message.mutable_step_result();
  result.set_job_id(job);
  result.set_lease_id(lease_id);
  result.set_step(step);
  result.set_examples(1);
  result.set_loss_sum(loss);
  return message;
}

MemberMessage Return(const std::string& job, uint64_t lease_id, absl::StatusCode code) {
  MemberMessage message;
  LeaseReturned& returned = *message.mutable_lease_returned();
  returned.set_job_id(job);
  returned.set_lease_id(lease_id);
  returned.set_code(static_cast<int>(code));
  returned.set_message("an error of a stranger");
  return message;
}

// Any worker could once fail any job.
TEST(ForeignWorkerTest, WorkerWithoutALeaseDoesNotEndTheJob) {
  Gate gate;
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(3, &gate));
  const std::string job = cluster.Submit(PlainJob(10)).value();
  gate.AwaitSomebody();
  std::vector<MemberMessage> messages;
  for (uint64_t number = 0; number < 10; ++number) {
    const uint64_t lease_id = LeaseId(1, number);
    messages.push_back(Return(job, lease_id, absl::StatusCode::kInvalidArgument));
    for (uint64_t step = 0; step < 10; ++step) {
      messages.push_back(Report(job, lease_id, step, std::nan("")));
    }
  }
  JoinSayAndLeave(cluster, "stranger", messages);
  gate.Open();
  const JobStatus status = cluster.AwaitEnd(job);
  EXPECT_EQ(status.state(), SUCCEEDED) << status.message();
  cluster.ExpectAllApplied(job, 10);
}

// It was once believed further on, and each of its reports made the job begin a new generation.
TEST(ForeignWorkerTest, ExcludedWorkerIsNotHeardAnyMore) {
  Gate gate;
  std::atomic<int> early{0};
  FakeCluster cluster(1);
  cluster.StartPs();
  FakeWorkerScript lying;
  lying.lies = [](const std::string&, uint64_t) { return true; };
  FakeWorker& liar = cluster.AddWorker(lying);
  JobSpec spec = PlainJob(10);
  spec.mutable_asynchronous()->set_staleness_bound(0);
  const std::string job = cluster.Submit(spec).value();
  bool excluded = false;
  const auto events = cluster.Watch(job, 0, [&](const JobEvent& event) {
    excluded |= absl::StrContains(event.notice().message(), "it gets no more steps of this job");
    return excluded && event.has_recovered();
  });
  ASSERT_TRUE(events.ok()) << events.status();
  liar.Leave();

  FakeWorkerScript honest = WaitingAt(5, &gate);
  honest.on_lease = [&, job](const Lease& lease, const SetRoute& route) {
    if (lease.job_id() != job) return;
    const uint64_t applied = cluster.ps(0).Shards(route.job_id())[0].applied().watermark();
    if (applied < lease.begin()) ++early;
  };
  cluster.AddWorker(honest);
  gate.AwaitSomebody();
  const uint64_t generation = cluster.Get(job)->generation();
  JoinSayAndLeave(cluster, "worker-0", {Report(job, LeaseId(generation, 1), 5, /*loss=*/1)});
  // When the honest worker has planned another job, all that was sent to it before has arrived.
  const std::string other = cluster.Submit(PlainJob(1)).value();
  EXPECT_EQ(early, 0) << "step 6 was handed out before step 5 was done";
  gate.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  EXPECT_EQ(cluster.AwaitEnd(other).state(), SUCCEEDED);
  cluster.ExpectAllApplied(job, 10);
  EXPECT_EQ(cluster.Get(job)->generation(), generation);
}

// When the job was attached again, all steps below it were written down with every job at a
// standstill, until there was no memory left.
TEST(ForeignWorkerTest, StepThatNobodyWasGivenFarAboveTheOthersHoldsUpNobody) {
  Gate gate;
  Gate beyond;
  FakeCluster cluster(1);
  cluster.StartPs();
  FakeWorkerScript script;
  script.on_step = [&](const std::string&, uint64_t step) {
    if (step == 3) gate.Pass();
    if (step == 10) beyond.Open();
    return absl::OkStatus();
  };
  cluster.AddWorker(script);
  const std::string job = cluster.Submit(PlainJob(uint64_t{1} << 50)).value();
  gate.AwaitSomebody();
  const uint64_t far = uint64_t{1} << 40;
  const uint64_t generation = cluster.Get(job)->generation();
  ASSERT_EQ(cluster.ps(0).Push(job, 0, generation, far), absl::OkStatus());
  cluster.ps(0).FlushAll();
  cluster.ps(0).Crash();
  gate.Open();
  const std::string other = cluster.Submit(PlainJob(5)).value();
  EXPECT_EQ(cluster.AwaitEnd(other).state(), SUCCEEDED);
  beyond.Pass();
  ASSERT_TRUE(cluster.Cancel(job).ok());
  EXPECT_EQ(cluster.AwaitEnd(job).state(), CANCELLED);
}

TEST(ForeignWorkerTest, EvaluationIsTakenFromTheWorkerThatWasAsked) {
  Gate gate;
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.AddWorker(WaitingAtEvaluation(&gate));
  const std::string job = cluster.Submit(EvaluatedJob(5, 0)).value();
  gate.AwaitSomebody();
  MemberMessage message;
  EvaluationResult& result = *message.mutable_evaluation_result();
  result.set_job_id(job);
  result.set_evaluation_id(uint64_t{1} << 32 | 1);
  (*result.mutable_metrics())["loss"] = 99;
  JoinSayAndLeave(cluster, "stranger", {message});
  gate.Open();
  const JobStatus status = cluster.AwaitEnd(job);
  EXPECT_EQ(status.state(), SUCCEEDED) << status.message();
  EXPECT_EQ(status.metrics().at("eval_loss"), 0.25);
}

// A job ended well with the evaluation of no examples at all.
TEST(ForeignWorkerTest, EvaluationOfOtherExamplesIsNotTakenAndItsWorkerIsExcluded) {
  FakeCluster cluster(1);
  cluster.StartPs();
  FakeWorkerScript wrong;
  wrong.evaluated_examples = [](const Evaluate&) { return 0; };
  wrong.evaluation_loss = [](const Evaluate&) { return 99; };
  cluster.AddWorker(wrong);
  const std::string job = cluster.Submit(EvaluatedJob(5, 0)).value();
  cluster.AwaitNotice(job,
                      "worker-0 reported an evaluation of 0 examples, where data.evaluate has 10");
  cluster.AwaitNotice(job, "has 10; it gets no more steps of this job");
  cluster.AddWorker();
  const JobStatus status = cluster.AwaitEnd(job);
  EXPECT_EQ(status.state(), SUCCEEDED) << status.message();
  EXPECT_EQ(status.metrics().at("eval_loss"), 0.25);
}

TEST(ForeignWorkerTest, JobThatOnePlannedWhichDoesNotRoundWhatTravelsSaysSo) {
  FakeCluster cluster(1);
  cluster.StartPs();
  FakeWorkerScript other_make;
  other_make.plan = [](const JobSpec&) {
    JobPlan plan = PlainPlan();
    plan.set_numerics("numpy 1.24");
    return plan;
  };
  cluster.AddWorker(other_make);
  JobSpec spec = PlainJob(4);
  spec.mutable_synchronous()->set_replicas(2);
  spec.mutable_precision()->set_wire(Encoding::BFLOAT16);
  const std::string job = cluster.Submit(spec).value();
  cluster.AwaitNotice(job, "do not end in 'BFLOAT16 on the wire'): numbers travel as FLOAT32");
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
}

// They were believed, and could make the job's loss any number.
TEST(ForeignWorkerTest, StepsOfOtherExamplesCountInNoMetricAndTheirWorkerIsExcluded) {
  FakeCluster cluster(1);
  cluster.StartPs();
  FakeWorkerScript wrong;
  wrong.step_examples = [](uint64_t) { return 1000; };
  cluster.AddWorker(wrong);
  const std::string job = cluster.Submit(PlainJob(20)).value();
  cluster.AwaitNotice(job, "worker-0 reported 1000 examples for step 2, which has 1; it gets no");
  FakeWorkerScript honest;
  honest.loss = [](uint64_t) { return 0.5; };
  cluster.AddWorker(honest);
  const JobStatus status = cluster.AwaitEnd(job);
  EXPECT_EQ(status.state(), SUCCEEDED) << status.message();
  EXPECT_EQ(status.metrics().at("loss"), 0.5);
  cluster.ExpectAllApplied(job, 20);
}

TEST(ForeignWorkerTest, MetricsThatAreTooManyAreLeftOutAndPeopleAreTold) {
  FakeCluster cluster(1);
  cluster.StartPs();
  FakeWorkerScript script;
  for (int i = 100; i < 200; ++i) script.more_metrics[absl::StrCat("a", i)] = i;
  script.more_metrics[std::string(101, 'a')] = 1;
  script.more_metrics["a\n"] = 2;
  cluster.AddWorker(script);
  const std::string job = cluster.Submit(EvaluatedJob(5, 0)).value();
  const JobStatus status = cluster.AwaitEnd(job);
  EXPECT_EQ(status.state(), SUCCEEDED) << status.message();
  size_t evaluated = 0;
  for (const auto& [name, value] : status.metrics()) evaluated += absl::StartsWith(name, "eval_");
  EXPECT_EQ(evaluated, 50u);
  EXPECT_EQ(status.metrics().at("eval_a149"), 149);
  EXPECT_EQ(status.metrics().count("eval_a150"), 0u);
  EXPECT_EQ(status.metrics().count("eval_a\n"), 0u);
  cluster.AwaitNotice(job, "the evaluation at step 5 has 104 metrics, of which 54 are left out");
}

// What a worker said of a job was once kept and told as it was.
TEST(ForeignWorkerTest, RefusalIsMadeShortAndPrintable) {
  FakeCluster cluster(1);
  cluster.StartPs();
  FakeWorkerScript script;
  script.prepare = [](const SetRoute&) {
    return absl::NotFoundError(absl::StrCat("\x1b[2J", std::string(50'000, 'x')));
  };
  cluster.AddWorker(script);
  const std::string job = cluster.Submit(PlainJob(5)).value();
  cluster.AwaitNotice(job, "worker-0 cannot run the job: \\x1b[2Jxxx");
  cluster.AwaitNotice(job, "no worker can run the job: worker-0: \\x1b[2Jxxx");
  const std::string message = cluster.Get(job)->message();
  EXPECT_LT(message.size(), 4096u);
  EXPECT_THAT(message, AllOf(HasSubstr("xxx..."), Not(HasSubstr("\x1b"))));
  EXPECT_EQ(cluster.Cancel(job)->state(), CANCELLED);
}

}  // namespace
}  // namespace millrace::coordinator
