#include "ps/cut/cut_store.h"

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps/cut/cut_keys.h"
#include "ps/cut/cut_record.pb.h"
#include "ps/cut/database.h"
#include "ps/shard/shard_test_util.h"

namespace millrace::ps {
namespace {

using ::millrace::testing::MakeSpec;
using ::millrace::testing::MakeWirePiece;
using ::millrace::testing::Values;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CutStoreTest : public ::testing::Test {
 protected:
  CutStoreTest()
      : path_(absl::StrCat(::testing::TempDir(), "/cut_store_test/",
                           ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
    Reopen();
  }

  void Reopen() {
    store_.reset();
    auto store = CutStore::Open(path_);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  ShardPlan Plan(uint32_t replicas = 0) {
    ShardSpec spec = MakeSpec({kBlockElements + 3, 2}, replicas);
    spec.mutable_optimizer()->mutable_sgd()->set_momentum(0.5);  // One slot.
    return *PlanShard(spec);
  }

  // A state whose values, and slots plus 100, are the version.
  StatePtr State(const ShardPlan& plan, uint64_t version) {
    auto state = std::make_shared<ShardState>();
    for (const BlockLayout::BlockPlace& place : plan.layout.blocks()) {
      std::shared_ptr<Block> block = pool_.Allocate(place.elements, 1);
      std::fill_n(block->array(0), place.elements, static_cast<float>(version));
      std::fill_n(block->array(1), place.elements, static_cast<float>(version + 100));
      state->blocks.push_back(std::move(block));
    }
    for (uint64_t step = 0; step < version; ++step) state->applied.Insert(step);
    state->version = version;
    return state;
  }

  void Write(const ShardPlan& plan, uint64_t version, const std::vector<PushPtr>& held = {}) {
    ASSERT_TRUE(store_->WriteRecord(plan.spec, 1).ok());
    const absl::Status status = store_->WriteCut(plan, *State(plan, version), held);
    ASSERT_TRUE(status.ok()) << status;
  }

  // Keys of cuts in the database, which no store may have open.
  std::vector<std::string> CutKeys() {
    std::vector<std::string> keys;
    const auto database = Database::Open(path_);
    EXPECT_TRUE((*database)
                    ->Scan(CutsPrefix(),
                           [&](absl::string_view key, const auto& /*value*/) {
                             keys.emplace_back(key);
                             return absl::optional<std::string>();
                           })
                    .ok());
    return keys;
  }

  uint64_t DiskBytes() const {
    uint64_t bytes = 0;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      const uint64_t size = entry.file_size(error);
      if (!error) bytes += size;
    }
    return bytes;
  }

  // Spoils a stored value, or adds one.
  void Overwrite(const std::string& key, const std::string& value) {
    store_.reset();
    const auto database = Database::Open(path_);
    Changes changes;
    changes.put.emplace_back(key, value);
    ASSERT_TRUE((*database)->Commit(changes).ok());
  }

  const std::string path_;
  BlockPool pool_;
  std::unique_ptr<CutStore> store_;
};

TEST_F(CutStoreTest, CutComesBackAsItWas) {
  const ShardPlan plan = Plan();
  Write(plan, 7);
  Reopen();
  const auto contents = store_->ReadShard(plan, &pool_);
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->state->version, 7);
  EXPECT_EQ(contents->state->applied.watermark(), 7);
  EXPECT_THAT(Values(*contents->state), Each(7));
  EXPECT_EQ(contents->state->blocks[1]->array(1)[2], 107);
  EXPECT_THAT(contents->held, IsEmpty());
}

TEST_F(CutStoreTest, KeepsTheNewestTwo) {
  const ShardPlan plan = Plan();
  for (uint64_t version = 1; version <= 5; ++version) Write(plan, version);
  EXPECT_THAT(store_->Versions("job", 0), ElementsAre(4, 5));
  Reopen();
  EXPECT_THAT(store_->Versions("job", 0), ElementsAre(4, 5));
  EXPECT_EQ((*store_->ReadShard(plan, &pool_)).state->version, 5);
  store_.reset();
  EXPECT_EQ(CutKeys().size(), 2 * (1 + plan.layout.blocks().size()));
}

TEST_F(CutStoreTest, CutWithoutManifestDoesNotExist) {
  const ShardPlan plan = Plan();
  Write(plan, 1);
  const std::string shard_key = ShardKey("job", 0);
  Overwrite(BlockKey(shard_key, 1, 0), "half a cut");
  Overwrite(BlockKey(ShardKey("other", 3), 0, 0), "of a shard that was never made");
  Reopen();
  EXPECT_THAT(store_->Versions("job", 0), ElementsAre(1));
  EXPECT_EQ((*store_->ReadShard(plan, &pool_)).state->version, 1);
  store_.reset();
  EXPECT_EQ(CutKeys().size(), 1 + plan.layout.blocks().size());
}

TEST_F(CutStoreTest, DamagedCutIsPassedOverForTheOneBefore) {
  const ShardPlan plan = Plan();
  Write(plan, 1);
  Write(plan, 2);
  Overwrite(BlockKey(ShardKey("job", 0), 1, 1), std::string(24, 'x'));
  Reopen();
  const auto contents = store_->ReadShard(plan, &pool_);
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->state->version, 1);
  // The next cut is whole, and the damaged one is gone.
  Write(plan, 3);
  EXPECT_THAT(store_->Versions("job", 0), ElementsAre(1, 3));
  Reopen();
  EXPECT_EQ((*store_->ReadShard(plan, &pool_)).state->version, 3);
}

TEST_F(CutStoreTest, ShardWithNoWholeCutIsAnError) {
  const ShardPlan plan = Plan();
  Write(plan, 1);
  Overwrite(BlockKey(ShardKey("job", 0), 0, 0), "x");
  Reopen();
  const auto contents = store_->ReadShard(plan, &pool_);
  EXPECT_EQ(contents.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(contents.status().message()), HasSubstr("shard 0 of job 'job'"));
}

// The newest cut was passed over, and then deleted, when the disk failed for a moment.
TEST_F(CutStoreTest, DiskErrorLeavesTheCutsAsTheyAre) {
  const ShardPlan plan = Plan();
  Write(plan, 1);
  Write(plan, 2);
  store_.reset();
  bool fails = false;
  store_ = *CutStore::Open(path_, [&fails](absl::string_view operation) {
    return fails && operation == "read" ? absl::UnavailableError("too many open files")
                                        : absl::OkStatus();
  });
  fails = true;
  const absl::Status status = store_->ReadShard(plan, &pool_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("shard 0 of job 'job'"));
  EXPECT_THAT(store_->Versions("job", 0), ElementsAre(1, 2));
  fails = false;
  EXPECT_EQ((*store_->ReadShard(plan, &pool_)).state->version, 2);
}

TEST_F(CutStoreTest, CutWithADamagedManifestIsPassedOver) {
  const ShardPlan plan = Plan();
  for (uint64_t version = 1; version <= 3; ++version) Write(plan, version);
  const std::string key = ManifestKey(ShardKey("job", 0), 2);
  CutManifest manifest;
  manifest.set_version(3);
  manifest.mutable_applied()->set_watermark(3);
  manifest.mutable_applied()->add_above(1);
  for (size_t i = 0; i < plan.layout.blocks().size(); ++i) manifest.add_block_crc32(0);
  for (const std::string& damaged : {manifest.SerializeAsString(), std::string("\xff\xff")}) {
    Overwrite(key, damaged);
    Reopen();
    const auto contents = store_->ReadShard(plan, &pool_);
    ASSERT_TRUE(contents.ok()) << contents.status();
    EXPECT_EQ(contents->state->version, 2);
    EXPECT_THAT(store_->Versions("job", 0), ElementsAre(2));
  }
}

// It was taken for one that never had a cut, and forgotten in silence.
TEST_F(CutStoreTest, ShardWhoseOnlyManifestIsDamagedIsAnError) {
  const ShardPlan plan = Plan();
  Write(plan, 1);
  Overwrite(ManifestKey(ShardKey("job", 0), 0), "\xff\xff");
  Reopen();
  EXPECT_EQ((*store_->ListShards()).size(), 1);
  EXPECT_EQ(store_->ReadShard(plan, &pool_).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(CutStoreTest, DiskUseStaysBoundedOverManyCuts) {
  ShardSpec spec = MakeSpec({4 * kBlockElements});
  spec.mutable_optimizer()->mutable_sgd()->set_momentum(0.5);
  const ShardPlan plan = *PlanShard(spec);
  constexpr uint64_t kCutBytes = 8 * kBlockElements * sizeof(float);
  for (uint64_t version = 1; version <= 12; ++version) Write(plan, version);
  // Compaction runs on its own threads. The newest two cuts, and what was not compacted yet.
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (DiskBytes() > 5 * kCutBytes && absl::Now() < deadline) std::this_thread::yield();
  EXPECT_LE(DiskBytes(), 5 * kCutBytes);
}

TEST_F(CutStoreTest, HeldContributionsComeBackWithTheirCut) {
  const ShardPlan plan = Plan(/*replicas=*/3);
  std::vector<float> gradient(plan.layout.elements());
  for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = static_cast<float>(i);
  auto pieces = std::make_shared<std::vector<WirePiece>>();
  const absl::Span<const float> values(gradient);
  pieces->push_back(MakeWirePiece(1, 0, values.subspan(kBlockElements + 3)));
  pieces->push_back(MakeWirePiece(0, 10, values.subspan(10, kBlockElements - 7), 1001));
  pieces->push_back(MakeWirePiece(0, 0, values.subspan(0, 10)));
  auto push = std::make_shared<PushAssembly>(/*push_id=*/1, /*step=*/4, /*examples=*/9);
  ASSERT_TRUE(push->Add(plan.layout, 1, std::move(pieces), true).ok());
  Write(plan, 1, {push});
  Reopen();
  const auto contents = store_->ReadShard(plan, &pool_);
  ASSERT_TRUE(contents.ok()) << contents.status();
  ASSERT_EQ(contents->held.size(), 1);
  const PushAssembly& held = *contents->held[0];
  EXPECT_EQ(held.step(), 4);
  EXPECT_EQ(held.examples(), 9);
  EXPECT_TRUE(held.complete(plan.layout));
  std::vector<float> restored;
  for (const WirePiece& piece : *held.pieces()[0]) {
    const size_t begin = restored.size();
    restored.resize(begin + piece.data.size());
    piece.data.CopyTo(absl::MakeSpan(restored).subspan(begin));
  }
  EXPECT_EQ(restored, gradient);
}

TEST_F(CutStoreTest, SynchronousShardComesBackWithTheVersionBefore) {
  const ShardPlan plan = Plan(/*replicas=*/1);
  Write(plan, 4);
  Write(plan, 5);
  EXPECT_EQ((*store_->ReadShard(plan, &pool_)).previous->version, 4);
  Write(plan, 8);
  EXPECT_EQ((*store_->ReadShard(plan, &pool_)).previous, nullptr);
}

// A clean stop writes the version before and then the current one, and may be killed in between.
TEST_F(CutStoreTest, NewestVersionCountsWhicheverWasWrittenLast) {
  const ShardPlan plan = Plan(/*replicas=*/1);
  Write(plan, 3);
  Write(plan, 5);
  Write(plan, 4);
  Reopen();
  const auto contents = store_->ReadShard(plan, &pool_);
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->state->version, 5);
  EXPECT_EQ(contents->previous->version, 4);
}

TEST_F(CutStoreTest, DroppedShardLeavesNothing) {
  const ShardPlan plan = Plan();
  Write(plan, 1);
  ASSERT_TRUE(store_->DropShard("job", 0).ok());
  EXPECT_THAT(store_->Versions("job", 0), IsEmpty());
  Reopen();
  EXPECT_THAT(*store_->ListShards(), IsEmpty());
  store_.reset();
  EXPECT_THAT(CutKeys(), IsEmpty());
}

TEST_F(CutStoreTest, RecordWithoutACutIsForgotten) {
  ASSERT_TRUE(store_->WriteRecord(Plan().spec, 1).ok());
  Reopen();
  EXPECT_THAT(*store_->ListShards(), IsEmpty());
}

TEST_F(CutStoreTest, ListsShardsWithTheirGenerations) {
  const ShardPlan plan = Plan();
  Write(plan, 1);
  ASSERT_TRUE(store_->WriteRecord(plan.spec, 9).ok());
  Reopen();
  const auto shards = store_->ListShards();
  ASSERT_TRUE(shards.ok());
  ASSERT_EQ(shards->size(), 1);
  EXPECT_EQ((*shards)[0].generation, 9);
  EXPECT_EQ((*shards)[0].spec.SerializeAsString(), plan.spec.SerializeAsString());
}

}  // namespace
}  // namespace millrace::ps
