// `millrace train`, on an embedded cluster and on a scripted one.
#include "client/commands/train.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "client/commands/export.h"
#include "client/embedded_cluster.h"
#include "client/testing/fake_jobs.h"
#include "client/testing/run_command.h"
#include "client/testing/small_checkpoint.h"
#include "client/testing/small_job.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/checkpoint/checkpoint_records.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace millrace::client {
namespace {

using ::millrace::testing::CommandRun;
using ::millrace::testing::FakeJobs;
using ::millrace::testing::FlipLastByte;
using ::millrace::testing::NoDirectory;
using ::millrace::testing::ProgressEvent;
using ::millrace::testing::SmallData;
using ::millrace::testing::SmallJob;
using ::millrace::testing::StateEvent;
using ::millrace::testing::WriteFile;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::TempDir;

std::string FileBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// Sets the flags to the small job and its data.
void SetSmallJob(CommandRun* run) {
  run->flags().command = "train";
  run->flags().job_file = WriteFile("job.textproto", SmallJob());
  run->flags().data = SmallData();
}

class TrainTest : public ::testing::Test {
 protected:
  TrainTest() { SetSmallJob(&run_); }

  CommandRun run_;
};

// It would wait for a worker that can never come.
TEST_F(TrainTest, ModelThatWorkersOfThisProcessDoNotKnowIsRefused) {
  run_.flags().set = {"model={custom: {name: 'own'}}"};
  EXPECT_THAT(run_.Run(RunTrain).status().ToString(),
              HasSubstr("model.custom.name: 'own'; must be left out here"));
}

// A job that was submitted before its workers had joined waited for others, for ever.
TEST_F(TrainTest, ModelThatNoWorkerHasMemoryForIsRefusedOnEachRun) {
  const std::string wide = "layers { dense { units: 1000000 activation: RELU } } ";
  std::string job = SmallJob();
  job.replace(job.find("layers"), 0, wide + wide);
  run_.flags().job_file = WriteFile("wide.textproto", job);
  for (int run = 0; run < 20; ++run) {
    const auto result = run_.Run(RunTrain);
    EXPECT_EQ(result.status().code(), absl::StatusCode::kResourceExhausted) << result.status();
    EXPECT_THAT(result.status().ToString(), HasSubstr("use smaller layers"));
  }
}

TEST_F(TrainTest, TrainsOnAClusterOfItsOwn) {
  EXPECT_EQ(*run_.Run(RunTrain), ExitCode::kSucceeded);
  EXPECT_THAT(run_.out(),
              ContainsRegex("SUCCEEDED: job small-1-[a-z0-9]+\n  steps      15 of 15\n"));
  EXPECT_THAT(run_.out(), HasSubstr("eval_accuracy"));
  EXPECT_THAT(run_.err(), IsEmpty());
}

TEST_F(TrainTest, SynchronousJobsExportTheSameBytesOnEveryCluster) {
  std::string reference;
  for (int members : {1, 2, 3}) {
    CommandRun run;
    SetSmallJob(&run);
    run.flags().set = {"synchronous.replicas=3"};
    run.flags().ps = members;
    run.flags().workers = 4 - members;
    run.flags().export_file = TempDir() + "/sync.safetensors";
    ASSERT_EQ(*run.Run(RunTrain), ExitCode::kSucceeded) << run.out();
    EXPECT_THAT(run.out(), HasSubstr("variables  " + run.flags().export_file));
    const std::string bytes = FileBytes(run.flags().export_file);
    EXPECT_THAT(bytes, Not(IsEmpty()));
    if (reference.empty()) reference = bytes;
    EXPECT_EQ(bytes, reference) << members << " ps servers";
  }
}

TEST_F(TrainTest, JsonEndsWithTheFinalStateAndNamesTheExport) {
  run_.flags().json = true;
  run_.flags().export_file = TempDir() + "/json.safetensors";
  EXPECT_EQ(*run_.Run(RunTrain), ExitCode::kSucceeded);
  const std::string out = run_.out();
  const auto last = nlohmann::json::parse(out.substr(out.rfind('\n', out.size() - 2) + 1));
  EXPECT_EQ(last["state"], "SUCCEEDED");
  EXPECT_EQ(last["step"], 15);
  EXPECT_EQ(last["export"], run_.flags().export_file);
  EXPECT_TRUE(last["metrics"]["eval_accuracy"].is_number());
}

TEST_F(TrainTest, ExportsThatCannotBeWrittenAreRefusedBeforeTraining) {
  run_.flags().export_file = TempDir() + "/nowhere/file.npz";
  const auto result = run_.Run(RunTrain);
  EXPECT_THAT(result.status().ToString(), HasSubstr("/nowhere"));
  EXPECT_THAT(run_.out(), IsEmpty());
}

TEST_F(TrainTest, InterruptCancelsAJobOfItsOwnCluster) {
  run_.flags().set = {"epochs=100000000"};
  run_.interrupt().Trigger();  // Before there is a job.
  const absl::StatusOr<ExitCode> result = run_.Run(RunTrain);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(*result, ExitCode::kInterrupted);
  EXPECT_THAT(run_.out(), Not(HasSubstr("may have been taken")));
}

TEST_F(TrainTest, AJobWithCheckpointsGoesOnWhereItWas) {
  run_.flags().checkpoints = NoDirectory("going_on");
  run_.flags().set = {"checkpoints.every_steps=5"};
  ASSERT_EQ(*run_.Run(RunTrain), ExitCode::kSucceeded) << run_.out();
  EXPECT_THAT(run_.out(), Not(HasSubstr("Goes on at")));

  CommandRun ended;
  SetSmallJob(&ended);
  ended.flags() = run_.flags();
  ended.flags().export_file = TempDir() + "/ended.safetensors";
  EXPECT_EQ(*ended.Run(RunTrain), ExitCode::kSucceeded);
  EXPECT_THAT(ended.out(), HasSubstr("The job has ended before"));
  EXPECT_THAT(FileBytes(ended.flags().export_file), Not(IsEmpty()));

  CommandRun longer;
  longer.flags() = run_.flags();
  longer.flags().set.push_back("epochs=5");
  longer.flags().ps = 2;
  EXPECT_EQ(*longer.Run(RunTrain), ExitCode::kSucceeded) << longer.out();
  EXPECT_THAT(longer.out(), HasSubstr("Goes on at step 15 from checkpoint 0000"));
  EXPECT_THAT(longer.out(), HasSubstr("  steps      25 of 25\n"));

  CommandRun other;
  other.flags() = run_.flags();
  other.flags().set.push_back("batch_size=4");
  const absl::Status status = other.Run(RunTrain).status();
  EXPECT_THAT(status.ToString(), HasSubstr("batch_size: 4; must be 8"));
}

// With a state directory it was once trained on, by its whole patience each time.
TEST_F(TrainTest, TheFolderOfACheckpointIsNoDirectoryForCheckpoints) {
  const std::string directory = NormalDirectory(NoDirectory("one_of_them"));
  run_.flags().checkpoints = directory;
  ASSERT_EQ(*run_.Run(RunTrain), ExitCode::kSucceeded) << run_.out();
  CommandRun mistaken;
  mistaken.flags() = run_.flags();
  mistaken.flags().checkpoints = directory + "/000001";
  EXPECT_THAT(mistaken.Run(RunTrain).status().ToString(),
              HasSubstr("--restore=" + directory + "/000001"));
}

TEST_F(TrainTest, AJobThatWasStoppedEarlyHasEndedForWhoAsksForItAgain) {
  for (const bool with_state : {false, true}) {
    CommandRun first;
    SetSmallJob(&first);
    first.flags().checkpoints = NoDirectory(absl::StrCat("stopped_early_", with_state));
    if (with_state) first.flags().state_dir = NoDirectory("stopped_early_state");
    first.flags().set = {"epochs=1000", "evaluation.every_steps=5",
                         "evaluation.early_stopping.patience=1",
                         "evaluation.early_stopping.min_delta=1000"};
    first.flags().export_file = TempDir() + "/stopped_early.safetensors";
    ASSERT_EQ(*first.Run(RunTrain), ExitCode::kSucceeded) << first.out();
    EXPECT_THAT(first.out(), HasSubstr("stopped early at step 10"));
    const std::string bytes = FileBytes(first.flags().export_file);
    CommandRun again;
    again.flags() = first.flags();
    EXPECT_EQ(*again.Run(RunTrain), ExitCode::kSucceeded) << again.out();
    EXPECT_THAT(again.out(), HasSubstr("The job has ended before"));
    EXPECT_THAT(again.out(), HasSubstr("stopped early at step 10"));
    EXPECT_EQ(FileBytes(first.flags().export_file), bytes);
  }
}

TEST_F(TrainTest, ACheckpointWithDamagedValuesIsPassedOverUnlessItIsNamed) {
  const std::string checkpoints = NoDirectory("damaged_values");
  for (const std::string epochs : {"epochs=2", "epochs=3"}) {
    CommandRun run;
    SetSmallJob(&run);
    run.flags().checkpoints = checkpoints;
    run.flags().set = {"checkpoints.keep=10", epochs};
    ASSERT_EQ(*run.Run(RunTrain), ExitCode::kSucceeded) << run.out();
  }
  const uint64_t newest = *CheckpointDirectory(RealFileSystem(), checkpoints).Newest();
  const auto manifest = ReadManifest(RealFileSystem(), checkpoints, newest);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  const auto& files = manifest->shards(0).files();
  const std::string file = files[files.size() - 1];
  FlipLastByte(checkpoints + "/" + file);

  run_.flags().set = {"epochs=5"};
  run_.flags().restore = checkpoints + "/" + CheckpointFolder(newest);
  EXPECT_EQ(*run_.Run(RunTrain), ExitCode::kFailed) << run_.out();
  EXPECT_THAT(run_.out(), HasSubstr(file));
  EXPECT_THAT(run_.out(), ContainsRegex("bytes? [0-9]+"));
  EXPECT_THAT(run_.out(), ContainsRegex("--restore=/.*/damaged_values/0000"));

  CommandRun again;
  SetSmallJob(&again);
  again.flags().checkpoints = checkpoints;
  again.flags().set = {"epochs=5"};
  EXPECT_EQ(*again.Run(RunTrain), ExitCode::kSucceeded) << again.out();
  EXPECT_THAT(again.out(), HasSubstr(file));
  EXPECT_THAT(again.out(), HasSubstr("Goes on at step 10 from checkpoint 0000"));
  EXPECT_THAT(again.out(), HasSubstr("  steps      25 of 25\n"));
}

TEST_F(TrainTest, ACheckpointIsTrainedOnWithoutAJobFile) {
  run_.flags().checkpoints = NoDirectory("without_file");
  ASSERT_EQ(*run_.Run(RunTrain), ExitCode::kSucceeded) << run_.out();
  CommandRun restored;
  restored.flags().command = "train";
  restored.flags().restore = run_.flags().checkpoints;
  restored.flags().set = {"epochs=4"};
  EXPECT_EQ(*restored.Run(RunTrain), ExitCode::kSucceeded) << restored.out();
  EXPECT_THAT(restored.out(), HasSubstr("  steps      20 of 20\n"));
}

TEST_F(TrainTest, VariablesOfAnotherJobAreABeginning) {
  run_.flags().export_file = TempDir() + "/learned.safetensors";
  ASSERT_EQ(*run_.Run(RunTrain), ExitCode::kSucceeded) << run_.out();
  CommandRun warm;
  SetSmallJob(&warm);
  warm.flags().init_from = run_.flags().export_file;
  EXPECT_EQ(*warm.Run(RunTrain), ExitCode::kSucceeded) << warm.out();
  warm.flags().init_rule = {"logit/kernel=nowhere"};
  const auto result = warm.Run(RunTrain);
  // The job is refused, or, where no worker was there yet, taken and failed.
  if (result.ok()) {
    EXPECT_EQ(*result, ExitCode::kFailed);
  }
  EXPECT_THAT(result.ok() ? warm.out() : result.status().ToString(), HasSubstr("nowhere"));
}

TEST_F(TrainTest, DataThatIsNotThereFailsTheCommand) {
  run_.flags().data = "/nonexistent";
  const auto result = run_.Run(RunTrain);
  // The job is refused, or, where no worker was there yet, taken and failed.
  if (result.ok()) {
    EXPECT_EQ(*result, ExitCode::kFailed);
  }
  const std::string message = result.ok() ? run_.out() : result.status().ToString();
  EXPECT_THAT(message, HasSubstr("/nonexistent"));
}

TEST_F(TrainTest, ClusterOfOthersIsGivenTheJob) {
  FakeJobs jobs;
  jobs.SetEventsOfNewJobs(
      {StateEvent(RUNNING), ProgressEvent(5, 15, 100), StateEvent(SUCCEEDED, 15)});
  run_.flags().cluster = jobs.address();
  EXPECT_EQ(*run_.Run(RunTrain), ExitCode::kSucceeded);
  ASSERT_THAT(jobs.submissions(), SizeIs(1));
  EXPECT_THAT(run_.out(), HasSubstr("SUCCEEDED: job job-1\n  steps      15 of 15\n"));
}

TEST_F(TrainTest, JobsThatFailExitWithOne) {
  FakeJobs jobs;
  jobs.SetEventsOfNewJobs({StateEvent(FAILED, 7, {}, "the loss at step 7 is nan")});
  run_.flags().cluster = jobs.address();
  run_.flags().export_file = TempDir() + "/failed.safetensors";
  EXPECT_EQ(*run_.Run(RunTrain), ExitCode::kFailed);
  EXPECT_THAT(run_.out(), HasSubstr("FAILED: job job-1: the loss at step 7 is nan"));
  EXPECT_THAT(FileBytes(run_.flags().export_file), IsEmpty());
}

// An {"event": "error"} came after it, where programs look for the final state.
TEST_F(TrainTest, JsonEndsWithTheFinalStateWhenTheExportFails) {
  FakeJobs jobs;
  jobs.SetEventsOfNewJobs({StateEvent(RUNNING), StateEvent(SUCCEEDED, 15, {{"loss", 0.5}})});
  run_.flags().cluster = jobs.address();
  run_.flags().json = true;
  run_.flags().export_file = TempDir() + "/failing.safetensors";
  EXPECT_EQ(*run_.Run(RunTrain), ExitCode::kFailed);  // The job has no variables.
  const std::string out = run_.out();
  const auto last = nlohmann::json::parse(out.substr(out.rfind('\n', out.size() - 2) + 1));
  EXPECT_EQ(last["event"], "final");
  EXPECT_EQ(last["state"], "SUCCEEDED");
  EXPECT_EQ(last["step"], 15);
  EXPECT_EQ(last["metrics"]["loss"], 0.5);
  EXPECT_EQ(last.count("export"), 0u);
  EXPECT_THAT(std::string(last["export_error"]), HasSubstr("FAILED_PRECONDITION: cannot fetch"));
  EXPECT_THAT(run_.err(), HasSubstr("millrace: FAILED_PRECONDITION: cannot fetch"));
}

TEST_F(TrainTest, InterruptWhileTheJobIsSubmittedSaysThatItMayHaveBeenTaken) {
  FakeJobs jobs;
  jobs.HoldSubmissions();
  run_.flags().cluster = jobs.address();
  absl::StatusOr<ExitCode> result = absl::UnknownError("");
  std::thread train([&] { result = run_.Run(RunTrain); });
  EXPECT_TRUE(jobs.WaitForCall("SubmitJob"));
  run_.interrupt().Trigger();
  train.join();
  EXPECT_EQ(*result, ExitCode::kInterrupted);
  EXPECT_THAT(run_.out(), HasSubstr("may have been taken"));
}

TEST_F(TrainTest, InterruptLeavesAJobOfAnotherClusterAlone) {
  FakeJobs jobs;
  jobs.SetEventsOfNewJobs({StateEvent(RUNNING)});
  run_.flags().cluster = jobs.address();
  absl::StatusOr<ExitCode> result = absl::UnknownError("");
  std::thread train([&] { result = run_.Run(RunTrain); });
  EXPECT_TRUE(jobs.WaitForWatches(1));
  run_.interrupt().Trigger();
  train.join();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(*result, ExitCode::kInterrupted);
  EXPECT_THAT(run_.out(), HasSubstr("millrace watch job-1 --cluster=" + jobs.address()));
}

TEST(ExportTest, WritesTheVariablesOfAJobThatHasEnded) {
  auto cluster = EmbeddedCluster::Start({.ps = 2, .workers = 1});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  CommandRun train;
  SetSmallJob(&train);
  train.flags().cluster = (*cluster)->address();
  train.flags().export_file = TempDir() + "/trained.safetensors";
  ASSERT_EQ(*train.Run(RunTrain), ExitCode::kSucceeded);

  CommandRun run;
  run.flags().cluster = (*cluster)->address();
  const std::string told = train.out().substr(train.out().find("job ") + 4);
  run.flags().job_id = told.substr(0, told.find('\n'));
  run.flags().export_file = TempDir() + "/exported.safetensors";
  ASSERT_EQ(*run.Run(RunExport), ExitCode::kSucceeded);
  EXPECT_EQ(run.out(), "variables of job " + run.flags().job_id +
                           " after 15 steps: " + run.flags().export_file + "\n");
  EXPECT_EQ(FileBytes(run.flags().export_file), FileBytes(train.flags().export_file));
}

// The loss falls from evaluation to evaluation, so the last one is the best.
TEST_F(TrainTest, BestStateIsExportedFromADirectoryThatGoesWithTheCommand) {
  std::string last;
  for (const bool best : {false, true}) {
    CommandRun run;
    SetSmallJob(&run);
    run.flags().set = {"synchronous.replicas=1", "evaluation.every_steps=5"};
    if (best) run.flags().set.push_back("evaluation.keep_best={}");
    run.flags().best = best;
    run.flags().export_file = TempDir() + "/best.safetensors";
    ASSERT_EQ(*run.Run(RunTrain), ExitCode::kSucceeded) << run.out() << run.err();
    const std::string bytes = FileBytes(run.flags().export_file);
    EXPECT_THAT(bytes, Not(IsEmpty()));
    if (!best) last = bytes;
    EXPECT_EQ(bytes, last);
    EXPECT_EQ(run.out().find("  best       eval_loss ") != std::string::npos, best);
    EXPECT_EQ(run.out().find("; the best so far)") != std::string::npos, best);
  }
}

TEST_F(TrainTest, BestStateOfAJobThatKeepsNoneIsWrongUsage) {
  run_.flags().export_file = TempDir() + "/no_best.safetensors";
  run_.flags().best = true;
  const auto result = run_.Run(RunTrain);
  EXPECT_EQ(ExitCodeOf(result.status()), ExitCode::kUsage);
  EXPECT_THAT(result.status().ToString(), HasSubstr("evaluation.keep_best"));
}

// It was taken for the job's, and programs saw an {"event": "error"} after the final state.
TEST_F(TrainTest, BestStateOfAnEndedJobWithAnotherRuleIsRefusedAfterTheFinalState) {
  const std::string checkpoints = NoDirectory("another_best");
  CommandRun first;
  SetSmallJob(&first);
  first.flags().checkpoints = checkpoints;
  first.flags().set = {"synchronous.replicas=1", "evaluation.keep_best={}"};
  ASSERT_EQ(*first.Run(RunTrain), ExitCode::kSucceeded) << first.out() << first.err();
  SetSmallJob(&run_);
  run_.flags().checkpoints = checkpoints;
  run_.flags().set = {"synchronous.replicas=1", "evaluation.keep_best={goal: LARGER_IS_BETTER}"};
  run_.flags().best = true;
  run_.flags().json = true;
  run_.flags().export_file = TempDir() + "/another_best.safetensors";
  EXPECT_EQ(*run_.Run(RunTrain), ExitCode::kFailed);
  const std::string out = run_.out();
  const auto last = nlohmann::json::parse(out.substr(out.rfind('\n', out.size() - 2) + 1));
  EXPECT_EQ(last["event"], "final");
  EXPECT_THAT(run_.err(), HasSubstr("kept the state with the smallest eval_loss"));
}

TEST_F(TrainTest, AJobThatIsToKeepTheBestStateNeedsADirectoryThatStays) {
  run_.flags().set = {"evaluation.keep_best={}"};
  EXPECT_THAT(run_.Run(RunTrain).status().ToString(),
              HasSubstr("checkpoints.directory: not set; must be"));
}

// A loss of 0 is never beaten: with a goal of large values the first evaluation stays the best.
TEST_F(TrainTest, AJobThatStopsEarlySaysSoAndHasEndedForTheSameCommand) {
  run_.flags().checkpoints = NoDirectory("stopping");
  run_.flags().set = {"evaluation.every_steps=5", "evaluation.early_stopping.patience=2",
                      "evaluation.early_stopping.goal=LARGER_IS_BETTER",
                      "evaluation.keep_best.goal=LARGER_IS_BETTER", "epochs=20"};
  run_.flags().json = true;
  ASSERT_EQ(*run_.Run(RunTrain), ExitCode::kSucceeded) << run_.err();
  const std::string out = run_.out();
  const auto last = nlohmann::json::parse(out.substr(out.rfind('\n', out.size() - 2) + 1));
  EXPECT_EQ(last["step"], 15);
  EXPECT_EQ(last["total_steps"], 15);
  EXPECT_EQ(last["stopped_early"]["total_steps"], 100);
  EXPECT_EQ(last["best"]["step"], 5);
  EXPECT_THAT(std::string(last["message"]),
              ContainsRegex("stopped early at step 15 of 100: eval_loss has not been above [0-9.]+ "
                            "since step 5"));

  CommandRun again;
  SetSmallJob(&again);
  again.flags() = run_.flags();
  again.flags().json = false;
  again.flags().best = true;
  again.flags().export_file = TempDir() + "/stopped.safetensors";
  EXPECT_EQ(*again.Run(RunTrain), ExitCode::kSucceeded) << again.err();
  EXPECT_THAT(again.out(), HasSubstr("it was stopped early at step 15 of 100"));
  EXPECT_THAT(FileBytes(again.flags().export_file), Not(IsEmpty()));

  CommandRun longer;
  longer.flags() = run_.flags();
  longer.flags().json = false;
  longer.flags().set.push_back("epochs=21");
  EXPECT_EQ(*longer.Run(RunTrain), ExitCode::kSucceeded) << longer.err();
  EXPECT_THAT(longer.out(), HasSubstr("Goes on at step 15"));
  EXPECT_THAT(longer.out(), HasSubstr("stopped early at step 25 of 105"));
}

TEST(ExportTest, BestStateIsThatOfACheckpoint) {
  auto cluster = EmbeddedCluster::Start({.ps = 2, .workers = 1});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  CommandRun train;
  SetSmallJob(&train);
  train.flags().cluster = (*cluster)->address();
  train.flags().checkpoints = NoDirectory("best_of_cluster");
  train.flags().set = {"evaluation.every_steps=5", "evaluation.keep_best.goal=LARGER_IS_BETTER",
                       "checkpoints.keep=1"};
  train.flags().export_file = TempDir() + "/last.safetensors";
  ASSERT_EQ(*train.Run(RunTrain), ExitCode::kSucceeded) << train.err();

  CommandRun run;
  run.flags().cluster = (*cluster)->address();
  const std::string told = train.out().substr(train.out().find("job ") + 4);
  run.flags().job_id = told.substr(0, told.find('\n'));
  run.flags().best = true;
  run.flags().export_file = TempDir() + "/best_of_cluster.safetensors";
  ASSERT_EQ(*run.Run(RunExport), ExitCode::kSucceeded) << run.err();
  EXPECT_THAT(run.out(), ContainsRegex("with the best eval_loss [0-9.]+ at step 5: "));
  EXPECT_THAT(FileBytes(run.flags().export_file), Not(IsEmpty()));
  EXPECT_NE(FileBytes(run.flags().export_file), FileBytes(train.flags().export_file));
  std::filesystem::remove_all(train.flags().checkpoints);
  const auto gone = run.Run(RunExport);
  EXPECT_EQ(gone.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(gone.status().ToString(), HasSubstr("where that directory can be seen"));
}

TEST(ExportTest, RefusesTheBestOfAJobThatKeepsNone) {
  FakeJobs jobs;
  JobStatus status;
  status.set_job_id("job-1");
  status.set_state(SUCCEEDED);
  jobs.SetJob(status);
  CommandRun run;
  run.flags().cluster = jobs.address();
  run.flags().job_id = "job-1";
  run.flags().best = true;
  run.flags().export_file = TempDir() + "/none.safetensors";
  EXPECT_THAT(run.Run(RunExport).status().ToString(), HasSubstr("keeps no best state"));
}

TEST(ExportTest, RefusesAJobThatRuns) {
  FakeJobs jobs;
  JobStatus status;
  status.set_job_id("job-1");
  status.set_state(RUNNING);
  jobs.SetJob(status);
  CommandRun run;
  run.flags().cluster = jobs.address();
  run.flags().job_id = "job-1";
  run.flags().export_file = TempDir() + "/running.safetensors";
  const auto result = run.Run(RunExport);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(result.status().ToString(), HasSubstr("millrace watch"));
}

}  // namespace
}  // namespace millrace::client
