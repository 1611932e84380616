// `millrace checkpoints ...`, on files that the library wrote.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/commands/checkpoints_export.h"
#include "client/commands/checkpoints_ls.h"
#include "client/commands/checkpoints_rm.h"
#include "client/commands/checkpoints_show.h"
#include "client/commands/checkpoints_verify.h"
#include "client/testing/run_command.h"
#include "client/testing/small_checkpoint.h"
#include "client/testing/small_job.h"
#include "common/job_spec.h"
#include "common/safetensors/safetensors_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace millrace::client {
namespace {

using ::millrace::testing::CommandRun;
using ::millrace::testing::FlipByte;
using ::millrace::testing::NoDirectory;
using ::millrace::testing::SmallCheckpoint;
using ::millrace::testing::WriteSmallCheckpoint;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::TempDir;
using Json = nlohmann::json;

class CheckpointsTest : public ::testing::Test {
 protected:
  CheckpointsTest() : directory_(NoDirectory("checkpoints")) {
    checkpoint_.spec = *ParseJobSpec(millrace::testing::SmallJob(), "small");
  }

  // Checkpoints 1 to `count`, of steps 1 to `count`, with values of their own.
  void Write(int count) {
    for (int i = 1; i <= count; ++i) {
      checkpoint_.step = static_cast<uint64_t>(i);
      checkpoint_.variables[0].values[0] = static_cast<float>(i);
      checkpoint_.variables[1].values[0] = static_cast<float>(i);
      WriteSmallCheckpoint(directory_, checkpoint_);
    }
  }

  // The same, but for the momentum, which all but the first have from there.
  void WriteReferring(int count) {
    for (int i = 1; i <= count; ++i) {
      checkpoint_.step = static_cast<uint64_t>(i);
      checkpoint_.variables[1].values[0] = static_cast<float>(i);
      checkpoint_.base = WriteSmallCheckpoint(directory_, checkpoint_);
    }
  }

  std::string ValuesOf(int number) const {
    return absl::StrCat(directory_, "/00000", number, "/shard-00000.safetensors");
  }

  uint64_t LastByteOf(const std::string& path) const {
    return std::filesystem::file_size(path) - 1;
  }

  // Runs a command on DIRECTORY/`below`.
  absl::StatusOr<ExitCode> Run(Command command, const std::string& below = "", bool json = false) {
    return RunAt(command, directory_ + below, json);
  }

  absl::StatusOr<ExitCode> RunAt(Command command, const std::string& path, bool json = true) {
    run_ = std::make_unique<CommandRun>();
    run_->flags() = flags_;
    run_->flags().path = path;
    run_->flags().json = json;
    return run_->Run(command);
  }

  // The objects of the lines on standard output.
  std::vector<Json> Lines() const {
    std::vector<Json> lines;
    std::istringstream out(run_->out());
    for (std::string line; std::getline(out, line);) lines.push_back(Json::parse(line));
    return lines;
  }

  const std::string directory_;
  SmallCheckpoint checkpoint_;
  Flags flags_;
  std::unique_ptr<CommandRun> run_;
};

TEST_F(CheckpointsTest, LsTellsOfWholeDamagedAndUnfinishedOnes) {
  Write(3);
  FlipByte(directory_ + "/000002/manifest.json", 60);
  std::filesystem::create_directory(directory_ + "/000004");
  EXPECT_EQ(*Run(RunCheckpointsLs), ExitCode::kSucceeded);
  EXPECT_THAT(run_->out(),
              ContainsRegex("000001  1     yes    [0-9]+ s  24 bytes  small-1-test\n"));
  EXPECT_THAT(run_->out(), ContainsRegex("000002 .*000002/manifest.json"));
  EXPECT_THAT(run_->out(), ContainsRegex("000004 .*unfinished: it has no manifest\n"));
  EXPECT_EQ(*Run(RunCheckpointsLs, "", /*json=*/true), ExitCode::kSucceeded);
  const std::vector<Json> lines = Lines();
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0]["number"], 1);
  EXPECT_EQ(lines[0]["step"], 1);
  EXPECT_EQ(lines[0]["bytes"], 24);
  EXPECT_EQ(lines[0]["exact"], true);
  EXPECT_EQ(lines[0].count("problem"), 0u);
  EXPECT_EQ(lines[1].count("problem"), 1u);
  EXPECT_EQ(lines[3]["path"], directory_ + "/000004");
}

TEST_F(CheckpointsTest, LsSeesThatAFileIsMissing) {
  Write(1);
  std::filesystem::remove(ValuesOf(1));
  EXPECT_EQ(*Run(RunCheckpointsLs), ExitCode::kSucceeded);
  EXPECT_THAT(run_->out(), ContainsRegex("shard-00000.safetensors: .*it is not there"));
}

TEST_F(CheckpointsTest, WhatIsNotThereIsAnError) {
  EXPECT_EQ(Run(RunCheckpointsLs).status().code(), absl::StatusCode::kNotFound);
  Write(1);
  for (const Command command : {RunCheckpointsLs, RunCheckpointsShow, RunCheckpointsVerify}) {
    EXPECT_EQ(Run(command, "/000009").status(),
              absl::NotFoundError(absl::StrCat("there is no checkpoint ", directory_,
                                               "/000009; `millrace checkpoints ls ", directory_,
                                               "` lists them")));
  }
}

TEST_F(CheckpointsTest, ShowHasTheJobAndStatisticsOfEachVariable) {
  checkpoint_.earlier_job_ids = {"small-0-test"};
  checkpoint_.variables[1].values = {std::numeric_limits<float>::quiet_NaN()};
  WriteSmallCheckpoint(directory_, checkpoint_);
  flags_.slots = true;
  EXPECT_EQ(*Run(RunCheckpointsShow, "/latest"), ExitCode::kSucceeded);
  EXPECT_THAT(run_->out(), HasSubstr("job          small-1-test\n"));
  EXPECT_THAT(run_->out(), HasSubstr("goes on from small-0-test\n"));
  EXPECT_THAT(run_->out(), HasSubstr("step         7 of 15, exact\n"));
  EXPECT_THAT(run_->out(), HasSubstr("optimizer    sgd; slots: momentum\n"));
  EXPECT_THAT(run_->out(),
              HasSubstr("VARIABLE               SHAPE   MIN   MAX   MEAN   NORM   NAN  INF  BYTES\n"
                        "logit/kernel           [2, 1]  -2.5  1.5   -0.5   2.915  0    0    8\n"
                        "logit/kernel@momentum  [2, 1]  0.25  0.5   0.375  0.559  0    0    8\n"
                        "logit/bias             [1]                               1    0    4\n"
                        "logit/bias@momentum    [1]     0.75  0.75  0.75   0.75   0    0    4\n"));
  flags_.slots = false;
  EXPECT_EQ(*Run(RunCheckpointsShow, "/000001", /*json=*/true), ExitCode::kSucceeded);
  const Json json = Json::parse(run_->out());
  EXPECT_EQ(json["step"], 7);
  EXPECT_EQ(json["seed"], 7);
  ASSERT_EQ(json["variables"].size(), 2u);
  EXPECT_EQ(json["variables"][0]["min"], -2.5);
  EXPECT_EQ(json["variables"][1]["mean"], nullptr);
  EXPECT_EQ(json["variables"][1]["nan"], 1);
}

TEST_F(CheckpointsTest, VerifyOfAWholeOneSucceeds) {
  Write(1);
  EXPECT_EQ(*Run(RunCheckpointsVerify), ExitCode::kSucceeded);
  EXPECT_THAT(run_->out(), HasSubstr("000001 is whole"));
  EXPECT_EQ(*Run(RunCheckpointsVerify, "", /*json=*/true), ExitCode::kSucceeded);
  EXPECT_EQ(Lines().back()["whole"], true);
}

// What is said of it once ended the process.
TEST_F(CheckpointsTest, PathThatIsNotUtf8IsToldInJson) {
  Write(2);
  const std::string path = NoDirectory("not-utf8-\xff");
  std::filesystem::rename(directory_, path);
  const std::string told = TempDir() + "/not-utf8-\uFFFD";
  run_ = std::make_unique<CommandRun>();
  run_->flags().json = true;
  for (const Command command : {RunCheckpointsVerify, RunCheckpointsLs, RunCheckpointsShow}) {
    run_->flags().path = path + "/000002";
    EXPECT_EQ(*run_->Run(command), ExitCode::kSucceeded);
    EXPECT_EQ(Lines().back()["path"], told + "/000002");
  }
}

TEST_F(CheckpointsTest, VerifyNamesFileAndByteAndOffersAWholeOne) {
  Write(3);
  FlipByte(ValuesOf(2), LastByteOf(ValuesOf(2)));
  FlipByte(ValuesOf(3), LastByteOf(ValuesOf(3)));
  EXPECT_EQ(*Run(RunCheckpointsVerify), ExitCode::kFailed);
  EXPECT_THAT(run_->out(), HasSubstr("000003/shard-00000.safetensors"));
  EXPECT_THAT(run_->out(), HasSubstr("--restore=" + directory_ + "/000001\n"));
  EXPECT_EQ(*Run(RunCheckpointsVerify, "/000003", /*json=*/true), ExitCode::kFailed);
  const std::vector<Json> lines = Lines();
  ASSERT_GE(lines.size(), 2u);
  EXPECT_EQ(lines[0]["path"], "000003/shard-00000.safetensors");
  EXPECT_LE(uint64_t{lines[0]["begin"]}, LastByteOf(ValuesOf(3)));
  EXPECT_GT(uint64_t{lines[0]["end"]}, LastByteOf(ValuesOf(3)));
  EXPECT_EQ(lines.back()["whole"], false);
  EXPECT_EQ(lines.back()["furthest_whole"], 1);
}

TEST_F(CheckpointsTest, VerifySeesWhatIsWrongWithAManifest) {
  Write(1);
  FlipByte(directory_ + "/000001/manifest.json", 60);
  EXPECT_EQ(*Run(RunCheckpointsVerify), ExitCode::kFailed);
  EXPECT_THAT(run_->out(), HasSubstr("000001/manifest.json"));
  EXPECT_THAT(run_->out(), HasSubstr("No other one there is whole"));
}

TEST_F(CheckpointsTest, ACheckpointsOwnFolderMayBeCalledByADot) {
  Write(2);
  EXPECT_EQ(*Run(RunCheckpointsVerify, "/000001/."), ExitCode::kSucceeded);
  EXPECT_THAT(run_->out(), HasSubstr("/000001 is whole"));
  EXPECT_EQ(*Run(RunCheckpointsVerify, "/."), ExitCode::kSucceeded);
  EXPECT_THAT(run_->out(), HasSubstr("/000002 is whole"));
}

TEST_F(CheckpointsTest, ExportWritesVariablesAndSlots) {
  Write(1);
  flags_.export_file = TempDir() + "/exported.safetensors";
  flags_.slots = true;
  ASSERT_EQ(*Run(RunCheckpointsExport), ExitCode::kSucceeded);
  EXPECT_THAT(run_->out(), HasSubstr("variables and slots of " + directory_ + "/000001"));
  auto reader = SafetensorsReader::Open(RealFileSystem(), flags_.export_file);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(reader->header().tensors.size(), 4u);
  std::vector<float> momentum(2);
  ASSERT_TRUE(
      reader->Read(*reader->Find("logit/kernel@momentum"), 0, absl::MakeSpan(momentum)).ok());
  EXPECT_THAT(momentum, ElementsAre(0.25f, 0.5f));
}

TEST_F(CheckpointsTest, ExportWritesAnArchiveOrAFolder) {
  Write(1);
  flags_.export_file = TempDir() + "/exported.npz";
  EXPECT_EQ(*Run(RunCheckpointsExport), ExitCode::kSucceeded);
  EXPECT_TRUE(std::filesystem::exists(flags_.export_file));
  flags_.export_file = NoDirectory("exported") + "/";
  EXPECT_EQ(*Run(RunCheckpointsExport, "", /*json=*/true), ExitCode::kSucceeded);
  EXPECT_TRUE(std::filesystem::exists(flags_.export_file + "logit.kernel.npy"));
  EXPECT_EQ(Lines().back()["step"], 1);
}

TEST_F(CheckpointsTest, ExportToOtherNamesIsWrongUsage) {
  Write(1);
  for (const std::string& file : {TempDir() + "/model.pt", ValuesOf(1)}) {
    flags_.export_file = file;
    EXPECT_EQ(ExitCodeOf(Run(RunCheckpointsExport).status()), ExitCode::kUsage) << file;
  }
  EXPECT_EQ(*Run(RunCheckpointsVerify), ExitCode::kSucceeded);
}

TEST_F(CheckpointsTest, ExportOfDamagedValuesLeavesNothing) {
  Write(1);
  FlipByte(ValuesOf(1), LastByteOf(ValuesOf(1)));
  flags_.slots = true;
  flags_.export_file = TempDir() + "/damaged.safetensors";
  EXPECT_EQ(Run(RunCheckpointsExport).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE(std::filesystem::exists(flags_.export_file));
}

TEST_F(CheckpointsTest, ADamagedOneIsToldWithTheOneBefore) {
  Write(2);
  FlipByte(ValuesOf(2), LastByteOf(ValuesOf(2)));
  flags_.slots = true;
  flags_.export_file = TempDir() + "/damaged.safetensors";
  for (const Command command : {RunCheckpointsShow, RunCheckpointsExport}) {
    const absl::Status status = Run(command).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(status.ToString(), HasSubstr("000002/shard-00000.safetensors: damaged"));
    EXPECT_THAT(status.ToString(), HasSubstr("the one before it that is not damaged by that is " +
                                             directory_ + "/000001, at step 1"));
  }
}

TEST_F(CheckpointsTest, TheBestOneIsMarked) {
  checkpoint_.best = 3;
  Write(5);
  EXPECT_EQ(*Run(RunCheckpointsLs), ExitCode::kSucceeded);
  EXPECT_THAT(run_->out(), ContainsRegex("000003 .*  best eval_loss 0.25 at step 3"));
  EXPECT_THAT(run_->out(), Not(ContainsRegex("000004 .*  best")));
  EXPECT_EQ(*Run(RunCheckpointsLs, "", /*json=*/true), ExitCode::kSucceeded);
  EXPECT_EQ(Lines()[2]["best"]["value"], 0.25);
  EXPECT_EQ(Lines()[4].count("best"), 0u);
  EXPECT_EQ(*Run(RunCheckpointsShow, "/000005"), ExitCode::kSucceeded);
  EXPECT_THAT(run_->out(), HasSubstr("best         eval_loss 0.25 at step 3, checkpoint 000003\n"));
  EXPECT_EQ(*Run(RunCheckpointsShow, "/000003"), ExitCode::kSucceeded);
  EXPECT_THAT(run_->out(), HasSubstr("checkpoint 000003 (this one)\n"));
  // A run that keeps none goes on in the directory.
  checkpoint_.best = 0;
  Write(1);
  EXPECT_EQ(*Run(RunCheckpointsLs), ExitCode::kSucceeded);
  EXPECT_THAT(run_->out(), Not(HasSubstr("best eval_loss")));
}

TEST_F(CheckpointsTest, RmLeavesTheBestOneUnlessForced) {
  checkpoint_.best = 2;
  Write(5);
  flags_.keep = 1;
  EXPECT_EQ(*Run(RunCheckpointsRm), ExitCode::kSucceeded);
  EXPECT_THAT(run_->out(), HasSubstr("000002 stays: it has the state of the best eval_loss 0.25"));
  flags_.keep = 0;
  EXPECT_EQ(*Run(RunCheckpointsLs, "", /*json=*/true), ExitCode::kSucceeded);
  EXPECT_EQ(Lines()[0]["number"], 2);
  EXPECT_THAT(Run(RunCheckpointsRm, "/000002").status().ToString(),
              HasSubstr("has the state of the best eval_loss 0.25 at step 3; --force removes it"));
  flags_.force = true;
  EXPECT_EQ(*Run(RunCheckpointsRm, "/000002"), ExitCode::kSucceeded);
}

TEST_F(CheckpointsTest, RmRemovesOneButNotTheLastWholeOne) {
  Write(3);
  EXPECT_EQ(*Run(RunCheckpointsRm, "/000001"), ExitCode::kSucceeded);
  EXPECT_EQ(run_->out(), "removed " + directory_ + "/000001\n");
  FlipByte(directory_ + "/000003/manifest.json", 60);
  const auto refused = Run(RunCheckpointsRm, "/000002");
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.status().ToString(), HasSubstr("--force"));
  EXPECT_EQ(*Run(RunCheckpointsRm, "/000003"), ExitCode::kSucceeded);
  flags_.force = true;
  EXPECT_EQ(*Run(RunCheckpointsRm, "/000002"), ExitCode::kSucceeded);
  EXPECT_EQ(Run(RunCheckpointsShow).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CheckpointsTest, RmKeepsTheNewestWholeOnes) {
  WriteReferring(4);
  flags_.keep = 2;
  EXPECT_EQ(*Run(RunCheckpointsRm, "", /*json=*/true), ExitCode::kSucceeded);
  EXPECT_EQ(Lines().back()["removed"], Json::parse("[1, 2]"));
  EXPECT_EQ(*Run(RunCheckpointsRm), ExitCode::kSucceeded);
  EXPECT_EQ(run_->out(), "nothing to remove\n");
  // What they refer to of those that went is still there.
  flags_.keep = 0;
  EXPECT_EQ(*Run(RunCheckpointsVerify, "/000003"), ExitCode::kSucceeded) << run_->out();
}

// It once believed headers, and took one with damaged values for whole.
TEST_F(CheckpointsTest, RmCountsOnlyThoseWhoseValuesAreWhole) {
  Write(4);
  FlipByte(ValuesOf(4), LastByteOf(ValuesOf(4)));
  const auto refused = Run(RunCheckpointsRm, "/000003");
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.status().ToString(), HasSubstr("000003 is the furthest whole checkpoint"));
  flags_.keep = 1;
  EXPECT_EQ(*Run(RunCheckpointsRm, "", /*json=*/true), ExitCode::kSucceeded);
  const Json removed = Lines().back();
  EXPECT_EQ(removed["removed"], Json::parse("[1, 2]"));
  ASSERT_EQ(removed["damaged"].size(), 1u);
  EXPECT_EQ(removed["damaged"][0]["number"], 4);
  EXPECT_EQ(*Run(RunCheckpointsRm), ExitCode::kSucceeded);
  EXPECT_THAT(run_->out(), HasSubstr("000004 stays and does not count as whole"));
  flags_.keep = 0;
  EXPECT_EQ(*Run(RunCheckpointsVerify, "/000003"), ExitCode::kSucceeded) << run_->out();
  EXPECT_EQ(*Run(RunCheckpointsRm, "/000004"), ExitCode::kSucceeded);
}

TEST_F(CheckpointsTest, AFolderThatOthersNeedIsKeptForThem) {
  WriteReferring(3);
  EXPECT_EQ(*Run(RunCheckpointsRm, "/000001", /*json=*/true), ExitCode::kSucceeded);
  EXPECT_EQ(Lines().back()["left"][0]["needed_by"], Json::parse("[2, 3]"));
  EXPECT_EQ(*Run(RunCheckpointsLs), ExitCode::kSucceeded);
  EXPECT_THAT(run_->out(), ContainsRegex("000001 +000002, 000003\n"));
  EXPECT_THAT(run_->out(), Not(HasSubstr("unfinished")));
  EXPECT_EQ(*Run(RunCheckpointsLs, "/000001", /*json=*/true), ExitCode::kSucceeded);
  EXPECT_EQ(Lines().back()["kept_for"], Json::parse("[2, 3]"));
  EXPECT_EQ(Lines().back().count("problem"), 0u);
  // There is nothing more to remove of it.
  EXPECT_EQ(*Run(RunCheckpointsRm, "/000001"), ExitCode::kSucceeded);
  EXPECT_THAT(run_->out(), HasSubstr("its files that are needed by 000002, 000003 stay"));
  EXPECT_EQ(*Run(RunCheckpointsVerify, "/000003"), ExitCode::kSucceeded) << run_->out();
}

TEST_F(CheckpointsTest, RmSaysThatFilesStayBesideAManifestThatCannotBeRead) {
  WriteReferring(3);
  FlipByte(directory_ + "/000003/manifest.json", 60);
  EXPECT_EQ(*Run(RunCheckpointsRm, "/000001"), ExitCode::kSucceeded);
  EXPECT_THAT(run_->out(), HasSubstr("needed by 000002 stay"));
  flags_.force = true;
  EXPECT_EQ(*Run(RunCheckpointsRm, "/000002"), ExitCode::kSucceeded);
  EXPECT_THAT(run_->out(), HasSubstr("the manifest of 000003 cannot be read"));
}

// A removal that was killed once left files that nothing removed any more.
TEST_F(CheckpointsTest, RmRemovesWhatARemovalThatWasKilledHasLeft) {
  Write(1);
  Write(2);
  std::filesystem::remove(directory_ + "/000001/manifest.json");
  EXPECT_EQ(*Run(RunCheckpointsLs), ExitCode::kSucceeded);
  EXPECT_THAT(run_->out(), ContainsRegex("000001 +.*garbage"));
  EXPECT_EQ(*Run(RunCheckpointsRm, "/000001"), ExitCode::kSucceeded);
  EXPECT_THAT(run_->out(), HasSubstr("removed " + directory_ + "/000001\n"));
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/000001"));
  // Of the newest one only the mark tells it from one that is being written.
  std::filesystem::remove(directory_ + "/000002/manifest.json");
  std::ofstream(directory_ + "/000002/being-removed").flush();
  EXPECT_EQ(*Run(RunCheckpointsRm, "/000002"), ExitCode::kSucceeded);
  EXPECT_FALSE(std::filesystem::exists(ValuesOf(2)));
  EXPECT_EQ(Run(RunCheckpointsRm, "/000002").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(*Run(RunCheckpointsLs), ExitCode::kSucceeded);
  EXPECT_THAT(run_->out(), Not(HasSubstr("000002")));
}

// It said that it was removed, and there it was.
TEST_F(CheckpointsTest, RmSaysWhyTheFolderOfTheHighestNumberStays) {
  Write(2);
  std::filesystem::remove(directory_ + "/000002/manifest.json");
  std::ofstream(directory_ + "/000002/being-removed").flush();
  EXPECT_EQ(*Run(RunCheckpointsRm, "/000002"), ExitCode::kSucceeded);
  EXPECT_THAT(run_->out(), HasSubstr("000002; its empty folder stays"));
  EXPECT_FALSE(std::filesystem::exists(ValuesOf(2)));
}

TEST_F(CheckpointsTest, RmWithKeepRemovesGarbageToo) {
  Write(1);
  std::filesystem::remove(directory_ + "/000001/manifest.json");
  Write(2);
  std::ofstream(directory_ + "/000001/shard-00007.json").flush();
  flags_.keep = 1;
  EXPECT_EQ(*Run(RunCheckpointsRm), ExitCode::kSucceeded);
  EXPECT_THAT(run_->out(), HasSubstr("that no checkpoint needs"));
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/000001"));
}

TEST_F(CheckpointsTest, RmLeavesOneThatMayBeUnderWay) {
  Write(1);
  std::filesystem::create_directory(directory_ + "/000002");
  std::ofstream(ValuesOf(2)).flush();
  EXPECT_EQ(Run(RunCheckpointsRm, "/000002").status().code(),
            absl::StatusCode::kFailedPrecondition);
  flags_.keep = 1;
  EXPECT_EQ(*Run(RunCheckpointsRm), ExitCode::kSucceeded);
  EXPECT_EQ(run_->out(), "nothing to remove\n");
  EXPECT_TRUE(std::filesystem::exists(ValuesOf(2)));
  flags_.keep = 0;
  flags_.force = true;
  EXPECT_EQ(*Run(RunCheckpointsRm, "/000002"), ExitCode::kSucceeded);
  EXPECT_FALSE(std::filesystem::exists(ValuesOf(2)));
}

TEST_F(CheckpointsTest, RmWithoutANumberOrAKeepIsWrongUsage) {
  Write(2);
  EXPECT_EQ(ExitCodeOf(Run(RunCheckpointsRm).status()), ExitCode::kUsage);
  EXPECT_EQ(ExitCodeOf(Run(RunCheckpointsRm, "/latest").status()), ExitCode::kUsage);
  flags_.keep = 1;
  EXPECT_EQ(ExitCodeOf(Run(RunCheckpointsRm, "/000001").status()), ExitCode::kUsage);
}

// Once "DIR/20260101", where `train --checkpoints` had written some, was taken for checkpoint
// 20260101 of DIR: none was read, and rm --force called it no checkpoint any more.
TEST_F(CheckpointsTest, ADirectoryOfCheckpointsMayBeCalledAsACheckpoint) {
  for (const char* called : {"20260101", "000001", "latest"}) {
    SCOPED_TRACE(called);
    const std::string above = NoDirectory("called_as_a_checkpoint");
    const std::string directory = absl::StrCat(above, "/", called);
    std::filesystem::create_directory(above);
    for (int i = 0; i < 3; ++i) WriteSmallCheckpoint(directory, checkpoint_);
    EXPECT_EQ(*RunAt(RunCheckpointsLs, directory + "//"), ExitCode::kSucceeded);
    ASSERT_EQ(Lines().size(), 3u);
    EXPECT_EQ(Lines()[2]["path"], directory + "/000003");
    EXPECT_EQ(*RunAt(RunCheckpointsShow, directory), ExitCode::kSucceeded);
    EXPECT_EQ(*RunAt(RunCheckpointsVerify, directory), ExitCode::kSucceeded);
    EXPECT_EQ(*RunAt(RunCheckpointsShow, directory + "/000002"), ExitCode::kSucceeded);
    EXPECT_EQ(*RunAt(RunCheckpointsShow, directory + "/latest"), ExitCode::kSucceeded);
    flags_.force = true;
    EXPECT_EQ(ExitCodeOf(RunAt(RunCheckpointsRm, directory).status()), ExitCode::kUsage);
    flags_.force = false;
    flags_.keep = 1;
    EXPECT_EQ(*RunAt(RunCheckpointsRm, directory), ExitCode::kSucceeded);
    flags_.keep = 0;
    EXPECT_FALSE(std::filesystem::exists(directory + "/000002/manifest.json"));
    EXPECT_TRUE(std::filesystem::exists(directory + "/000003/manifest.json"));
  }
}

TEST_F(CheckpointsTest, AFolderWithAManifestOrWithoutAnyCheckpointIsNoDirectoryOfThem) {
  Write(2);
  std::filesystem::create_directories(directory_ + "/000002/000001");
  std::filesystem::create_directory(directory_ + "/000003");
  EXPECT_EQ(*RunAt(RunCheckpointsLs, directory_ + "/000002"), ExitCode::kSucceeded);
  ASSERT_EQ(Lines().size(), 1u);
  EXPECT_EQ(Lines()[0]["number"], 2);
  EXPECT_EQ(*RunAt(RunCheckpointsLs, directory_ + "/000003"), ExitCode::kSucceeded);
  ASSERT_EQ(Lines().size(), 1u);
  EXPECT_EQ(Lines()[0]["number"], 3);
}

}  // namespace
}  // namespace millrace::client
