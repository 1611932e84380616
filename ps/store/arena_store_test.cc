// A store with an arena. Destroying it without Stop() leaves what a kill would leave.
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/clock.h"
#include "common/warning_count.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps/shard/shard_test_util.h"
#include "ps/store/arena_recovery.h"
#include "ps/store/shard_store.h"
#include "testing/directory/test_directory.h"

namespace millrace::ps {
namespace {

using ::millrace::testing::MakeSpec;
using ::millrace::testing::Newest;
using ::millrace::testing::PushWhole;
using ::millrace::testing::Values;
using ::testing::Each;

namespace fs = std::filesystem;

constexpr uint64_t kElements = kBlockElements + 10;

class ArenaStoreTest : public ::testing::Test {
 protected:
  ArenaStoreTest() {
    fs::create_directories(arena_);
    Open();
  }

  // As a server that is started; the one before was killed.
  void Open() {
    store_.reset();
    ShardStoreOptions options;
    options.arena = arena_;
    options.clock = &clock_;
    options.reserve_arena = [this](int fd, size_t bytes) {
      return full_ ? ENOSPC : ReserveWithFallocate(fd, bytes);
    };
    options.fault = [this](absl::string_view operation) {
      if (operation == "read") ++reads_;
      return absl::OkStatus();
    };
    auto store = ShardStore::Open(root_ + "/data", options);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  static ShardSpec Spec(uint32_t replicas = 0, uint32_t shard = 0) {
    ShardSpec spec = MakeSpec({kElements}, replicas);
    spec.set_shard(shard);
    spec.mutable_cut_period()->set_seconds(100'000);  // No cut but those that are asked for.
    return spec;
  }

  void Create(const ShardSpec& spec) { ASSERT_TRUE(store_->Create(spec, 1).ok()); }

  std::shared_ptr<Shard> Find(uint32_t shard = 0) { return *store_->shards().Find("job", shard); }

  void Push(uint64_t step, uint32_t shard = 0) {
    const std::vector<float> gradient(kElements, 1);
    ASSERT_EQ(PushWhole(Find(shard).get(), step, ++push_id_, gradient).code(), 0);
  }

  // The shard came back so, and every value is `value`.
  void Expect(ShardStatus::Origin origin, uint64_t version, float value, uint32_t shard = 0) {
    const ShardStatus status = Find(shard)->Status();
    EXPECT_EQ(status.origin(), origin);
    EXPECT_EQ(status.version(), version);
    EXPECT_THAT(Values(*Newest(Find(shard).get())), Each(value));
  }

  size_t ArenaFiles() const {
    size_t files = 0;
    for (const auto& entry : fs::recursive_directory_iterator(arena_base_)) {
      files += entry.is_regular_file() ? 1 : 0;
    }
    return files;
  }

  uint64_t ArenaBytes() const {
    uint64_t bytes = 0;
    for (const auto& entry : fs::recursive_directory_iterator(arena_base_)) {
      bytes += entry.is_regular_file() ? entry.file_size() : 0;
    }
    return bytes;
  }

  const std::string root_ = TestDirectory("root");
  SimulatedClock clock_;
  const std::string arena_base_ = root_ + "/shm";
  std::string arena_ = arena_base_;
  bool full_ = false;
  std::atomic<int> reads_ = 0;
  uint64_t push_id_ = 0;
  std::unique_ptr<ShardStore> store_;
};

TEST_F(ArenaStoreTest, KilledServerComesBackWithEveryStep) {
  Create(Spec());
  for (const uint64_t step : {0, 1, 5}) Push(step);
  Open();
  Expect(ShardStatus::ARENA, 3, -3);
  EXPECT_FALSE(Find()->Status().closed());
  EXPECT_TRUE(Newest(Find().get())->applied.Contains(5));
  EXPECT_FALSE(Newest(Find().get())->applied.Contains(2));
  Push(2);
  Open();
  Expect(ShardStatus::ARENA, 4, -4);
}

TEST_F(ArenaStoreTest, NoBlockIsReadFromTheDisk) {
  Create(Spec());
  Push(0);
  ASSERT_TRUE(store_->Flush("job", 0, 1).ok());
  reads_ = 0;
  Open();
  Expect(ShardStatus::ARENA, 1, -1);
  const int from_memory = reads_.exchange(0);
  arena_ = "";
  Open();
  Expect(ShardStatus::CUT, 1, -1);
  EXPECT_GT(reads_, from_memory);
}

TEST_F(ArenaStoreTest, UnreadableCutIsNotNeeded) {
  Create(Spec());
  Push(0);
  ASSERT_TRUE(store_->Flush("job", 0, 1).ok());
  Push(1);
  const std::string file = root_ + "/data/db.bulk/job.0.0.sst";
  fs::remove(file);
  fs::create_directory(file);
  Open();
  EXPECT_EQ(Find()->Status().origin(), ShardStatus::ARENA);
  EXPECT_EQ(Find()->Status().version(), 2);
  EXPECT_TRUE(Find()->Status().closed()) << "that cut might be a newer one";
}

TEST_F(ArenaStoreTest, SynchronousShardComesBackWithTheVersionBefore) {
  Create(Spec(/*replicas=*/1));
  Push(0);
  Push(1);
  Open();
  Expect(ShardStatus::ARENA, 2, -2);
  EXPECT_TRUE(Find()->Status().has_previous());
  EXPECT_FALSE(Find()->Status().closed());
  EXPECT_THAT(Values(*Find()->Contents().previous), Each(-1));
}

TEST_F(ArenaStoreTest, ShardThatHeldContributionsIsClosedUntilAGenerationIsSet) {
  Create(Spec(/*replicas=*/2));
  Push(0);
  for (int life = 0; life < 2; ++life) {
    Open();
    Expect(ShardStatus::ARENA, 0, 0);
    EXPECT_TRUE(Find()->Status().closed());
  }
  ASSERT_TRUE(store_->SetGeneration("job", 0, 2).ok());
  EXPECT_FALSE(Find()->Status().closed());
  Open();
  EXPECT_FALSE(Find()->Status().closed());
  EXPECT_EQ(Find()->generation(), 2);
}

TEST_F(ArenaStoreTest, ShardsComeBackWithoutEachOthersBlocks) {
  for (uint32_t shard = 0; shard < 4; ++shard) Create(Spec(/*replicas=*/0, shard));
  for (uint32_t shard = 0; shard < 4; ++shard) {
    for (uint64_t step = 0; step <= shard; ++step) Push(step, shard);
  }
  for (int life = 0; life < 3; ++life) {
    Open();
    for (uint32_t shard = 0; shard < 4; ++shard) {
      Push(10 + static_cast<uint64_t>(life), shard);
      Expect(ShardStatus::ARENA, shard + 2 + static_cast<uint64_t>(life),
             -static_cast<float>(shard) - 2 - static_cast<float>(life), shard);
    }
  }
}

TEST_F(ArenaStoreTest, CleanStopGivesTheMemoryBack) {
  Create(Spec());
  Push(0);
  EXPECT_GT(ArenaFiles(), 0);
  ASSERT_TRUE(store_->Stop().ok());
  EXPECT_EQ(ArenaFiles(), 0);
  Open();
  Expect(ShardStatus::CUT, 1, -1);
}

TEST_F(ArenaStoreTest, DroppedShardLeavesNothing) {
  Create(Spec());
  Push(0);
  ASSERT_TRUE(store_->Drop("job", 0, /*generation=*/1).ok());
  Open();
  EXPECT_TRUE(store_->shards().List().empty());
  Create(Spec());
  Expect(ShardStatus::CREATED, 0, 0);
}

// As long as no other shard released a block, it stayed.
TEST_F(ArenaStoreTest, MemoryOfADroppedJobIsGivenBack) {
  constexpr uint64_t kBlocks = 32;
  ShardSpec spec = MakeSpec({kBlocks * kBlockElements});
  spec.mutable_cut_period()->set_seconds(100'000);
  Create(spec);
  ASSERT_TRUE(store_->Retire("job", 0, /*generation=*/1).ok());
  EXPECT_GE(ArenaBytes(), kBlocks * kBlockElements * sizeof(float));
  clock_.Advance(absl::Seconds(11));
  ASSERT_TRUE(store_->Drop("job", 0, /*generation=*/1).ok());
  EXPECT_LE(ArenaBytes(), 5 << 20);
}

// The life without the arena acknowledged steps that are not in it.
TEST_F(ArenaStoreTest, ArenaIsNotUsedAfterALifeWithoutIt) {
  Create(Spec());
  Push(0);
  ASSERT_TRUE(store_->Flush("job", 0, 1).ok());
  const std::string arena = std::exchange(arena_, "");
  Open();
  ASSERT_TRUE(store_->SetGeneration("job", 0, 2).ok());
  arena_ = arena;
  Open();
  Expect(ShardStatus::CUT, 1, -1);
}

TEST_F(ArenaStoreTest, ShardThatTheArenaHasNoRoomForComesBackFromItsCut) {
  Create(Spec());
  ASSERT_TRUE(store_->Flush("job", 0, 1).ok());
  full_ = true;
  // Until what is there is used up.
  for (uint64_t step = 0; step < 3; ++step) Push(step);
  ShardSpec other = MakeSpec({8 * kBlockElements}, 0);
  other.set_shard(1);
  Create(other);
  Open();
  EXPECT_NE((*store_->shards().Find("job", 1))->Status().origin(), ShardStatus::ARENA);
  full_ = false;
  Expect(ShardStatus::ARENA, 3, -3);
}

TEST_F(ArenaStoreTest, WithoutAPlaceForTheArenaTheServerGoesOnWithoutIt) {
  arena_ = root_ + "/there/is/no/such/directory";
  Open();
  Create(Spec());
  Push(0);
  Expect(ShardStatus::CREATED, 1, -1);
}

TEST_F(ArenaStoreTest, PathOfAMissingArenaIsLoggedWithoutControlCharacters) {
  WarningCount warnings("/missing\\x1b[2J");
  arena_ = root_ + "/missing\x1b[2J";
  Open();
  EXPECT_EQ(warnings.count(), 1);
}

TEST_F(ArenaStoreTest, ArenaOnADiskIsUsedWithAWarning) {
  WarningCount warnings("is on no memory file system");
  Create(Spec());
  Push(0);
  Open();
  Expect(ShardStatus::ARENA, 1, -1);
  // The tests' own directory may be in memory.
  EXPECT_EQ(warnings.count(), IsMemoryFileSystem(arena_) ? 0 : 1);
}

TEST(MemoryFileSystemTest, IsToldFromOthers) {
  EXPECT_TRUE(IsMemoryFileSystem("/dev/shm"));
  EXPECT_FALSE(IsMemoryFileSystem("/proc"));
  EXPECT_FALSE(IsMemoryFileSystem("/no/such/directory"));
}

}  // namespace
}  // namespace millrace::ps
