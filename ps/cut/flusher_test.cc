#include "ps/cut/flusher.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps/shard/shard_test_util.h"
#include "testing/directory/test_directory.h"

namespace millrace::ps {
namespace {

using ::millrace::testing::MakeSpec;
using ::millrace::testing::PushWhole;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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
    DatabaseOptions options;
    options.clock = &clock_;
    options.fault = [this](absl::string_view operation) { return Operate(operation); };
    store_ = *CutStore::Open(path_, options);
  }

  // The disk: it counts cuts, hangs, or fails.
  absl::Status Operate(absl::string_view operation) {
    if (operation != "flush") return absl::OkStatus();
    ++cuts_written_;
    MutexLock lock(&mutex_);
    while (hangs_) changed_.Wait(&mutex_);
    return std::exchange(fails_once_, false) ? absl::UnavailableError("it failed once") : disk_;
  }

  void SetDisk(bool hangs, const absl::Status& status = absl::OkStatus()) {
    MutexLock lock(&mutex_);
    hangs_ = hangs;
    disk_ = status;
    changed_.SignalAll();
  }

  void FailOnce() {
    MutexLock lock(&mutex_);
    fails_once_ = true;
  }

  std::shared_ptr<Shard> MakeShard(uint32_t number, uint32_t replicas = 0) {
    ShardSpec spec = MakeSpec({10}, replicas);
    spec.set_shard(number);
    spec.mutable_cut_period()->set_seconds(10);
    ShardPlan plan = *PlanShard(spec);
    EXPECT_TRUE(store_->WriteRecord(spec, {1, 0, {}}).ok());
    ShardContents contents;
    contents.state = *MakeInitialState(plan, &pool_);
    return std::make_shared<Shard>(std::move(plan), /*generation=*/1, std::move(contents), &pool_);
  }

  void Push(Shard* shard, uint64_t step) {
    PushWhole(shard, step, /*push_id=*/step, std::vector<float>(10, 1));
  }

  // Until `done`, in real time: the flusher's threads need some.
  template <typename Done>
  static bool WaitFor(const Done& done) {
    const absl::Time deadline = absl::Now() + kPatience;
    while (!done()) {
      if (absl::Now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }

  static bool WaitForFlush(const Shard& shard, uint64_t version) {
    return WaitFor([&] { return shard.Status().flushed_version() == version; });
  }

  // Of the cuts in the shard's status.
  static std::vector<uint64_t> Versions(const Shard& shard) {
    std::vector<uint64_t> versions;
    const ShardStatus status = shard.Status();
    for (const CutName& cut : status.cuts()) versions.push_back(cut.version());
    return versions;
  }

  size_t CutFiles() const { return FilesIn(path_ + ".bulk", ".sst").size(); }

  const std::string path_ = EmptyTestDirectory("data");
  BlockPool pool_;
  SimulatedClock clock_;
  std::atomic<int> cuts_written_ = 0;
  Mutex mutex_;
  CondVar changed_;
  bool hangs_ ABSL_GUARDED_BY(mutex_) = false;
  bool fails_once_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status disk_ ABSL_GUARDED_BY(mutex_);
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

TEST_F(FlusherTest, FirstCutComesSoonAfterTheFirstStepAndNoneWithoutAny) {
  Flusher flusher(store_.get(), &clock_);
  const std::shared_ptr<Shard> idle = MakeShard(0);
  const std::shared_ptr<Shard> shard = MakeShard(1);
  flusher.Watch(idle);
  flusher.Watch(shard);
  Push(shard.get(), 0);
  clock_.Advance(absl::Milliseconds(500));
  EXPECT_TRUE(WaitForFlush(*shard, 1));
  clock_.Advance(absl::Hours(1));
  Push(shard.get(), 1);
  // The flusher may hear of it only now.
  EXPECT_TRUE(WaitFor([&] {
    clock_.Advance(absl::Seconds(1));
    return shard->Status().flushed_version() == 2;
  }));
  EXPECT_EQ(cuts_written_, 2);
}

TEST_F(FlusherTest, RecordsAreWrittenWhileACutIs) {
  Flusher flusher(store_.get(), &clock_);
  const std::shared_ptr<Shard> shard = MakeShard(0);
  flusher.Watch(shard);
  Push(shard.get(), 0);
  SetDisk(/*hangs=*/true);
  std::thread caller([&] { EXPECT_TRUE(flusher.Flush(shard, absl::InfiniteFuture()).ok()); });
  ASSERT_TRUE(WaitFor([&] { return cuts_written_ == 1; }));
  EXPECT_TRUE(flusher
                  .Call("writing a record", absl::InfiniteFuture(),
                        [&] {
                          return store_->WriteRecord(shard->plan().spec, {2, 0, {}});
                        })
                  .ok());
  SetDisk(/*hangs=*/false);
  caller.join();
  EXPECT_EQ(shard->Status().flushed_version(), 1);
}

TEST_F(FlusherTest, CutThatCannotBeWrittenIsToldAndTriedAgain) {
  Flusher flusher(store_.get(), &clock_);
  const std::shared_ptr<Shard> shard = MakeShard(0);
  flusher.Watch(shard);
  SetDisk(/*hangs=*/false, absl::UnavailableError("it is full"));
  Push(shard.get(), 0);
  clock_.Advance(absl::Milliseconds(500));
  EXPECT_TRUE(WaitFor([&] { return !shard->Status().trouble().empty(); }));
  EXPECT_THAT(shard->Status().trouble(), HasSubstr("cuts cannot be written: it is full"));
  Push(shard.get(), 1);  // Training goes on.
  SetDisk(/*hangs=*/false);
  clock_.Advance(absl::Minutes(1));
  EXPECT_TRUE(WaitForFlush(*shard, 2));
  EXPECT_TRUE(WaitFor([&] { return shard->Status().trouble().empty(); }));
}

TEST_F(FlusherTest, CutThatCannotBeWrittenWaitsAndIsTriedAgainThoughNothingChanges) {
  Flusher flusher(store_.get(), &clock_);
  const std::shared_ptr<Shard> shard = MakeShard(0);
  const std::shared_ptr<Shard> other = MakeShard(1);
  flusher.Watch(shard);
  flusher.Watch(other);
  SetDisk(/*hangs=*/false, absl::UnavailableError("it is full"));
  for (const auto& each : {shard, other}) {
    Push(each.get(), 0);
    clock_.Advance(absl::Milliseconds(500));
    EXPECT_TRUE(WaitFor([&] { return !each->Status().trouble().empty(); }));
  }
  EXPECT_EQ(cuts_written_, 2) << "the first one was tried again without a pause";
  SetDisk(/*hangs=*/false);
  EXPECT_TRUE(WaitFor([&] {
    clock_.Advance(absl::Seconds(1));
    return shard->Status().flushed_version() == 1 && other->Status().flushed_version() == 1;
  }));
}

TEST_F(FlusherTest, CutWaitsForItsTimeWhileOthersAreWritten) {
  Flusher flusher(store_.get(), &clock_);
  const std::shared_ptr<Shard> shard = MakeShard(0);
  flusher.Watch(shard);
  Push(shard.get(), 0);
  clock_.Advance(absl::Milliseconds(500));
  EXPECT_TRUE(WaitForFlush(*shard, 1));
  Push(shard.get(), 1);
  const std::vector<std::shared_ptr<Shard>> others = {MakeShard(1), MakeShard(2), MakeShard(3)};
  for (const auto& other : others) {
    flusher.Watch(other);
    Push(other.get(), 0);
  }
  clock_.Advance(absl::Milliseconds(500));
  for (const auto& other : others) EXPECT_TRUE(WaitForFlush(*other, 1));
  for (const auto& other : others) {
    Push(other.get(), 1);
    EXPECT_TRUE(flusher.Flush(other, absl::InfiniteFuture()).ok());
  }
  EXPECT_EQ(shard->Status().flushed_version(), 1);
}

TEST_F(FlusherTest, WhatChangesWhileACutIsWrittenIsInTheNext) {
  Flusher flusher(store_.get(), &clock_);
  const std::shared_ptr<Shard> shard = MakeShard(0);
  flusher.Watch(shard);
  SetDisk(/*hangs=*/true);
  Push(shard.get(), 0);
  clock_.Advance(absl::Milliseconds(500));
  EXPECT_TRUE(WaitFor([&] { return cuts_written_ == 1; }));
  Push(shard.get(), 1);
  SetDisk(/*hangs=*/false);
  EXPECT_TRUE(WaitForFlush(*shard, 1));
  EXPECT_TRUE(WaitFor([&] {
    clock_.Advance(absl::Seconds(1));
    return shard->Status().flushed_version() == 2;
  }));
}

TEST_F(FlusherTest, SynchronousShardKeepsNobodyFromTheirTurn) {
  Flusher flusher(store_.get(), &clock_);
  const std::shared_ptr<Shard> synchronous = MakeShard(0, /*replicas=*/1);
  const std::shared_ptr<Shard> shard = MakeShard(1);
  flusher.Watch(synchronous);
  flusher.Watch(shard);
  ASSERT_TRUE(synchronous->PlanCuts(1, /*every_versions=*/1, /*also_at=*/0).ok());
  uint64_t step = 0;
  EXPECT_TRUE(WaitFor([&] {
    Push(synchronous.get(), step++);
    return synchronous->Status().flushed_version() > 0;
  }));
  Push(shard.get(), 0);
  clock_.Advance(absl::Milliseconds(500));
  EXPECT_TRUE(WaitForFlush(*shard, 1));
}

TEST_F(FlusherTest, ShardThatIsForgottenIsLeftAlone) {
  Flusher flusher(store_.get(), &clock_);
  const std::shared_ptr<Shard> forgotten = MakeShard(0);
  const std::shared_ptr<Shard> shard = MakeShard(1);
  flusher.Watch(forgotten);
  flusher.Watch(shard);
  flusher.Forget(forgotten.get());
  flusher.SetCommon(forgotten, CutName());
  Push(forgotten.get(), 0);
  Push(shard.get(), 0);
  clock_.Advance(absl::Milliseconds(500));
  EXPECT_TRUE(WaitForFlush(*shard, 1));
  EXPECT_EQ(cuts_written_, 1);
  EXPECT_THAT(store_->Names("job", 0), IsEmpty());
}

TEST_F(FlusherTest, ShardThatNobodyNeedsIsDestroyedBeforeItsCutIsDue) {
  Flusher flusher(store_.get(), &clock_);
  std::shared_ptr<Shard> shard = MakeShard(0);
  flusher.Watch(shard);
  Push(shard.get(), 0);
  const std::weak_ptr<Shard> left = shard;
  shard.reset();
  EXPECT_TRUE(WaitFor([&] { return left.expired(); }));
}

TEST_F(FlusherTest, ShardTellsTheCutsThatItHasWhenItIsWatched) {
  const std::shared_ptr<Shard> before = MakeShard(0);
  Push(before.get(), 0);
  Flusher flusher(store_.get(), &clock_);
  ASSERT_TRUE(flusher.Flush(before, absl::InfiniteFuture()).ok());
  const std::shared_ptr<Shard> shard = MakeShard(0);  // As after a restart.
  flusher.Watch(shard);
  EXPECT_EQ(shard->Status().flushed_version(), 1);
}

TEST_F(FlusherTest, ShardTellsHowLongItsNewestCutTook) {
  RunawayClock clock;
  Flusher flusher(store_.get(), &clock);
  const std::shared_ptr<Shard> shard = MakeShard(0);
  flusher.Watch(shard);
  Push(shard.get(), 0);
  ASSERT_TRUE(flusher.Flush(shard, absl::InfiniteFuture()).ok());
  EXPECT_GE(shard->Status().cut_duration().seconds(), 3600);
}

TEST_F(FlusherTest, FlushedAsynchronousShardHasOneCut) {
  Flusher flusher(store_.get(), &clock_);
  const std::shared_ptr<Shard> shard = MakeShard(0);
  flusher.Watch(shard);
  for (const uint64_t step : {0, 1}) {
    Push(shard.get(), step);
    ASSERT_TRUE(flusher.Flush(shard, absl::InfiniteFuture()).ok());
  }
  EXPECT_EQ(CutFiles(), 1);
}

TEST_F(FlusherTest, FlushAndStopThatCannotBeWrittenAreErrors) {
  for (const uint32_t replicas : {0, 1}) {
    const std::shared_ptr<Shard> shard = MakeShard(replicas, replicas);
    Flusher flusher(store_.get(), &clock_);
    for (const uint64_t step : {0, 1}) Push(shard.get(), step);
    FailOnce();
    EXPECT_TRUE(absl::IsUnavailable(flusher.Flush(shard, absl::InfiniteFuture()).status()));
    FailOnce();  // Of a synchronous one the version before.
    EXPECT_TRUE(absl::IsUnavailable(flusher.FlushForStop({shard}, absl::InfiniteFuture())));
    EXPECT_TRUE(flusher.FlushForStop({shard}, absl::InfiniteFuture()).ok());
    EXPECT_EQ(store_->ReadShard(shard->plan(), &pool_)->state->version, 2);
  }
}

TEST_F(FlusherTest, FlushThatASteppingBackOvertakesIsAnErrorAndTheNextIsOfTheNewEpoch) {
  const std::shared_ptr<Shard> shard = MakeShard(0, /*replicas=*/1);
  absl::Status overtaken;
  Flusher flusher(store_.get(), &clock_);
  Push(shard.get(), 0);
  SetDisk(/*hangs=*/true);
  std::thread caller([&] { overtaken = flusher.Flush(shard, absl::InfiniteFuture()).status(); });
  EXPECT_TRUE(WaitFor([&] { return cuts_written_ == 1; }));
  EXPECT_TRUE(store_->WriteRecord(shard->plan().spec, {1, /*epoch=*/1, {}}).ok());
  ShardContents contents;
  contents.epoch = 1;
  contents.state = *MakeInitialState(shard->plan(), &pool_);
  EXPECT_TRUE(shard->StepBack(1, std::move(contents)).ok());
  SetDisk(/*hangs=*/false);
  caller.join();
  EXPECT_EQ(overtaken.code(), absl::StatusCode::kFailedPrecondition) << overtaken;
  Push(shard.get(), 0);
  const auto flushed = flusher.Flush(shard, absl::InfiniteFuture());
  ASSERT_TRUE(flushed.ok()) << flushed.status();
  EXPECT_EQ(flushed->version(), 1);
  EXPECT_TRUE(store_->Has(shard->plan().spec, /*epoch=*/1, /*version=*/1));
}

TEST_F(FlusherTest, FlushAnswersWithWhatWasWritten) {
  Flusher flusher(store_.get(), &clock_);
  const std::shared_ptr<Shard> shard = MakeShard(0);
  flusher.Watch(shard);
  Push(shard.get(), 0);
  Push(shard.get(), 2);
  const auto flushed = flusher.Flush(shard, absl::InfiniteFuture());
  ASSERT_TRUE(flushed.ok()) << flushed.status();
  EXPECT_EQ(flushed->version(), 2);
  EXPECT_EQ(flushed->applied().watermark(), 1);
  EXPECT_THAT(flushed->applied().above(), ElementsAre(2));
  EXPECT_TRUE(flusher.Flush(shard, absl::InfiniteFuture()).ok());
  EXPECT_EQ(cuts_written_, 1) << "nothing had changed";
}

TEST_F(FlusherTest, SynchronousShardHasCutsOfThePlannedVersions) {
  Flusher flusher(store_.get(), &clock_);
  const std::shared_ptr<Shard> shard = MakeShard(0, /*replicas=*/1);
  flusher.Watch(shard);
  ASSERT_TRUE(shard->PlanCuts(1, /*every_versions=*/4, /*also_at=*/3).ok());
  uint64_t step = 0;
  // When it may capture the next one is for the flusher's thread to say.
  const auto push_until_written = [&](int cuts) {
    const bool begun = WaitFor([&] {
      Push(shard.get(), step++);
      return cuts_written_ == cuts;
    });
    return begun && WaitFor([&] { return shard->Status().flushed_version() % 4 == 0; });
  };
  while (step < 3) Push(shard.get(), step++);
  EXPECT_TRUE(WaitForFlush(*shard, 3));
  EXPECT_TRUE(push_until_written(2));
  CutName common;
  common.set_version(1000);
  flusher.SetCommon(shard, common);  // Which it does not have.
  for (int i = 0; i < 100; ++i) Push(shard.get(), step++);
  EXPECT_EQ(cuts_written_, 2) << "two newer than the common one are enough";
  const std::vector<uint64_t> versions = Versions(*shard);
  ASSERT_EQ(versions.size(), 3);
  EXPECT_EQ(versions[1], 3);
  EXPECT_EQ(versions[2] % 4, 0);
  common.set_version(versions[2]);
  flusher.SetCommon(shard, common);
  EXPECT_TRUE(WaitFor([&] { return Versions(*shard).size() == 2; }));
  EXPECT_TRUE(push_until_written(3));
  EXPECT_TRUE(WaitFor([&] { return Versions(*shard).size() == 3; }));
  EXPECT_EQ(Versions(*shard)[1], versions[2]);
  common.set_version(Versions(*shard)[2]);
  flusher.SetCommon(shard, common);
  EXPECT_TRUE(WaitFor([&] { return Versions(*shard).size() == 2; }));
  EXPECT_TRUE(push_until_written(4));
}

// Its shard once paused as after an error of the disk, while the others took their cuts.
TEST_F(FlusherTest, CutThatASteppingBackMadeUselessCostsNoPause) {
  Flusher flusher(store_.get(), &clock_);
  const std::shared_ptr<Shard> shard = MakeShard(0, /*replicas=*/1);
  flusher.Watch(shard);
  ASSERT_TRUE(shard->PlanCuts(1, /*every_versions=*/1, /*also_at=*/0).ok());
  SetDisk(/*hangs=*/true);
  Push(shard.get(), 0);
  EXPECT_TRUE(WaitFor([&] { return cuts_written_ == 1; }));
  ASSERT_TRUE(store_->WriteRecord(shard->plan().spec, {1, /*epoch=*/1, {}}).ok());
  ShardContents contents;
  contents.epoch = 1;
  contents.state = *MakeInitialState(shard->plan(), &pool_);
  ASSERT_TRUE(shard->StepBack(1, std::move(contents)).ok());
  SetDisk(/*hangs=*/false);
  uint64_t step = 0;
  EXPECT_TRUE(WaitFor([&] {
    Push(shard.get(), step++);
    return shard->Status().flushed_version() > 0;
  }));
  EXPECT_EQ(shard->Status().trouble(), "");
}

TEST_F(FlusherTest, CleanStopWritesOnlyWhatIsMissing) {
  const std::shared_ptr<Shard> shard = MakeShard(0, /*replicas=*/1);
  Flusher flusher(store_.get(), &clock_);
  flusher.Watch(shard);
  for (uint64_t step = 0; step < 3; ++step) {
    Push(shard.get(), step);
    if (step == 1) continue;
    ASSERT_TRUE(flusher.Flush(shard, absl::InfiniteFuture()).ok());
  }
  EXPECT_THAT(Versions(*shard), ElementsAre(0, 1, 3));
  cuts_written_ = 0;
  ASSERT_TRUE(flusher.FlushForStop({shard}, absl::InfiniteFuture()).ok());
  EXPECT_THAT(Versions(*shard), ElementsAre(0, 1, 3)) << "no other shard has what a stop wrote";
  EXPECT_EQ(cuts_written_, 1);
  const auto contents = store_->ReadShard(shard->plan(), &pool_);
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->state->version, 3);
  EXPECT_EQ(contents->previous->version, 2);
  const size_t files = CutFiles();
  ASSERT_TRUE(flusher.FlushForStop({shard}, absl::InfiniteFuture()).ok());
  EXPECT_EQ(CutFiles(), files) << "what the stop before wrote goes";
}

// A contribution that was acknowledged was written without its gradient, which counted as in the
// sum of those before it.
TEST_F(FlusherTest, StopLeavesOutWhatIsBeingAddedUpAndIsNotClean) {
  const std::shared_ptr<Shard> shard = MakeShard(0, /*replicas=*/2);
  Flusher flusher(store_.get(), &clock_);
  DecodedPush message =
      ::millrace::testing::MakeMessage(shard->plan().spec, /*step=*/0, /*push_id=*/1);
  message.pieces.push_back(
      ::millrace::testing::MakeWirePiece(0, /*offset=*/0, std::vector<float>(10, 1)));
  absl::Status stopped;
  // Its answer goes out before it is added.
  shard->Push(/*stream=*/1, std::move(message), [&](const PushResponse& answer) {
    EXPECT_EQ(answer.outcome(), PushResponse::HELD);
    stopped = flusher.FlushForStop({shard}, absl::InfiniteFuture());
  });
  EXPECT_TRUE(absl::IsUnavailable(stopped)) << stopped;
  const auto contents = store_->ReadShard(shard->plan(), &pool_);
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_THAT(contents->held, IsEmpty());
  EXPECT_EQ(shard->Contents().held.size(), 1u);
  EXPECT_TRUE(flusher.FlushForStop({shard}, absl::InfiniteFuture()).ok());
  EXPECT_EQ(store_->ReadShard(shard->plan(), &pool_)->held.size(), 1u);
}

// It was written after what the stop wrote, as a later cut, which ended that.
TEST_F(FlusherTest, CleanStopWritesWhatWasCapturedFirst) {
  const std::shared_ptr<Shard> shard = MakeShard(0, /*replicas=*/1);
  Flusher flusher(store_.get(), &clock_);  // Which does not watch the shard.
  ASSERT_TRUE(shard->PlanCuts(1, /*every_versions=*/0, /*also_at=*/3).ok());
  for (uint64_t step = 0; step < 5; ++step) Push(shard.get(), step);
  ASSERT_TRUE(flusher.FlushForStop({shard}, absl::InfiniteFuture()).ok());
  EXPECT_FALSE(shard->TakeCapturedCut().has_value());
  EXPECT_THAT(Versions(*shard), ElementsAre(0, 3));
  ASSERT_TRUE(store_->Prune(shard->plan(), store_->Names("job", 0)[0]).ok());
  const auto contents = store_->ReadShard(shard->plan(), &pool_);
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->state->version, 5);
  EXPECT_EQ(contents->previous->version, 4);
}

// It became a cut of the shard that was made next under the same name.
TEST_F(FlusherTest, CutOfADroppedShardIsNotOneOfItsSuccessor) {
  const std::shared_ptr<Shard> dropped = MakeShard(0);
  Flusher flusher(store_.get(), &clock_);
  Push(dropped.get(), 0);
  ASSERT_TRUE(store_->DropShard("job", 0).ok());
  dropped->Refuse(absl::NotFoundError("it was dropped"));
  const std::shared_ptr<Shard> successor = MakeShard(0);
  EXPECT_EQ(flusher.Flush(dropped, absl::InfiniteFuture()).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(store_->Names("job", 0), IsEmpty());
  EXPECT_EQ(store_->ReadShard(successor->plan(), &pool_)->state->version, 0);
}

TEST_F(FlusherTest, WhatIsOnTheDiskIsFlushedWithoutWaitingForOthers) {
  const std::shared_ptr<Shard> shard = MakeShard(0);
  const std::shared_ptr<Shard> other = MakeShard(1);
  Flusher flusher(store_.get(), &clock_);
  for (const auto& each : {shard, other}) Push(each.get(), 0);
  ASSERT_TRUE(flusher.Flush(shard, absl::InfiniteFuture()).ok());
  SetDisk(/*hangs=*/true);
  std::thread writer([&] { EXPECT_TRUE(flusher.Flush(other, absl::InfiniteFuture()).ok()); });
  EXPECT_TRUE(WaitFor([&] { return cuts_written_ == 2; }));
  const auto status = flusher.Flush(shard, absl::InfiniteFuture());
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->version(), 1);
  SetDisk(/*hangs=*/false);
  writer.join();
}

TEST_F(FlusherTest, FlushThatNobodyWaitsForEndsBeforeTheDiskDoes) {
  const std::shared_ptr<Shard> shard = MakeShard(0);
  RunawayClock clock;
  Flusher flusher(store_.get(), &clock);
  Push(shard.get(), 0);
  SetDisk(/*hangs=*/true);
  int asked = 0;
  const auto status = flusher.Flush(shard, absl::InfiniteFuture(), [&] {
    return ++asked < 3 ? absl::OkStatus() : absl::CancelledError("nobody waits");
  });
  EXPECT_EQ(status.status().code(), absl::StatusCode::kCancelled);
  SetDisk(/*hangs=*/false);
}

TEST_F(FlusherTest, ShardThatWasNeverChangedNeedsNoCut) {
  const std::shared_ptr<Shard> shard = MakeShard(0);
  Flusher flusher(store_.get(), &clock_);
  flusher.Watch(shard);
  EXPECT_TRUE(flusher.Flush(shard, absl::InfiniteFuture()).ok());
  EXPECT_TRUE(flusher.FlushForStop({shard}, absl::InfiniteFuture()).ok());
  EXPECT_EQ(cuts_written_, 0);
  EXPECT_THAT(store_->Names("job", 0), IsEmpty());
}

}  // namespace
}  // namespace millrace::ps
