// The commands that need a cluster, against a scripted one.
#include <string>
#include <thread>

#include "client/commands/cancel.h"
#include "client/commands/checkpoint.h"
#include "client/commands/evacuate.h"
#include "client/commands/list.h"
#include "client/commands/members.h"
#include "client/commands/rebalance.h"
#include "client/commands/status.h"
#include "client/commands/submit.h"
#include "client/commands/watch.h"
#include "client/testing/fake_jobs.h"
#include "client/testing/run_command.h"
#include "client/testing/small_job.h"
#include "common/proto_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace millrace::client {
namespace {

using ::millrace::testing::CommandRun;
using ::millrace::testing::FakeJobs;
using ::millrace::testing::NoticeEvent;
using ::millrace::testing::ProgressEvent;
using ::millrace::testing::StateEvent;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using Json = nlohmann::json;

class ClusterCommandsTest : public ::testing::Test {
 protected:
  ClusterCommandsTest() { run_.flags().cluster = jobs_.address(); }

  void AddRunningJob(const std::string& job_id) {
    JobStatus status;
    status.set_job_id(job_id);
    status.set_state(RUNNING);
    jobs_.SetJob(status);
    jobs_.AddEvent(job_id, StateEvent(RUNNING));
    jobs_.AddEvent(job_id, ProgressEvent(5, 10, 100, {{"loss", 2}}));
  }

  // The last line on standard output, as JSON.
  Json LastLine() {
    const std::string out = run_.out();
    const size_t begin = out.rfind('\n', out.size() - 2);
    return Json::parse(begin == std::string::npos ? out : out.substr(begin + 1));
  }

  void SetSmallJob() {
    run_.flags().job_file =
        millrace::testing::WriteFile("job.textproto", millrace::testing::SmallJob());
    run_.flags().data = "/data";
  }

  FakeJobs jobs_;
  CommandRun run_;
};

TEST_F(ClusterCommandsTest, SubmitPrintsNothingButTheIdOnStandardOutput) {
  SetSmallJob();
  EXPECT_EQ(*run_.Run(RunSubmit), ExitCode::kSucceeded);
  EXPECT_EQ(run_.out(), "job-1\n");
  EXPECT_THAT(run_.err(), HasSubstr("millrace watch job-1 --cluster=" + jobs_.address()));
  ASSERT_THAT(jobs_.submissions(), SizeIs(1));
  EXPECT_EQ(jobs_.submissions()[0].spec().data().directory(), "/data");
}

TEST_F(ClusterCommandsTest, SubmitAsJson) {
  SetSmallJob();
  run_.flags().json = true;
  EXPECT_EQ(*run_.Run(RunSubmit), ExitCode::kSucceeded);
  EXPECT_EQ(Json::parse(run_.out()), Json({{"job_id", "job-1"}}));
}

TEST_F(ClusterCommandsTest, SubmitChecksTheJobBeforeItIsSent) {
  SetSmallJob();
  run_.flags().set = {"batch_size=0"};
  const auto result = run_.Run(RunSubmit);
  EXPECT_EQ(ExitCodeOf(result.status()), ExitCode::kFailed);
  EXPECT_THAT(result.status().ToString(), HasSubstr("batch_size"));
  EXPECT_THAT(jobs_.submissions(), SizeIs(0));
}

TEST_F(ClusterCommandsTest, SubmitChecksShapesThatItKnows) {
  SetSmallJob();
  run_.flags().set = {"data.train={image_folder { folder: 'pictures' height: 2 width: 2 }}",
                      "model.layers[0]={conv2d { filters: 1 kernel_size: 3 }}"};
  EXPECT_THAT(run_.Run(RunSubmit).status().ToString(),
              HasSubstr("model.layers[0] 'conv2d_0': kernel_size is [3, 3]"));
  EXPECT_THAT(jobs_.submissions(), SizeIs(0));
}

TEST_F(ClusterCommandsTest, ListAndStatusTellAboutJobs) {
  AddRunningJob("a-1");
  run_.flags().job_id = "a-1";
  EXPECT_EQ(*run_.Run(RunList), ExitCode::kSucceeded);
  EXPECT_THAT(run_.out(), HasSubstr("a-1  RUNNING  5 of 10"));
  EXPECT_EQ(*run_.Run(RunStatus), ExitCode::kSucceeded);
  EXPECT_THAT(run_.out(), HasSubstr("state      RUNNING\n"));
  run_.flags().json = true;
  EXPECT_EQ(*run_.Run(RunList), ExitCode::kSucceeded);
  EXPECT_EQ(LastLine()["job_id"], "a-1");
  EXPECT_EQ(*run_.Run(RunStatus), ExitCode::kSucceeded);
  EXPECT_EQ(LastLine()["step"], 5);
}

TEST_F(ClusterCommandsTest, MembersTellWhoIsThere) {
  ListMembersResponse members;
  members.add_workers()->set_name("worker-7");
  jobs_.SetMembers(members);
  EXPECT_EQ(*run_.Run(RunMembers), ExitCode::kSucceeded);
  EXPECT_THAT(run_.out(), HasSubstr("worker-7"));
  run_.flags().json = true;
  EXPECT_EQ(*run_.Run(RunMembers), ExitCode::kSucceeded);
  EXPECT_EQ(LastLine()["name"], "worker-7");
}

TEST_F(ClusterCommandsTest, WatchFollowsToTheEnd) {
  AddRunningJob("a-1");
  jobs_.AddEvent("a-1", NoticeEvent("worker-1 is gone"));
  jobs_.AddEvent("a-1", StateEvent(SUCCEEDED, 10, {{"eval_accuracy", 0.5}}));
  run_.flags().job_id = "a-1";
  EXPECT_EQ(*run_.Run(RunWatch), ExitCode::kSucceeded);
  EXPECT_EQ(run_.out(),
            "job a-1\n"
            "RUNNING\n"
            "step 5/10 (50.0%)  100 examples/s  loss 2  2 workers\n"
            "worker-1 is gone\n"
            "SUCCEEDED: job a-1\n"
            "  steps      10 of 10\n"
            "  time       0:03\n"
            "  metrics    eval_accuracy 0.5\n");
}

TEST_F(ClusterCommandsTest, WatchAsJsonEndsWithTheFinalState) {
  AddRunningJob("a-1");
  jobs_.AddEvent("a-1", StateEvent(FAILED, 7, {}, "the loss is nan"));
  run_.flags().job_id = "a-1";
  run_.flags().json = true;
  EXPECT_EQ(*run_.Run(RunWatch), ExitCode::kFailed);
  EXPECT_EQ(LastLine(), Json::parse(R"({"event": "final", "job_id": "a-1", "state": "FAILED",
                                        "message": "the loss is nan", "step": 7,
                                        "total_steps": 10, "seconds": 2.0, "metrics": {}})"));
}

TEST_F(ClusterCommandsTest, WatchOfAShortJobAsksForItsSteps) {
  JobStatus status;
  status.set_job_id("a-1");
  status.set_total_steps(3);
  jobs_.SetJob(status);
  jobs_.AddEvent("a-1", StateEvent(SUCCEEDED, 3));
  run_.flags().job_id = "a-1";
  EXPECT_EQ(*run_.Run(RunWatch), ExitCode::kSucceeded);
  EXPECT_THAT(run_.out(), HasSubstr("3 of 3"));
}

TEST_F(ClusterCommandsTest, WatchEndsWithTheWarningsThatTheJobEndedWith) {
  JobStatus status;
  status.set_job_id("a-1");
  status.add_warnings("checkpoints: the last checkpoint is missing");
  jobs_.SetJob(status);
  jobs_.AddEvent("a-1", StateEvent(SUCCEEDED, 3));
  run_.flags().job_id = "a-1";
  EXPECT_EQ(*run_.Run(RunWatch), ExitCode::kSucceeded);
  EXPECT_THAT(run_.out(), HasSubstr("  warning    checkpoints: the last checkpoint is missing\n"));
}

TEST_F(ClusterCommandsTest, InterruptedWatchLeavesTheJobAndSaysHowToWatchAgain) {
  AddRunningJob("a-1");
  run_.flags().job_id = "a-1";
  absl::StatusOr<ExitCode> result = absl::UnknownError("");
  std::thread watcher([&] { result = run_.Run(RunWatch); });
  EXPECT_TRUE(jobs_.WaitForWatches(1));
  run_.interrupt().Trigger();
  watcher.join();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(*result, ExitCode::kInterrupted);
  EXPECT_THAT(run_.out(), HasSubstr("millrace watch a-1 --cluster=" + jobs_.address()));
}

TEST_F(ClusterCommandsTest, CheckpointWithWaitSaysWhereItIs) {
  JobStatus status;
  status.set_job_id("a-1");
  status.mutable_spec()->mutable_checkpoints()->set_directory("/checkpoints");
  status.mutable_checkpoint()->set_directory("/checkpoints");
  status.mutable_checkpoint()->set_number(17);
  status.mutable_checkpoint()->set_step(7000);
  *status.mutable_checkpoint()->mutable_written() = ToTimestamp(absl::Now());
  jobs_.SetJob(status);
  run_.flags().job_id = "a-1";
  run_.flags().wait = true;
  EXPECT_EQ(*run_.Run(RunCheckpoint), ExitCode::kSucceeded);
  EXPECT_THAT(run_.out(), HasSubstr("checkpoint 000017 at step 7,000, "));
  EXPECT_THAT(run_.out(), HasSubstr(", in /checkpoints\n"));
  ASSERT_THAT(jobs_.checkpoints(), SizeIs(1));
  EXPECT_TRUE(jobs_.checkpoints()[0].wait());
}

TEST_F(ClusterCommandsTest, ACheckpointThatDoesNotComeLeadsToWhy) {
  JobStatus status;
  status.set_job_id("job-1");
  jobs_.SetJob(status);
  jobs_.HoldCheckpoints();
  run_.flags().job_id = "job-1";
  run_.flags().wait = true;
  run_.flags().timeout = absl::Milliseconds(50);
  EXPECT_THAT(run_.Run(RunCheckpoint).status().ToString(), HasSubstr("`millrace why job-1` says"));
}

TEST_F(ClusterCommandsTest, CheckpointWithoutWaitSaysThatItIsAskedFor) {
  JobStatus status;
  status.set_job_id("a-1");
  status.mutable_spec()->mutable_checkpoints()->set_directory("/checkpoints");
  jobs_.SetJob(status);
  run_.flags().job_id = "a-1";
  EXPECT_EQ(*run_.Run(RunCheckpoint), ExitCode::kSucceeded);
  EXPECT_EQ(run_.out(), "a checkpoint of job a-1 is asked for; there is none yet\n");
  run_.flags().json = true;
  EXPECT_EQ(*run_.Run(RunCheckpoint), ExitCode::kSucceeded);
  EXPECT_EQ(LastLine(), Json::parse(R"({"job_id": "a-1", "checkpoint": null})"));
}

TEST_F(ClusterCommandsTest, CheckpointOfAJobWithoutADirectoryFails) {
  AddRunningJob("a-1");
  run_.flags().job_id = "a-1";
  EXPECT_EQ(run_.Run(RunCheckpoint).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(ClusterCommandsTest, CancelSaysWhatItDid) {
  AddRunningJob("a-1");
  run_.flags().job_id = "a-1";
  EXPECT_EQ(*run_.Run(RunCancel), ExitCode::kSucceeded);
  EXPECT_EQ(run_.out(), "job a-1 is cancelled at step 5\n");
}

// It said "is cancelled" and exited with 0 while the job still ran.
TEST_F(ClusterCommandsTest, CancelOfAJobThatDoesNotEndInTimeFails) {
  AddRunningJob("a-1");
  jobs_.HoldCancellations();
  run_.flags().job_id = "a-1";
  run_.flags().timeout = absl::ZeroDuration();
  const auto result = run_.Run(RunCancel);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(ExitCodeOf(result.status()), ExitCode::kFailed);
  EXPECT_THAT(result.status().ToString(), HasSubstr("millrace status a-1"));
  EXPECT_EQ(run_.out(), "");
  EXPECT_EQ(run_.err(), "cancellation of job a-1 is under way (RUNNING)\n");
}

// It took half a minute, whatever --timeout said.
TEST_F(ClusterCommandsTest, CancelGivesUpACoordinatorThatIsAwayWhenItsTimeIsOver) {
  run_.flags().job_id = "a-1";
  run_.flags().cluster = "127.0.0.1:1";
  run_.flags().timeout = absl::ZeroDuration();
  EXPECT_THAT(run_.Run(RunCancel).status().ToString(),
              HasSubstr("the coordinator at 127.0.0.1:1 did not answer CancelJob within 1s"));
}

TEST_F(ClusterCommandsTest, CancelWaitsForTheEndOfTheJob) {
  AddRunningJob("a-1");
  jobs_.HoldCancellations();
  run_.flags().job_id = "a-1";
  absl::StatusOr<ExitCode> result = absl::UnknownError("");
  std::thread cancel([&] { result = run_.Run(RunCancel); });
  EXPECT_TRUE(jobs_.WaitForCall("CancelJob"));
  jobs_.AddEvent("a-1", StateEvent(CANCELLED, 6));
  cancel.join();
  EXPECT_EQ(*result, ExitCode::kSucceeded);
  EXPECT_EQ(run_.out(), "job a-1 is cancelled at step 6\n");
}

// It ended without a word, and the user could not know that the job was there.
TEST_F(ClusterCommandsTest, InterruptedSubmitSaysThatTheJobMayHaveBeenTaken) {
  SetSmallJob();
  jobs_.HoldSubmissions();
  absl::StatusOr<ExitCode> result = absl::UnknownError("");
  std::thread submit([&] { result = run_.Run(RunSubmit); });
  EXPECT_TRUE(jobs_.WaitForCall("SubmitJob"));
  run_.interrupt().Trigger();
  submit.join();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(*result, ExitCode::kInterrupted);
  EXPECT_THAT(run_.err(), HasSubstr("may have been taken"));
  EXPECT_THAT(run_.err(), HasSubstr("millrace list --cluster=" + jobs_.address()));
}

TEST_F(ClusterCommandsTest, CancelOfAJobThatHasEndedSaysSo) {
  AddRunningJob("a-1");
  jobs_.AddEvent("a-1", StateEvent(SUCCEEDED));
  run_.flags().job_id = "a-1";
  EXPECT_EQ(*run_.Run(RunCancel), ExitCode::kSucceeded);
  EXPECT_EQ(run_.out(), "job a-1 had ended already: SUCCEEDED\n");
}

TEST_F(ClusterCommandsTest, UnknownJobsAreFailures) {
  run_.flags().job_id = "nobody";
  for (Command command : {RunStatus, RunWatch, RunCancel}) {
    const auto result = run_.Run(command);
    EXPECT_EQ(result.status().code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(result.status().ToString(), HasSubstr("nobody"));
  }
}

TEST_F(ClusterCommandsTest, MalformedClusterIsWrongUsage) {
  run_.flags().cluster = "nowhere";
  const absl::Status status = run_.Run(RunList).status();
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kUsage);
  EXPECT_THAT(status.ToString(), HasSubstr("--cluster: 'nowhere'; must be HOST:PORT"));
  run_.flags().cluster = "127.0.0.1:0";
  EXPECT_EQ(ExitCodeOf(run_.Run(RunList).status()), ExitCode::kUsage);
}

TEST_F(ClusterCommandsTest, ErrorsAreReportedToPeopleAndPrograms) {
  run_.flags().command = "list";
  ReportError(run_.context(), absl::NotFoundError("no job 'x'"));
  EXPECT_EQ(run_.err(), "millrace: NOT_FOUND: no job 'x'\n");
  EXPECT_EQ(run_.out(), "");
  run_.flags().json = true;
  ReportError(run_.context(), UsageError("bad"));
  EXPECT_THAT(run_.err(), HasSubstr("millrace: bad\nRun `millrace list --help`"));
  EXPECT_EQ(LastLine(), Json::parse(R"({"event": "error", "code": "INVALID_ARGUMENT",
                                        "message": "bad"})"));
}

EvacuatePsResponse Evacuation(const std::string& job_id, uint64_t shards, const std::string& why) {
  EvacuatePsResponse response;
  response.set_name("ps-1");
  response.set_directory_id("d1");
  if (shards == 0) return response;
  RemainingShards& job = *response.add_jobs();
  job.set_job_id(job_id);
  job.set_shards(shards);
  job.set_elements(40);
  job.set_why(why);
  return response;
}

TEST_F(ClusterCommandsTest, EvacuateWaitsUntilNoJobIsLeft) {
  EvacuatePsResponse done = Evacuation("", 0, "");
  done.set_ended_jobs(2);
  jobs_.SetEvacuation({Evacuation("a-1", 2, ""), Evacuation("a-1", 1, "no room"), done});
  run_.flags().ps_server = "ps-1";
  EXPECT_EQ(*run_.Run(RunEvacuate), ExitCode::kSucceeded);
  EXPECT_EQ(run_.err(),
            "ps-1 has 2 shards of job a-1\n"
            "ps-1 has 1 shard of job a-1 (no room)\n");
  EXPECT_EQ(
      run_.out(),
      "no job that runs has shards on ps-1, and none gets any there: it can be stopped; it has "
      "the variables of 2 jobs that have ended: what was neither exported nor is in a "
      "checkpoint goes with it\n");
  ASSERT_THAT(jobs_.evacuations(), SizeIs(3));
  EXPECT_EQ(jobs_.evacuations()[0].ps_server(), "ps-1");
  EXPECT_FALSE(jobs_.evacuations()[0].undo());
}

// Another server may come by the name meanwhile.
TEST_F(ClusterCommandsTest, EvacuateGoesOnByTheDirectoryAndTellsOnlyNews) {
  const EvacuatePsResponse still = Evacuation("a-1", 2, "no room");
  EvacuatePsResponse again = still;
  again.set_was_evacuated(true);
  EvacuatePsResponse nameless = Evacuation("a-1", 1, "");
  nameless.clear_name();
  EvacuatePsResponse done = Evacuation("", 0, "");
  done.set_ended_jobs(1);
  jobs_.SetEvacuation({still, again, nameless, done});
  run_.flags().ps_server = "ps-1";
  EXPECT_EQ(*run_.Run(RunEvacuate), ExitCode::kSucceeded);
  EXPECT_EQ(run_.err(),
            "ps-1 has 2 shards of job a-1 (no room)\n"
            "ps-1 has 1 shard of job a-1\n");
  EXPECT_THAT(run_.out(), HasSubstr("it has the variables of 1 job that has ended: "));
  ASSERT_THAT(jobs_.evacuations(), SizeIs(4));
  EXPECT_EQ(jobs_.evacuations()[0].ps_server(), "ps-1");
  for (size_t i = 1; i < 4; ++i) EXPECT_EQ(jobs_.evacuations()[i].ps_server(), "d1") << i;
}

TEST_F(ClusterCommandsTest, EvacuateOfAServerThatIsAwayDoesNotSayThatItCanBeStopped) {
  EvacuatePsResponse done = Evacuation("", 0, "");
  done.clear_name();
  jobs_.SetEvacuation({done});
  run_.flags().ps_server = "d1";
  EXPECT_EQ(*run_.Run(RunEvacuate), ExitCode::kSucceeded);
  EXPECT_EQ(run_.out(), "no job that runs has shards on d1, and none gets any there\n");
  EXPECT_EQ(run_.err(), "");
}

TEST_F(ClusterCommandsTest, EvacuateAsJsonIsOneLineOnceItIsDone) {
  EvacuatePsResponse done = Evacuation("", 0, "");
  done.set_ended_jobs(2);
  jobs_.SetEvacuation({Evacuation("a-1", 1, ""), done});
  run_.flags().ps_server = "ps-1";
  run_.flags().json = true;
  EXPECT_EQ(*run_.Run(RunEvacuate), ExitCode::kSucceeded);
  EXPECT_EQ(Json::parse(run_.out()),
            Json::parse(R"({"name": "ps-1", "directory_id": "d1", "evacuated": true, "jobs": [], )"
                        R"("ended_jobs": 2})"));
  EXPECT_EQ(run_.err(), "ps-1 has 1 shard of job a-1\n");
}

TEST_F(ClusterCommandsTest, EvacuateThatTakesTooLongNamesAllJobs) {
  EvacuatePsResponse left = Evacuation("a-1", 1, "no room");
  *left.add_jobs() = Evacuation("b-2", 1'200, "").jobs(0);
  jobs_.SetEvacuation({left});
  run_.flags().ps_server = "ps-1";
  run_.flags().timeout = absl::ZeroDuration();
  const absl::Status status = run_.Run(RunEvacuate).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(status.ToString(), HasSubstr("ps-1 still has 1 shard of job a-1 (no room), 1,200 "
                                           "shards of job b-2 after 0; "));
  EXPECT_EQ(run_.out(), "") << "nothing says that it can be stopped";
}

TEST_F(ClusterCommandsTest, InterruptedEvacuateEndsWithoutSayingThatItIsDone) {
  jobs_.SetEvacuation({Evacuation("a-1", 1, "no room")});
  run_.flags().ps_server = "ps-1";
  run_.flags().timeout = absl::Hours(1);
  run_.interrupt().Trigger();
  EXPECT_EQ(run_.Run(RunEvacuate).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(run_.out(), "");
  EXPECT_THAT(run_.err(), HasSubstr("the coordinator may have ps-1 evacuated all the same; "
                                    "`millrace evacuate --undo ps-1` ends that\n"));
}

TEST_F(ClusterCommandsTest, EvacuateThatTakesTooLongSaysWhatIsThereAndWhy) {
  jobs_.SetEvacuation({Evacuation("a-1", 1, "no room")});
  run_.flags().ps_server = "ps-1";
  run_.flags().timeout = absl::ZeroDuration();
  const auto result = run_.Run(RunEvacuate);
  EXPECT_EQ(ExitCodeOf(result.status()), ExitCode::kFailed);
  EXPECT_THAT(result.status().ToString(),
              HasSubstr("ps-1 still has 1 shard of job a-1 (no room) after 0; it stays evacuated, "
                        "and shards leave when they can, until `millrace evacuate --undo ps-1`"));
}

TEST_F(ClusterCommandsTest, EvacuateIsUndoneAtOnce) {
  EvacuatePsResponse undone = Evacuation("a-1", 1, "");
  undone.set_was_evacuated(true);
  jobs_.SetEvacuation({undone});
  run_.flags().ps_server = "ps-1";
  run_.flags().undo = true;
  EXPECT_EQ(*run_.Run(RunEvacuate), ExitCode::kSucceeded);
  EXPECT_EQ(
      run_.out(),
      "ps-1 gets shards again; `millrace rebalance JOB_ID` moves some of a running job there\n");
  EXPECT_TRUE(jobs_.evacuations()[0].undo());
  run_.flags().json = true;
  EXPECT_EQ(*run_.Run(RunEvacuate), ExitCode::kSucceeded);
  EXPECT_EQ(LastLine(),
            Json::parse(R"({"name": "ps-1", "directory_id": "d1", "evacuated": false, "jobs": [{)"
                        R"("job_id": "a-1", "shards": 1, "elements": 40, "why": ""}], )"
                        R"("ended_jobs": 0})"));
}

TEST_F(ClusterCommandsTest, UndoOfWhatNeverWasSaysSo) {
  jobs_.SetEvacuation({Evacuation("", 0, "")});
  run_.flags().ps_server = "ps-1";
  run_.flags().undo = true;
  EXPECT_EQ(*run_.Run(RunEvacuate), ExitCode::kSucceeded);
  EXPECT_EQ(run_.out(), "ps-1 was not evacuated: it gets shards\n");
}

TEST_F(ClusterCommandsTest, EvacuateOfNobodyFails) {
  run_.flags().ps_server = "ps-9";
  EXPECT_EQ(run_.Run(RunEvacuate).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ClusterCommandsTest, RebalanceOfNoJobFails) {
  run_.flags().job_id = "a-9";
  EXPECT_EQ(run_.Run(RunRebalance).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(run_.out(), "");
}

TEST_F(ClusterCommandsTest, RebalanceAsJsonOfNoMovesIsAnEmptyList) {
  AddRunningJob("a-1");
  run_.flags().job_id = "a-1";
  run_.flags().json = true;
  EXPECT_EQ(*run_.Run(RunRebalance), ExitCode::kSucceeded);
  EXPECT_EQ(Json::parse(run_.out()), Json::parse(R"({"job_id": "a-1", "moves": []})"));
}

TEST_F(ClusterCommandsTest, RebalanceSaysWhatMoves) {
  AddRunningJob("a-1");
  run_.flags().job_id = "a-1";
  EXPECT_EQ(*run_.Run(RunRebalance), ExitCode::kSucceeded);
  EXPECT_THAT(run_.out(), HasSubstr("nothing moves: "));
  RebalanceJobResponse moves;
  PlannedMove& move = *moves.add_moves();
  move.set_shard(3);
  move.set_elements(1234);
  move.set_from("ps-0");
  move.set_to("ps-2");
  jobs_.SetBalance(moves);
  EXPECT_EQ(*run_.Run(RunRebalance), ExitCode::kSucceeded);
  EXPECT_THAT(run_.out(), HasSubstr("shard 3 moves from ps-0 to ps-2 (1,234 elements)\n"
                                    "`millrace watch a-1` tells when that is done"));
  run_.flags().json = true;
  EXPECT_EQ(*run_.Run(RunRebalance), ExitCode::kSucceeded);
  EXPECT_EQ(LastLine(), Json::parse(R"({"job_id": "a-1", "moves": [{"shard": 3, "elements": 1234, )"
                                    R"("from": "ps-0", "to": "ps-2"}]})"));
}

}  // namespace
}  // namespace millrace::client
