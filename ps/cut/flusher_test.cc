#include "ps/cut/flusher.h"

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps/shard/shard_test_util.h"

namespace millrace::ps {
namespace {

using ::millrace::testing::MakeSpec;
using ::millrace::testing::PushWhole;
using ::testing::ElementsAre;

constexpr absl::Duration kPatience = absl::Seconds(60);

// Shows an hour more each time it is asked: to whoever measures with it, all takes hours.
class RunawayClock final : public Clock {
 public:
  absl::Time Now() override { return absl::UnixEpoch() + absl::Hours(++hours_); }
  bool WaitUntil(CondVar* condition, Mutex* mutex, absl::Time /*deadline*/) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    condition->WaitWithTimeout(mutex, absl::Milliseconds(1));
    return false;
  }

 private:
  std::atomic<int> hours_ = 0;
};

class FlusherTest : public ::testing::Test {
 protected:
  FlusherTest() {
    const std::string path =
        absl::StrCat(::testing::TempDir(), "/flusher_test/",
                     ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
    store_ = *CutStore::Open(path, [this](absl::string_view operation) {
      if (operation == "flush") ++cuts_written_;
      return absl::OkStatus();
    });
  }

  std::shared_ptr<Shard> MakeShard(uint32_t number, uint32_t replicas = 0) {
    ShardSpec spec = MakeSpec({10}, replicas);
    spec.set_shard(number);
    spec.mutable_cut_period()->set_seconds(10);
    ShardPlan plan = *PlanShard(spec);
    StatePtr state = *MakeInitialState(plan, &pool_);
    return std::make_shared<Shard>(std::move(plan), /*generation=*/1,
                                   ShardContents{std::move(state), nullptr, {}}, &pool_);
  }

  void Push(Shard* shard, uint64_t step) {
    PushWhole(shard, step, /*push_id=*/step, std::vector<float>(10, 1));
  }

  static bool WaitForFlush(const Shard& shard, uint64_t version) {
    const absl::Time deadline = absl::Now() + kPatience;
    while (shard.Status().flushed_version() != version) {
      if (absl::Now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }

  BlockPool pool_;
  std::atomic<int> cuts_written_ = 0;
  std::unique_ptr<CutStore> store_;
};

// The first due shard in the list was always taken, so that where each cut took longer than the
// period the second shard had none.
TEST_F(FlusherTest, ShardsTakeTurnsWhenCutsTakeLongerThanTheirPeriod) {
  RunawayClock clock;
  const std::vector<std::shared_ptr<Shard>> shards = {MakeShard(0), MakeShard(1), MakeShard(2)};
  for (const auto& shard : shards) Push(shard.get(), 0);
  Flusher flusher(store_.get(), &clock);
  for (const auto& shard : shards) flusher.Watch(shard);
  for (const auto& shard : shards) EXPECT_TRUE(WaitForFlush(*shard, 1)) << shard->name();
}

TEST_F(FlusherTest, DestroyedShardKeepsNobodyFromTheirTurn) {
  RunawayClock clock;
  Flusher flusher(store_.get(), &clock);
  flusher.Watch(MakeShard(0));
  const std::shared_ptr<Shard> shard = MakeShard(1);
  Push(shard.get(), 0);
  flusher.Watch(shard);
  EXPECT_TRUE(WaitForFlush(*shard, 1));
}

TEST_F(FlusherTest, CleanStopWritesOnlyWhatIsMissing) {
  const std::shared_ptr<Shard> shard = MakeShard(0, /*replicas=*/1);
  ASSERT_TRUE(store_->WriteRecord(shard->plan().spec, 1).ok());
  for (uint64_t step = 0; step < 3; ++step) {
    Push(shard.get(), step);
    if (step == 1) continue;
    ASSERT_TRUE(FlushShard(store_.get(), shard.get()).ok());
  }
  ASSERT_THAT(store_->Versions("job", 0), ElementsAre(1, 3));
  cuts_written_ = 0;
  ASSERT_TRUE(FlushShardForStop(store_.get(), shard.get()).ok());
  EXPECT_THAT(store_->Versions("job", 0), ElementsAre(3, 2));
  EXPECT_EQ(cuts_written_, 1);
  ASSERT_TRUE(FlushShardForStop(store_.get(), shard.get()).ok());
  EXPECT_EQ(cuts_written_, 1);
  const auto contents = store_->ReadShard(shard->plan(), &pool_);
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->state->version, 3);
  EXPECT_EQ(contents->previous->version, 2);
}

}  // namespace
}  // namespace millrace::ps
