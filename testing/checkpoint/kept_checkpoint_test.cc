// Checkpoints of every version of the format are read by this program.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "gtest/gtest.h"
#include "testing/checkpoint/kept_job.h"

namespace millrace::testing {
namespace {

// A copy: Bazel gives a test links to its files.
std::string Version1() {
  const std::string copy = EmptyDirectory("v1") + "/copy";
  std::filesystem::copy("testing/checkpoint/v1", copy, std::filesystem::copy_options::recursive);
  return copy;
}

TEST(KeptCheckpointTest, Version1IsReadToTheBit) {
  const FileSystemPtr files = RealFileSystem();
  const std::string directory = Version1();
  EXPECT_EQ(Compare(files, directory, 1, KeptJobBefore()), absl::OkStatus());
  EXPECT_EQ(Compare(files, directory, 2, KeptJob()), absl::OkStatus());
  EXPECT_EQ(*CheckpointDirectory(files, directory).Newest(), 2u);
  const auto verified = VerifyCheckpoint(
      files, directory, 2, [](const CheckpointProblem& problem) { ADD_FAILURE() << problem.what; });
  ASSERT_TRUE(verified.ok()) << verified.status();
  EXPECT_EQ(verified->problems, 0u);
}

TEST(KeptCheckpointTest, WhatVersion1SaysOfTheStateIsUnderstood) {
  const auto checkpoint = Checkpoint::Open(RealFileSystem(), Version1(), 0);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const CheckpointManifest& manifest = (*checkpoint)->manifest();
  EXPECT_EQ(manifest.job_id(), "j1");
  EXPECT_EQ(manifest.step(), 12u);
  EXPECT_TRUE(manifest.exact());
  ASSERT_EQ(manifest.shards_size(), 2);
  EXPECT_EQ(manifest.shards(1).epoch(), 1u);
  EXPECT_EQ(manifest.shards(1).version(), 12u);
  EXPECT_EQ(manifest.shards(1).applied().watermark(), 12u);
}

}  // namespace
}  // namespace millrace::testing
