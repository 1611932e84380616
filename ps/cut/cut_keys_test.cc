#include "ps/cut/cut_keys.h"

#include <string>

#include "absl/types/optional.h"
#include "gtest/gtest.h"

namespace millrace::ps {
namespace {

// The order in which a cut's file is written.
TEST(CutKeysTest, BlocksThenHeldContributionsThenTheManifest) {
  const std::string shard = ShardKey("job", 1);
  EXPECT_LT(BlockKey(shard, 1, 7, 0), BlockKey(shard, 1, 7, 1));
  EXPECT_LT(BlockKey(shard, 1, 7, 3), BlockKey(shard, 1, 8, 0));
  EXPECT_LT(BlockKey(shard, 1, ~uint32_t{0}, 3), HeldKey(shard, 1, 0, 0));
  EXPECT_LT(HeldKey(shard, 1, ~uint64_t{0}, 9), ManifestKey(shard, 1));
}

TEST(CutKeysTest, NamesOfFilesAreParsed) {
  for (const char* job : {"job", "a.b.1", ".", "1"}) {
    const std::string shard = ShardKey(job, 7);
    const absl::optional<CutKey> parsed = ParseCutFileName(CutFileName(shard, 9));
    ASSERT_TRUE(parsed.has_value()) << job;
    EXPECT_EQ(parsed->shard_key, shard);
    EXPECT_EQ(parsed->cut, 9);
  }
  for (const char* name : {"", ".sst", "job.7.9", "job.7.x.sst", "7.9.sst", "job.7.09.sst"}) {
    EXPECT_FALSE(ParseCutFileName(name).has_value()) << name;
  }
}

TEST(CutKeysTest, KeysOfRecordsAreParsed) {
  for (const char* job : {"job", "a.b.1", ""}) {
    const std::string key = RecordKey(ShardKey(job, 0x01020304));
    const absl::optional<ShardId> parsed = ParseRecordKey(key);
    ASSERT_TRUE(parsed.has_value()) << job;
    EXPECT_EQ(parsed->job_id, job);
    EXPECT_EQ(parsed->shard, 0x01020304u);
    for (size_t length = 0; length < key.size(); ++length) {
      EXPECT_FALSE(ParseRecordKey(key.substr(0, length)).has_value()) << length;
    }
    EXPECT_FALSE(ParseRecordKey(key + "x").has_value());
    EXPECT_FALSE(ParseRecordKey("H" + key.substr(1)).has_value());
  }
}

}  // namespace
}  // namespace millrace::ps
