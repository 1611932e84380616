// `millrace checkpoints rm` and a job that has the directory.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <sstream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/commands/checkpoints_rm.h"
#include "client/testing/run_command.h"
#include "client/testing/small_checkpoint.h"
#include "client/testing/small_job.h"
#include "common/job_spec.h"
#include "common/storage/durable_file.h"
#include "coordinator/checkpoint/checkpoint_hold.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::client {
namespace {

using ::millrace::coordinator::CheckpointHold;
using ::millrace::coordinator::WhoHolds;
using ::millrace::testing::CommandRun;
using ::millrace::testing::NoDirectory;
using ::millrace::testing::SmallCheckpoint;
using ::millrace::testing::WriteSmallCheckpoint;
using ::testing::AllOf;
using ::testing::HasSubstr;

class CheckpointsHeldTest : public ::testing::Test {
 protected:
  CheckpointsHeldTest() : directory_(NoDirectory("held")), job_(RealFileSystem(), directory_) {
    checkpoint_.spec = *ParseJobSpec(millrace::testing::SmallJob(), "small");
  }

  void WriteAtStep(uint64_t step) {
    checkpoint_.step = step;
    WriteSmallCheckpoint(directory_, checkpoint_);
  }

  void BeginJob() { ASSERT_TRUE(job_.Take("job 'small-1-test'", /*makes_directory=*/true).ok()); }

  bool IsThere(const std::string& folder) const {
    return std::filesystem::exists(absl::StrCat(directory_, "/", folder, "/manifest.json"));
  }

  absl::Status Remove(const std::string& folder) {
    CommandRun run;
    run.flags() = flags_;
    run.flags().path = folder.empty() ? directory_ : absl::StrCat(directory_, "/", folder);
    return run.Run(RunCheckpointsRm).status();
  }

  const std::string directory_;
  CheckpointHold job_;
  SmallCheckpoint checkpoint_;
  Flags flags_;
};

TEST_F(CheckpointsHeldTest, OldOneMayGoWhileAJobRuns) {
  for (const uint64_t step : {5, 7, 9}) WriteAtStep(step);
  BeginJob();
  EXPECT_EQ(Remove("000001"), absl::OkStatus());
  EXPECT_FALSE(IsThere("000001"));
  flags_.keep = 1;
  EXPECT_EQ(Remove(""), absl::OkStatus());
  EXPECT_FALSE(IsThere("000002"));
  EXPECT_TRUE(IsThere("000003"));
  EXPECT_TRUE(std::filesystem::exists(directory_ + "/held-by")) << "the job's";
}

// It was removed from under the job, which went on from it when it lost a disk, or had its next
// checkpoint refer to it.
TEST_F(CheckpointsHeldTest, NewestOneStaysWhileAJobRuns) {
  for (const uint64_t step : {9, 7}) WriteAtStep(step);
  BeginJob();
  for (const bool force : {false, true}) {
    flags_.force = force;
    const absl::Status refused = Remove("000002");
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(refused.message()),
                AllOf(HasSubstr(absl::StrCat("/000002 stays for now: '", directory_,
                                             "' is held by job 'small-1-test' of process ")),
                      HasSubstr("which may go on from it, and refer to its files in the next one"),
                      HasSubstr("or wait for that job's end, or cancel it")));
  }
  EXPECT_TRUE(IsThere("000002"));
  job_.Release();
  EXPECT_EQ(Remove("000002"), absl::OkStatus());
}

TEST_F(CheckpointsHeldTest, FurthestOneStaysWhileAJobRuns) {
  for (const uint64_t step : {5, 9, 7}) WriteAtStep(step);
  BeginJob();
  flags_.force = true;
  EXPECT_THAT(std::string(Remove("000002").message()),
              AllOf(HasSubstr("/000002 stays for now: "), HasSubstr("which may go on from it; ")));
  EXPECT_EQ(Remove("000001"), absl::OkStatus());
  job_.Release();
  EXPECT_EQ(Remove("000002"), absl::OkStatus());
}

TEST_F(CheckpointsHeldTest, OneThatAJobMayBeWritingStays) {
  WriteAtStep(5);
  std::filesystem::create_directory(directory_ + "/000002");
  std::ofstream(directory_ + "/000002/shard-00000.safetensors").flush();
  BeginJob();
  flags_.force = true;
  EXPECT_THAT(std::string(Remove("000002").message()), HasSubstr("which may be writing it"));
  job_.Release();
  EXPECT_EQ(Remove("000002"), absl::OkStatus());
}

// Whoever is told of something tries to have the directory.
class Taker final : public std::stringbuf {
 public:
  explicit Taker(CheckpointHold* hold) : hold_(hold) {}
  const absl::Status& taken() const { return taken_; }

 private:
  int sync() override {
    taken_ = hold_->Take("job 'b-1'", /*makes_directory=*/false);
    return 0;
  }

  CheckpointHold* const hold_;
  absl::Status taken_;
};

TEST_F(CheckpointsHeldTest, NoJobBeginsWhileSomethingIsRemoved) {
  for (const uint64_t step : {5, 7}) WriteAtStep(step);
  Taker taker(&job_);
  std::ostream told(&taker);
  CommandRun run;
  CommandContext context = run.context();
  context.console.out = &told;
  context.flags.path = directory_ + "/000001";
  EXPECT_EQ(*RunCheckpointsRm(context), ExitCode::kSucceeded);
  EXPECT_THAT(WhoHolds(taker.taken()),
              HasSubstr("is held by `millrace checkpoints rm` of process "));
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/held-by"));
  BeginJob();
}

}  // namespace
}  // namespace millrace::client
