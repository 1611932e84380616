// `millrace checkpoints` where the newest checkpoint is not the one that a job goes on from.
#include <filesystem>
#include <memory>
#include <string>

#include "client/commands/checkpoints_rm.h"
#include "client/commands/checkpoints_verify.h"
#include "client/testing/run_command.h"
#include "client/testing/small_checkpoint.h"
#include "client/testing/small_job.h"
#include "common/job_spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace millrace::client {
namespace {

using ::millrace::testing::CommandRun;
using ::millrace::testing::FlipLastByte;
using ::millrace::testing::NoDirectory;
using ::millrace::testing::SmallCheckpoint;
using ::millrace::testing::WriteSmallCheckpoint;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

class CheckpointsFurthestTest : public ::testing::Test {
 protected:
  CheckpointsFurthestTest() : directory_(NoDirectory("furthest")) {
    checkpoint_.spec = *ParseJobSpec(millrace::testing::SmallJob(), "small");
  }

  void WriteAtStep(uint64_t step) {
    checkpoint_.step = step;
    checkpoint_.variables[1].values[0] = static_cast<float>(step);
    WriteSmallCheckpoint(directory_, checkpoint_);
  }

  bool IsThere(const std::string& folder) const {
    return std::filesystem::exists(directory_ + "/" + folder + "/manifest.json");
  }

  // Runs a command on DIRECTORY/`below`.
  absl::StatusOr<ExitCode> Run(Command command, const std::string& below = "") {
    run_ = std::make_unique<CommandRun>();
    run_->flags() = flags_;
    run_->flags().path = directory_ + below;
    return run_->Run(command);
  }

  const std::string directory_;
  SmallCheckpoint checkpoint_;
  Flags flags_;
  std::unique_ptr<CommandRun> run_;
};

// It took the one with the highest number for what a job goes on from.
TEST_F(CheckpointsFurthestTest, RmLeavesTheFurthestUnlessForced) {
  WriteAtStep(9);
  WriteAtStep(7);
  const auto refused = Run(RunCheckpointsRm, "/000001");
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.status().ToString(),
              HasSubstr("000001 is the furthest whole checkpoint: a job goes on from it; --force "
                        "removes it"));
  EXPECT_EQ(*Run(RunCheckpointsRm, "/000002"), ExitCode::kSucceeded);
  flags_.force = true;
  EXPECT_EQ(*Run(RunCheckpointsRm, "/000001"), ExitCode::kSucceeded);
  EXPECT_FALSE(IsThere("000001"));
}

TEST_F(CheckpointsFurthestTest, RmKeepsTheFurthestBesideTheNewest) {
  WriteAtStep(5);
  WriteAtStep(9);
  WriteAtStep(7);
  flags_.keep = 1;
  EXPECT_EQ(*Run(RunCheckpointsRm), ExitCode::kSucceeded);
  EXPECT_THAT(run_->out(), HasSubstr("/000002 stays: it is the furthest whole one: a job goes on "
                                     "from it\n"));
  EXPECT_FALSE(IsThere("000001"));
  EXPECT_TRUE(IsThere("000002"));
  EXPECT_TRUE(IsThere("000003"));
}

// A damaged one is none that a job goes on from, and goes only by its name.
TEST_F(CheckpointsFurthestTest, RmKeepsTheFurthestOfThoseThatAreWhole) {
  WriteAtStep(8);
  WriteAtStep(9);
  WriteAtStep(7);
  FlipLastByte(directory_ + "/000002/shard-00000.safetensors");
  flags_.keep = 1;
  EXPECT_EQ(*Run(RunCheckpointsRm), ExitCode::kSucceeded);
  EXPECT_THAT(run_->out(), HasSubstr("/000001 stays: it is the furthest whole one"));
  EXPECT_THAT(run_->out(), HasSubstr("/000002 stays and does not count as whole"));
  EXPECT_THAT(run_->out(), Not(HasSubstr("removed ")));
}

// What a run has left behind that went back is not gone on from.
TEST_F(CheckpointsFurthestTest, RmRemovesWhatARunLeftBehindWithMoreSteps) {
  WriteAtStep(5);
  WriteAtStep(9);
  checkpoint_.spec.mutable_checkpoints()->set_directory(directory_);
  checkpoint_.spec.mutable_restore()->set_directory(directory_);
  checkpoint_.spec.mutable_restore()->set_checkpoint(1);
  checkpoint_.earlier_job_ids = {checkpoint_.job_id};
  checkpoint_.job_id = "small-2-test";
  WriteAtStep(7);
  EXPECT_EQ(*Run(RunCheckpointsRm, "/000002"), ExitCode::kSucceeded);
  EXPECT_EQ(Run(RunCheckpointsRm, "/000003").status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(CheckpointsFurthestTest, VerifyOffersTheFurthest) {
  WriteAtStep(9);
  WriteAtStep(7);
  WriteAtStep(8);
  FlipLastByte(directory_ + "/000003/shard-00000.safetensors");
  EXPECT_EQ(*Run(RunCheckpointsVerify), ExitCode::kFailed);
  EXPECT_THAT(run_->out(), HasSubstr("The furthest whole one is 000001; go on from it with "
                                     "--restore=" +
                                     directory_ + "/000001\n"));
  flags_.json = true;
  EXPECT_EQ(*Run(RunCheckpointsVerify, "/000003"), ExitCode::kFailed);
  const std::string out = run_->out();
  EXPECT_EQ(Json::parse(out.substr(out.rfind('{')))["furthest_whole"], 1);
}

}  // namespace
}  // namespace millrace::client
