// `millrace checkpoints rm` and a job that has the directory.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <ostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/commands/checkpoints_rm.h"
#include "client/testing/run_command.h"
#include "client/testing/small_checkpoint.h"
#include "client/testing/small_job.h"
#include "common/checkpoint/checkpoint_directory.h"
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
using ::millrace::testing::FlipLastByte;
using ::millrace::testing::NoDirectory;
using ::millrace::testing::SmallCheckpoint;
using ::millrace::testing::WriteSmallCheckpoint;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

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

  // While it removes `act` is called, when it tells of anything.
  absl::Status RemoveWhile(const std::string& folder, std::function<void()> act);

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

// Somebody does something the first time that the command tells of anything.
class Meanwhile final : public std::stringbuf {
 public:
  explicit Meanwhile(std::function<void()> act) : act_(std::move(act)) {}

 private:
  int sync() override {
    if (act_ != nullptr) std::exchange(act_, nullptr)();
    return 0;
  }

  std::function<void()> act_;
};

absl::Status CheckpointsHeldTest::RemoveWhile(const std::string& folder,
                                              std::function<void()> act) {
  Meanwhile meanwhile(std::move(act));
  std::ostream told(&meanwhile);
  CommandRun run;
  CommandContext context = run.context();
  context.console.out = &told;
  context.flags = flags_;
  context.flags.path = absl::StrCat(directory_, "/", folder);
  return RunCheckpointsRm(context).status();
}

TEST_F(CheckpointsHeldTest, NoJobBeginsWhileSomethingIsRemoved) {
  for (const uint64_t step : {5, 7}) WriteAtStep(step);
  absl::Status taken;
  const absl::Status removed =
      RemoveWhile("000001", [&] { taken = job_.Take("job 'b-1'", /*makes_directory=*/false); });
  EXPECT_EQ(removed, absl::OkStatus());
  EXPECT_THAT(WhoHolds(taken), HasSubstr("is held by `millrace checkpoints rm` of process "));
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/held-by"));
  BeginJob();
}

// Five checkpoints of a job, and one that goes back behind the last of them and has written none.
class CheckpointsOfOneBeforeTest : public CheckpointsHeldTest {
 protected:
  CheckpointsOfOneBeforeTest() {
    checkpoint_.spec.mutable_checkpoints()->set_directory(directory_);
    for (const uint64_t step : {5, 6, 7, 8, 9}) WriteAtStep(step);
  }

  void BeginJobFrom(uint64_t number) {
    const std::string who = coordinator::NameOfJob("small-2-test", number);
    ASSERT_TRUE(job_.Take(who, /*makes_directory=*/false).ok());
  }
  // Its own first one.
  void WriteOfJobFrom(uint64_t number) {
    checkpoint_.spec.mutable_restore()->set_directory(directory_);
    checkpoint_.spec.mutable_restore()->set_checkpoint(number);
    checkpoint_.earlier_job_ids = {"small-1-test"};
    checkpoint_.job_id = "small-2-test";
    WriteAtStep(8);
  }
  void Damage(const std::string& folder) {
    FlipLastByte(absl::StrCat(directory_, "/", folder, "/shard-00000.safetensors"));
  }
  std::vector<std::string> Left() const {
    std::vector<std::string> left;
    for (const std::string folder : {"000001", "000002", "000003", "000004", "000005"}) {
      if (IsThere(folder)) left.push_back(folder);
    }
    return left;
  }
};

// It was removed, and the job failed when it was to begin with it, or lost a disk.
TEST_F(CheckpointsOfOneBeforeTest, WhatAJobGoesOnFromStaysUntilItHasOneOfItsOwn) {
  BeginJobFrom(3);
  for (const bool force : {false, true}) {
    flags_.force = force;
    const absl::Status refused = Remove("000003");
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(
        std::string(refused.message()),
        AllOf(HasSubstr(absl::StrCat("/000003 stays for now: '", directory_,
                                     "' is held by job 'small-2-test', which goes on from 000003, "
                                     "of process ")),
              HasSubstr("which may go on from it; ")));
    flags_.keep = 1;
    EXPECT_EQ(Remove(""), absl::OkStatus());
    EXPECT_THAT(Left(), ElementsAre("000003", "000005"));
    flags_.keep = 0;
  }
  WriteOfJobFrom(3);
  EXPECT_EQ(Remove("000003"), absl::OkStatus());
}

TEST_F(CheckpointsOfOneBeforeTest, OthersMayGoOneByOne) {
  BeginJobFrom(3);
  EXPECT_EQ(Remove("000005").code(), absl::StatusCode::kFailedPrecondition) << "the furthest one";
  for (const std::string folder : {"000001", "000002", "000004"}) {
    EXPECT_EQ(Remove(folder), absl::OkStatus());
  }
  flags_.force = true;
  EXPECT_EQ(Remove("000005"), absl::OkStatus());
  EXPECT_THAT(Left(), ElementsAre("000003"));
}

TEST_F(CheckpointsOfOneBeforeTest, WhereItIsDamagedWhatLedUpToItStays) {
  Damage("000003");
  BeginJobFrom(3);
  flags_.keep = 1;
  EXPECT_EQ(Remove(""), absl::OkStatus());
  EXPECT_THAT(Left(), ElementsAre("000002", "000003", "000005"));
  flags_.keep = 0;
  flags_.force = true;
  EXPECT_EQ(Remove("000002").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Remove("000003"), absl::OkStatus());
}

TEST_F(CheckpointsOfOneBeforeTest, WhereItsOwnIsDamagedItStays) {
  WriteOfJobFrom(3);
  BeginJobFrom(3);
  Damage("000006");
  flags_.force = true;
  EXPECT_THAT(std::string(Remove("000003").message()), HasSubstr("which may go on from it; "));
}

TEST_F(CheckpointsOfOneBeforeTest, NothingGoesWhereAJobDoesNotSayWhatItGoesOnFrom) {
  for (const std::string who : {"job 'small', which has not begun,", "job 'small-2-test'", ""}) {
    ASSERT_TRUE(job_.Take(who, /*makes_directory=*/false).ok());
    flags_.keep = 1;
    const absl::Status refused = Remove("");
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(refused.message()),
                AllOf(HasSubstr("nothing is removed for now: "),
                      HasSubstr("which has no checkpoint there yet, and may go on from any")));
    flags_.keep = 0;
    flags_.force = true;
    EXPECT_EQ(Remove("000001").code(), absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_THAT(Left(), SizeIs(5));
}

TEST_F(CheckpointsOfOneBeforeTest, NothingGoesWhileAnotherCommandRemovesSome) {
  ASSERT_TRUE(job_.Take(coordinator::kRemovingCommand, /*makes_directory=*/false).ok());
  EXPECT_THAT(std::string(Remove("000001").message()),
              AllOf(HasSubstr("is held by `millrace checkpoints rm` of process "),
                    HasSubstr("; wait for its end")));
  EXPECT_THAT(Left(), SizeIs(5));
}

TEST_F(CheckpointsOfOneBeforeTest, BestOfWhatAJobGoesOnFromStaysToo) {
  std::filesystem::remove_all(directory_);
  for (const uint64_t step : {5, 6, 7, 8, 9}) {
    checkpoint_.best = step < 8 ? 2 : 4;
    WriteAtStep(step);
  }
  BeginJobFrom(3);
  flags_.keep = 1;
  EXPECT_EQ(Remove(""), absl::OkStatus());
  EXPECT_THAT(Left(), ElementsAre("000002", "000003", "000004", "000005"));
}

// To read values may take minutes. That one is damaged is told while others are read.
TEST_F(CheckpointsOfOneBeforeTest, WhatIsToGoIsChosenAgainWhereAJobHasBegunMeanwhile) {
  Damage("000005");
  flags_.keep = 1;
  EXPECT_EQ(RemoveWhile("", [this] { BeginJobFrom(3); }), absl::OkStatus());
  EXPECT_THAT(Left(), ElementsAre("000003", "000004", "000005"));
}

TEST_F(CheckpointsOfOneBeforeTest, WhatIsToGoIsChosenAgainWhereOneHasGoneMeanwhile) {
  Damage("000005");
  flags_.keep = 1;
  const auto remove = [this] {
    EXPECT_TRUE(CheckpointDirectory(RealFileSystem(), directory_).Remove(4).ok());
  };
  EXPECT_EQ(RemoveWhile("", remove), absl::OkStatus());
  EXPECT_THAT(Left(), ElementsAre("000003", "000005"));
}

TEST_F(CheckpointsOfOneBeforeTest, NothingElseGoesWhereAnotherOneHasTheDirectoryMeanwhile) {
  BeginJobFrom(3);
  flags_.keep = 1;
  const auto removed = RemoveWhile("", [this] { BeginJobFrom(2); });  // The next job, that is.
  EXPECT_EQ(removed.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(removed.message()), HasSubstr("which goes on from 000002"));
  EXPECT_TRUE(IsThere("000002"));
}

}  // namespace
}  // namespace millrace::client
