// Manifests that were read before.
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/checkpoint/checkpoint_records.h"
#include "common/checkpoint/checkpoint_test_util.h"
#include "common/storage/durable_file.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::google::protobuf::util::MessageDifferencer;
using ::testing::SizeIs;

// Two checkpoints, both of which were read.
class ManifestCacheTest : public ::testing::Test {
 protected:
  ManifestCacheTest() {
    const testing::TestJob job = testing::MakeTestJob();
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(testing::WriteTestCheckpoint(testing::Files(), path_, job).ok());
    }
    ExpectRight();
  }

  std::string ManifestOf(uint64_t number) const { return JoinPath(path_, ManifestPath(number)); }

  void Write(uint64_t number, const std::string& text) {
    EXPECT_TRUE(WriteDurably(testing::Files(), ManifestOf(number), text).ok());
  }

  // That what is listed is what stands there.
  void ExpectRight() {
    const auto cached = cached_.List();
    const auto read = CheckpointDirectory(testing::Files(), path_).List();
    ASSERT_TRUE(cached.ok() && read.ok());
    ASSERT_THAT(*cached, SizeIs(read->size()));
    for (size_t i = 0; i < read->size(); ++i) {
      EXPECT_EQ((*cached)[i].number, (*read)[i].number);
      const absl::StatusOr<CheckpointManifest>& found = (*cached)[i].manifest;
      const absl::StatusOr<CheckpointManifest>& expected = (*read)[i].manifest;
      EXPECT_EQ(found.status(), expected.status());
      if (!found.ok()) continue;
      EXPECT_TRUE(MessageDifferencer::Equals(*found, *expected));
    }
  }

  const std::string path_ = testing::EmptyDirectory("checkpoints");
  ManifestCache cache_;
  CheckpointDirectory cached_{testing::Files(), path_, &cache_};
};

TEST_F(ManifestCacheTest, AnotherManifestIsRead) {
  CheckpointManifest other = *ReadManifest(testing::Files(), path_, 1);
  const std::string checksum = other.checksum();
  other.set_job_id(other.job_id() + "-2");
  Write(1, *EncodeManifest(&other));
  ExpectRight();
  EXPECT_TRUE(cache_.Find(1, other.checksum()).has_value());
  EXPECT_FALSE(cache_.Find(1, checksum).has_value());
}

TEST_F(ManifestCacheTest, DamagedManifestIsNotWhatItWas) {
  const std::string text = *ReadWholeFile(testing::Files(), ManifestOf(1));
  std::string damaged = text;
  damaged[damaged.size() / 2] ^= 1;
  Write(1, damaged);
  ExpectRight();
  EXPECT_EQ((*cached_.List())[0].manifest.status().code(), absl::StatusCode::kDataLoss);
  Write(1, text);
  ExpectRight();
}

TEST_F(ManifestCacheTest, ManifestOfAnotherFolderIsNotTakenForThisOnes) {
  Write(1, *ReadWholeFile(testing::Files(), ManifestOf(2)));
  for (int i = 0; i < 2; ++i) {
    ExpectRight();
    EXPECT_FALSE((*cached_.List())[0].manifest.ok());
  }
}

TEST_F(ManifestCacheTest, WhatHasNotChangedIsNotParsedAgain) {
  CheckpointManifest marked = *ReadManifest(testing::Files(), path_, 1);
  marked.set_job_id("as it was put");
  cache_.Put(marked);
  EXPECT_EQ((*cached_.List())[0].manifest->job_id(), "as it was put");
}

TEST_F(ManifestCacheTest, RemovedManifestIsForgotten) {
  const std::string checksum = (*cached_.List())[0].manifest->checksum();
  EXPECT_TRUE(cache_.Find(1, checksum).has_value());
  EXPECT_TRUE(cached_.Remove(1).ok());
  ExpectRight();
  EXPECT_FALSE(cache_.Find(1, checksum).has_value());
}

}  // namespace
}  // namespace millrace
