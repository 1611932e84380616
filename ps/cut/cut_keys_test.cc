#include "ps/cut/cut_keys.h"

#include "gtest/gtest.h"

namespace millrace::ps {
namespace {

TEST(CutKeysTest, KeysOfAShardAreNeighbours) {
  const std::string shard = ShardKey("job", 1);
  const std::string other = ShardKey("job", 2);
  EXPECT_LT(BlockKey(shard, 1, 300, 0), BlockKey(shard, 2, 0, 0));
  EXPECT_LT(BlockKey(shard, 255, 0, 1), BlockKey(shard, 256, 0, 0));
  EXPECT_LT(ManifestKey(shard, ~uint64_t{0}), EndOfPrefix(CutsPrefix(shard)));
  EXPECT_LE(EndOfPrefix(CutsPrefix(shard)), BlockKey(other, 0, 0, 0));
}

// The order in which a cut's file is written.
TEST(CutKeysTest, BlocksThenHeldContributionsThenTheManifest) {
  const std::string shard = ShardKey("job", 1);
  EXPECT_LT(BlockKey(shard, 1, 7, 0), BlockKey(shard, 1, 7, 1));
  EXPECT_LT(BlockKey(shard, 1, 7, 3), BlockKey(shard, 1, 8, 0));
  EXPECT_LT(BlockKey(shard, 1, ~uint32_t{0}, 3), HeldKey(shard, 1, 0, 0));
  EXPECT_LT(HeldKey(shard, 1, ~uint64_t{0}, 9), ManifestKey(shard, 1));
}

TEST(CutKeysTest, NoShardsKeysAreWithinAnothers) {
  // A job whose id continues another's, with a shard number that looks like it.
  const std::string shard = ShardKey("a", 0x62636465);
  const std::string longer = ShardKey("abcde", 0);
  const std::string begin = CutsPrefix(shard);
  const std::string key = BlockKey(longer, 0, 0, 0);
  EXPECT_FALSE(begin <= key && key < EndOfPrefix(begin));
}

TEST(CutKeysTest, KeysAreParsed) {
  const std::string shard = ShardKey("job", 7);
  for (const std::string& key :
       {ManifestKey(shard, 9), BlockKey(shard, 9, 1, 1), HeldKey(shard, 9, 3, 1)}) {
    const absl::optional<CutKey> parsed = ParseCutKey(key);
    ASSERT_TRUE(parsed.has_value());
    EXPECT_EQ(parsed->shard_key, shard);
    EXPECT_EQ(parsed->cut, 9);
  }
  EXPECT_FALSE(ParseCutKey("").has_value());
  EXPECT_FALSE(ParseCutKey("C").has_value());
  EXPECT_FALSE(ParseCutKey(RecordKey(shard)).has_value());
  EXPECT_FALSE(ParseCutKey(CutsPrefix(shard)).has_value());
}

TEST(CutKeysTest, EndOfPrefixCarries) {
  EXPECT_EQ(EndOfPrefix("a\xff\xff"), "b");
  EXPECT_EQ(EndOfPrefix("ab"), "ac");
}

}  // namespace
}  // namespace millrace::ps
