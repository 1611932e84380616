#include "ps/store/shard_store.h"

#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps/cut/cut_keys.h"
#include "ps/cut/database.h"
#include "ps/shard/shard_test_util.h"
#include "testing/directory/test_directory.h"

namespace millrace::ps {
namespace {

using ::millrace::testing::MakeSpec;
using ::millrace::testing::PushWhole;
using ::millrace::testing::Values;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(60);
constexpr absl::Duration kShort = absl::Milliseconds(10);

// A disk that fails or hangs when it is told to.
class FaultyDisk {
 public:
  absl::Status Operate(absl::string_view operation) {
    MutexLock lock(&mutex_);
    if (operation != operation_) return absl::OkStatus();
    if (!hangs_) return absl::UnavailableError("the disk fails");
    hanging_ = true;
    changed_.SignalAll();
    while (hangs_) changed_.Wait(&mutex_);
    return absl::OkStatus();
  }

  void Fail(const std::string& operation) { Set(operation, /*hangs=*/false); }
  void Hang(const std::string& operation) { Set(operation, /*hangs=*/true); }
  void Recover() { Set("", /*hangs=*/false); }

  // Returns when an operation hangs.
  bool WaitUntilItHangs() {
    const absl::Time deadline = absl::Now() + kPatience;
    MutexLock lock(&mutex_);
    while (!hanging_) {
      if (Clock::Real()->WaitUntil(&changed_, &mutex_, deadline)) return false;
    }
    return true;
  }

 private:
  void Set(const std::string& operation, bool hangs) {
    MutexLock lock(&mutex_);
    operation_ = operation;
    hangs_ = hangs;
    hanging_ = false;
    changed_.SignalAll();
  }

  Mutex mutex_;
  CondVar changed_;
  std::string operation_ ABSL_GUARDED_BY(mutex_);
  bool hangs_ ABSL_GUARDED_BY(mutex_) = false;
  bool hanging_ ABSL_GUARDED_BY(mutex_) = false;
};

class ShardStoreTest : public ::testing::Test {
 protected:
  ShardStoreTest() { Open(); }

  void Open() {
    store_.reset();
    ShardStoreOptions options;
    options.memory_limit = memory_limit_;
    options.fault = [this](absl::string_view operation) { return disk_.Operate(operation); };
    auto store = ShardStore::Open(directory_, options);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  static ShardSpec Spec(uint32_t shard, uint64_t elements = 10, uint32_t replicas = 0) {
    ShardSpec spec = MakeSpec({elements}, replicas);
    spec.set_shard(shard);
    spec.mutable_cut_period()->set_seconds(100'000);
    return spec;
  }

  // Closes the store, and replaces a stored value.
  void Spoil(const std::string& key) {
    store_.reset();
    const auto database = Database::Open(absl::StrCat(directory_, "/db"));
    Database::Changes changes;
    changes.put.emplace_back(key, "spoiled");
    ASSERT_TRUE((*database)->Commit(changes).ok());
  }

  // What a pull of the newest state gets, some time; nullptr: an error.
  static StatePtr Pull(Shard* shard) {
    PullRequest request;
    request.set_generation(shard->generation());
    std::promise<absl::StatusOr<StatePtr>> state;
    shard->Read(request, [&](absl::StatusOr<StatePtr> got) { state.set_value(std::move(got)); });
    const absl::StatusOr<StatePtr> got = state.get_future().get();
    EXPECT_TRUE(got.ok()) << got.status();
    return got.ok() ? *got : nullptr;
  }

  uint64_t DiskBytes() const {
    uint64_t bytes = 0;
    std::error_code error;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory_)) {
      const uint64_t size = entry.file_size(error);
      if (!error) bytes += size;
    }
    return bytes;
  }

  const std::string directory_ = TestDirectory("data");
  uint64_t memory_limit_ = uint64_t{1} << 30;
  FaultyDisk disk_;
  std::unique_ptr<ShardStore> store_;
};

// The second call was answered OK although the generation was nowhere but in memory.
TEST_F(ShardStoreTest, RepeatedSetGenerationIsOkOnlyWhenTheGenerationIsStored) {
  ASSERT_TRUE(store_->Create(Spec(0), 1).ok());
  disk_.Fail("write");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(store_->SetGeneration("job", 0, 2).status().code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(store_->Create(Spec(0), 2).status().code(), absl::StatusCode::kUnavailable);
  }
  disk_.Recover();
  EXPECT_TRUE(store_->SetGeneration("job", 0, 2).ok());
  Open();
  EXPECT_EQ((*store_->shards().Find("job", 0))->generation(), 2);
}

TEST_F(ShardStoreTest, ShardThatMayLackStepsIsClosedAfterAKill) {
  ASSERT_TRUE(store_->Create(Spec(0), 1).ok());
  Open();
  const auto shard = *store_->shards().Find("job", 0);
  EXPECT_TRUE(shard->Status().closed());
  EXPECT_EQ(shard->Status().origin(), ShardStatus::INITIAL_VALUES);
  EXPECT_EQ(store_->Flush("job", 0, 1).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(store_->SetGeneration("job", 0, 2)->closed());
  EXPECT_TRUE(store_->Flush("job", 0, 2).ok());
}

TEST_F(ShardStoreTest, ShardIsOpenAfterACleanStopAndClosedWhenKilledAfterThat) {
  ASSERT_TRUE(store_->Create(Spec(0), 1).ok());
  ASSERT_TRUE(store_->Stop().ok());
  Open();
  EXPECT_FALSE((*store_->shards().Find("job", 0))->Status().closed());
  Open();
  EXPECT_TRUE((*store_->shards().Find("job", 0))->Status().closed());
}

// It was open after that, so that workers that had not heard of it went on with its old values.
TEST_F(ShardStoreTest, CleanStopOfAClosedShardLeavesItClosed) {
  ASSERT_TRUE(store_->Create(Spec(0), 1).ok());
  ASSERT_TRUE(store_->Create(Spec(1), 1).ok());
  Open();
  EXPECT_FALSE(store_->SetGeneration("job", 1, 2)->closed());
  ASSERT_TRUE(store_->Stop().ok());
  Open();
  EXPECT_TRUE((*store_->shards().Find("job", 0))->Status().closed());
}

TEST_F(ShardStoreTest, ShardWhoseNewestCutIsDamagedIsClosedAfterACleanStop) {
  ASSERT_TRUE(store_->Create(Spec(0, 10, /*replicas=*/1), 1).ok());
  for (uint64_t step = 0; step < 2; ++step) {
    PushWhole(store_->shards().Find("job", 0)->get(), step, step, std::vector<float>(10, 1));
    ASSERT_TRUE(store_->Flush("job", 0, 1).ok());
  }
  ASSERT_TRUE(store_->Stop().ok());
  store_.reset();
  std::ofstream(directory_ + "/db.bulk/job.0.1.sst") << "spoiled";
  Open();
  const ShardStatus status = (*store_->shards().Find("job", 0))->Status();
  EXPECT_EQ(status.version(), 1);
  EXPECT_TRUE(status.closed());
}

// There is nothing that it could lack, and its job does not come back to open it.
TEST_F(ShardStoreTest, ShardWithAllStepsIsOpenAfterAKill) {
  ShardSpec spec = Spec(0);
  spec.set_total_steps(1);
  ASSERT_TRUE(store_->Create(spec, 1).ok());
  PushWhole(store_->shards().Find("job", 0)->get(), 0, 1, std::vector<float>(10, 1));
  ASSERT_TRUE(store_->Flush("job", 0, 1).ok());
  Open();
  const ShardStatus status = (*store_->shards().Find("job", 0))->Status();
  EXPECT_FALSE(status.closed());
  EXPECT_EQ(status.origin(), ShardStatus::CUT);
}

TEST_F(ShardStoreTest, CallOfAnOlderGenerationDropsAndFlushesNothing) {
  ASSERT_TRUE(store_->Create(Spec(0), 2).ok());
  EXPECT_EQ(store_->Drop("job", 0, 1).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(store_->Flush("job", 0, 1).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(store_->shards().Find("job", 0).ok());
  EXPECT_TRUE(store_->Drop("job", 0, 3).ok());
}

TEST_F(ShardStoreTest, CallBehindAHangingDiskEndsInTimeAndNamesWhatItWaitsFor) {
  ASSERT_TRUE(store_->Create(Spec(0), 1).ok());
  disk_.Hang("write");
  std::thread maker([this] { EXPECT_TRUE(store_->Create(Spec(1), 1).ok()); });
  ASSERT_TRUE(disk_.WaitUntilItHangs());
  for (const absl::Status& status :
       {store_->SetGeneration("job", 0, 2, kShort).status(), store_->Drop("job", 0, 1, kShort)}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(std::string(status.message()), HasSubstr("making shard 1 of job 'job'"));
  }
  disk_.Recover();
  maker.join();
  EXPECT_TRUE(store_->SetGeneration("job", 0, 2).ok());
  EXPECT_TRUE(store_->shards().Find("job", 0).ok()) << "a call that was given up was made";
}

// Generations waited for cuts of other jobs, for as long as those took.
TEST_F(ShardStoreTest, NobodyWaitsForACutButWhoAskedForIt) {
  ASSERT_TRUE(store_->Create(Spec(0), 1).ok());
  PushWhole(store_->shards().Find("job", 0)->get(), 0, 1, std::vector<float>(10, 1));
  disk_.Hang("flush");
  std::thread flusher([this] { EXPECT_TRUE(store_->Flush("job", 0, 1).ok()); });
  ASSERT_TRUE(disk_.WaitUntilItHangs());
  const absl::Status status = store_->Flush("job", 0, 1, kShort).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("shard 0 of job 'job'"));
  EXPECT_TRUE(store_->Create(Spec(1), 1).ok());
  EXPECT_TRUE(store_->SetGeneration("job", 1, 2).ok());
  EXPECT_TRUE(store_->Drop("job", 1, 2).ok());
  disk_.Recover();
  flusher.join();
}

TEST_F(ShardStoreTest, OneCallAtATimeMakesAShard) {
  disk_.Hang("write");
  std::thread maker([this] { EXPECT_TRUE(store_->Create(Spec(0), 1).ok()); });
  ASSERT_TRUE(disk_.WaitUntilItHangs());
  const absl::Status status = store_->Create(Spec(0), 1, kShort).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("still being made"));
  disk_.Recover();
  EXPECT_TRUE(store_->Create(Spec(0), 1).ok());
  maker.join();
}

TEST_F(ShardStoreTest, ShardsThatDoNotFitInMemoryTogetherAreRefused) {
  // Each needs its values four times, and two gradients: 24'384 bytes. A quarter is spare.
  memory_limit_ = 80'000;
  Open();
  ASSERT_TRUE(store_->Create(Spec(0, 1000), 1).ok());
  ASSERT_TRUE(store_->Create(Spec(1, 1000), 1).ok());
  const absl::Status status = store_->Create(Spec(2, 1000), 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("needs 24384 bytes"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("other shards need 48768"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("may need 60000"));
  EXPECT_TRUE(store_->Create(Spec(1, 1000), 1).ok()) << "it is there";
  ASSERT_TRUE(store_->Drop("job", 0, 1).ok());
  EXPECT_TRUE(store_->Create(Spec(2, 1000), 1).ok());
}

// Shards of jobs that had ended stayed in memory, and each new one was refused for good.
TEST_F(ShardStoreTest, RetiredShardsGiveUpTheirMemoryAndKeepTheirValues) {
  // One needs 24'384 bytes, and there are 30'000.
  memory_limit_ = 40'000;
  Open();
  for (uint32_t number = 0; number < 4; ++number) {
    ASSERT_TRUE(store_->Create(Spec(number, 1000), 1).ok()) << number;
    const auto shard = *store_->shards().Find("job", number);
    PushWhole(shard.get(), 0, 1, std::vector<float>(1000, static_cast<float>(number)));
    const auto status = store_->Retire("job", number, 1);
    ASSERT_TRUE(status.ok()) << status.status();
    EXPECT_TRUE(status->retired());
    EXPECT_TRUE(store_->Retire("job", number, 1).ok()) << "again";
  }
  EXPECT_EQ((*store_->shards().Find("job", 0))->Status().memory_bytes(), 0) << "for the last one";
  for (const bool restarted : {false, true}) {
    if (restarted) Open();
    for (uint32_t number = 0; number < 4; ++number) {
      const auto shard = *store_->shards().Find("job", number);
      EXPECT_EQ(shard->Status().version(), 1);
      EXPECT_EQ(shard->Status().applied().watermark(), 1);
      EXPECT_FALSE(shard->Status().closed());
      if (restarted) {
        EXPECT_EQ(shard->Status().memory_bytes(), 0) << "nothing was read";
      }
      const StatePtr state = Pull(shard.get());
      ASSERT_NE(state, nullptr);
      EXPECT_EQ(Values(*state), std::vector<float>(1000, -static_cast<float>(number)));
    }
  }
  EXPECT_TRUE(store_->Create(Spec(4, 1000), 1).ok());
  for (uint32_t number = 0; number < 4; ++number) {
    const StatePtr state = Pull(store_->shards().Find("job", number)->get());
    ASSERT_NE(state, nullptr);
    EXPECT_EQ(Values(*state), std::vector<float>(1000, -static_cast<float>(number))) << "once more";
  }
}

TEST_F(ShardStoreTest, RetiredShardTakesNoSteps) {
  ASSERT_TRUE(store_->Create(Spec(0), 1).ok());
  EXPECT_EQ(store_->Retire("job", 0, 2).status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(store_->Retire("job", 0, 1).ok());
  const auto shard = *store_->shards().Find("job", 0);
  EXPECT_EQ(PushWhole(shard.get(), 0, 1, std::vector<float>(10, 1)).code(),
            static_cast<int>(absl::StatusCode::kFailedPrecondition));
  EXPECT_FALSE(shard->PinCut(1, "cut").ok());
  EXPECT_TRUE(store_->Flush("job", 0, 1).ok());
  EXPECT_TRUE(store_->Stop().ok());
}

// A generation that was set meanwhile was stored together with it, and the values were lost.
TEST_F(ShardStoreTest, RetirementIsStoredOnlyWhenThereIsACut) {
  ASSERT_TRUE(store_->Create(Spec(0), 1).ok());
  auto shard = *store_->shards().Find("job", 0);
  PushWhole(shard.get(), 0, 1, std::vector<float>(10, 1));
  disk_.Fail("flush");
  EXPECT_FALSE(store_->Retire("job", 0, 1).ok());
  EXPECT_TRUE(store_->SetGeneration("job", 0, 1).ok());
  EXPECT_TRUE(store_->SetGeneration("job", 0, 2).ok());
  EXPECT_TRUE(shard->retired());
  EXPECT_FALSE(shard->RetirementIsStored());
  EXPECT_EQ(shard->GivableBytes(), 0);
  disk_.Recover();
  ASSERT_TRUE(store_->Retire("job", 0, 2).ok());
  EXPECT_GT(shard->GivableBytes(), 0);
  EXPECT_TRUE(store_->SetGeneration("job", 0, 3).ok());
  shard.reset();
  Open();
  EXPECT_TRUE((*store_->shards().Find("job", 0))->RetirementIsStored());
  EXPECT_THAT(Values(*Pull(store_->shards().Find("job", 0)->get())), Each(-1));
}

// Its values are all that anybody wants of it, and nobody sets a greater generation.
TEST_F(ShardStoreTest, ClosedShardOpensWhenItIsRetired) {
  ASSERT_TRUE(store_->Create(Spec(0), 1).ok());
  Open();
  const auto shard = *store_->shards().Find("job", 0);
  ASSERT_TRUE(shard->Status().closed());
  ASSERT_TRUE(store_->Retire("job", 0, 1).ok());
  EXPECT_NE(Pull(shard.get()), nullptr);
}

TEST_F(ShardStoreTest, SynchronousShardNeedsMemoryForItsContributions) {
  // Five states, the sum and two contributions: 32'384 bytes.
  memory_limit_ = 43'172;
  Open();
  EXPECT_EQ(store_->Create(Spec(0, 1000, /*replicas=*/2), 1).status().code(),
            absl::StatusCode::kInvalidArgument);
  memory_limit_ = 43'180;
  Open();
  EXPECT_TRUE(store_->Create(Spec(0, 1000, /*replicas=*/2), 1).ok());
}

// One shard that could not be read kept the server from starting.
TEST_F(ShardStoreTest, DamagedShardKeepsNobodyFromTheOthers) {
  for (uint32_t shard = 0; shard < 3; ++shard) ASSERT_TRUE(store_->Create(Spec(shard), 1).ok());
  PushWhole(store_->shards().Find("job", 0)->get(), 0, 1, std::vector<float>(10, 1));
  ASSERT_TRUE(store_->Flush("job", 0, 1).ok());
  std::ofstream(directory_ + "/db.bulk/job.0.0.sst") << "spoiled";
  Spoil(RecordKey(ShardKey("job", 1)));
  Open();
  EXPECT_TRUE(store_->shards().Find("job", 2).ok());
  EXPECT_EQ(store_->shards().List().size(), 1);
  for (uint32_t shard = 0; shard < 2; ++shard) {
    const absl::Status status = store_->shards().Find("job", shard).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("shard ", shard, " of job 'job'")));
    EXPECT_EQ(store_->Create(Spec(shard), 1).status().code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(store_->Flush("job", shard, 1).status().code(), absl::StatusCode::kDataLoss);
    EXPECT_TRUE(store_->Drop("job", shard, 1).ok());
    EXPECT_TRUE(store_->Create(Spec(shard), 1).ok());
  }
}

// A cut that the disk did not give kept the server from starting.
TEST_F(ShardStoreTest, UnreadableCutKeepsItsShardWaitingAndNobodyElse) {
  for (uint32_t shard = 0; shard < 2; ++shard) {
    ASSERT_TRUE(store_->Create(Spec(shard), 1).ok());
    PushWhole(store_->shards().Find("job", shard)->get(), 0, 1, std::vector<float>(10, 1));
    ASSERT_TRUE(store_->Flush("job", shard, 1).ok());
  }
  store_.reset();
  const std::string file = directory_ + "/db.bulk/job.0.0.sst";
  std::filesystem::rename(file, directory_ + "/aside");
  std::filesystem::create_directory(file);  // Reading it is an error of the system.
  Open();
  EXPECT_TRUE(store_->shards().Find("job", 1).ok());
  const absl::Status status = store_->shards().Find("job", 0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr(file));
  EXPECT_EQ(store_->Create(Spec(0), 1).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(store_->Drop("job", 0, 0).code(), absl::StatusCode::kFailedPrecondition);
  // A clean stop vouches for the others only.
  ASSERT_TRUE(store_->Stop().ok());
  store_.reset();
  std::filesystem::remove(file);
  std::filesystem::rename(directory_ + "/aside", file);
  Open();
  EXPECT_EQ((*store_->shards().Find("job", 0))->Status().version(), 1);
  EXPECT_TRUE((*store_->shards().Find("job", 0))->Status().closed());
}

// One finished job of another version kept the server from starting, and all others from going on.
TEST_F(ShardStoreTest, SpecThatThisVersionDoesNotTakeKeepsItsShardWaitingAndNobodyElse) {
  for (uint32_t shard = 0; shard < 2; ++shard) {
    ASSERT_TRUE(store_->Create(Spec(shard), 1).ok());
  }
  store_.reset();
  {
    auto cuts = CutStore::Open(directory_ + "/db");
    ASSERT_TRUE(cuts.ok()) << cuts.status();
    ShardSpec other = Spec(0);
    other.clear_optimizer();
    ASSERT_TRUE((*cuts)->WriteRecord(other, {/*generation=*/1}).ok());
  }
  Open();
  EXPECT_TRUE(store_->shards().Find("job", 1).ok());
  const absl::Status status = store_->shards().Find("job", 0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("this version of the program does not take its spec: optimizer"));
  EXPECT_TRUE(store_->Drop("job", 0, 1).ok());
  EXPECT_EQ(store_->shards().Find("job", 0).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ShardStoreTest, ShardThatWaitsForItsDiskKeepsItsMemory) {
  memory_limit_ = 43'180;  // For one of these.
  Open();
  ASSERT_TRUE(store_->Create(Spec(0, 1000, /*replicas=*/2), 1).ok());
  for (const uint64_t step : {0, 1}) {
    PushWhole(store_->shards().Find("job", 0)->get(), step, step, std::vector<float>(1000, 1));
  }
  ASSERT_TRUE(store_->Flush("job", 0, 1).ok());
  const std::string file = directory_ + "/db.bulk/job.0.0.sst";
  std::filesystem::remove(file);
  std::filesystem::create_directory(file);
  Open();
  EXPECT_EQ(store_->Create(Spec(1, 1000, /*replicas=*/2), 1).status().code(),
            absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(store_->Drop("job", 0, 1).ok());
  EXPECT_TRUE(store_->Create(Spec(1, 1000, /*replicas=*/2), 1).ok());
}

TEST_F(ShardStoreTest, DiskErrorAtStartIsReportedAsSuch) {
  ASSERT_TRUE(store_->Create(Spec(0), 1).ok());
  store_.reset();
  disk_.Fail("read");
  ShardStoreOptions options;
  options.fault = [this](absl::string_view operation) { return disk_.Operate(operation); };
  EXPECT_EQ(ShardStore::Open(directory_, options).status().code(), absl::StatusCode::kUnavailable);
  disk_.Recover();
  Open();
  EXPECT_TRUE(store_->shards().Find("job", 0).ok());
}

TEST_F(ShardStoreTest, DroppedShardGivesItsDiskSpaceBack) {
  constexpr uint64_t kElements = 4 * kBlockElements;
  ASSERT_TRUE(store_->Create(Spec(0, kElements), 1).ok());
  EXPECT_LT(DiskBytes(), kElements * sizeof(float) / 2) << "initial values can be computed again";
  PushWhole(store_->shards().Find("job", 0)->get(), 0, 1, std::vector<float>(kElements, 1));
  ASSERT_TRUE(store_->Flush("job", 0, 1).ok());
  EXPECT_GE(DiskBytes(), kElements * sizeof(float));
  ASSERT_TRUE(store_->Drop("job", 0, 1).ok());
  EXPECT_LT(DiskBytes(), kElements * sizeof(float) / 2);
}

// It would have had the cuts of the one before as its own.
TEST_F(ShardStoreTest, ShardThatIsMadeAfterADropThatTheDiskDidNotTakeIsNew) {
  ASSERT_TRUE(store_->Create(Spec(0), 1).ok());
  PushWhole(store_->shards().Find("job", 0)->get(), 0, 1, std::vector<float>(10, 1));
  ASSERT_TRUE(store_->Flush("job", 0, 1).ok());
  disk_.Fail("write");
  EXPECT_FALSE(store_->Drop("job", 0, 1).ok());
  disk_.Recover();
  ASSERT_TRUE(store_->Create(Spec(0), 1).ok());
  Open();
  const auto shard = *store_->shards().Find("job", 0);
  EXPECT_EQ(shard->Status().version(), 0);
  EXPECT_TRUE(store_->SetGeneration("job", 0, 2).ok());
  EXPECT_THAT(Values(*Pull(shard.get())), Each(0));
}

TEST_F(ShardStoreTest, SteppingBackMakesTheCutTheStateAndFreesWhatWasHeld) {
  ASSERT_TRUE(store_->Create(Spec(0, 10, /*replicas=*/2), 1).ok());
  const auto shard = *store_->shards().Find("job", 0);
  const std::vector<float> gradient(10, 1);
  for (uint64_t step = 0; step < 5; ++step) {
    PushWhole(shard.get(), step, step, gradient);
    if (step == 1) {
      ASSERT_TRUE(store_->Flush("job", 0, 1).ok());
    }
  }
  StepBackRequest request;
  request.set_job_id("job");
  request.set_generation(1);
  request.mutable_cut()->set_version(1);
  request.set_epoch(3);
  for (int i = 0; i < 2; ++i) {  // A repeated call finds it done.
    const auto status = store_->StepBack(request);
    ASSERT_TRUE(status.ok()) << status.status();
    EXPECT_EQ(status->epoch(), 3);
    EXPECT_EQ(status->version(), 1);
    EXPECT_FALSE(status->has_previous());
    EXPECT_EQ(status->held().above_size(), 0);
  }
  EXPECT_EQ(PushWhole(shard.get(), 2, 12, gradient).outcome(), PushResponse::HELD);
  EXPECT_EQ(PushWhole(shard.get(), 3, 13, gradient).outcome(), PushResponse::APPLIED);
  EXPECT_EQ(shard->Status().version(), 2);
  EXPECT_TRUE(store_->StepBack(request).ok()) << "a late repetition";
  EXPECT_EQ(shard->Status().version(), 2);
  request.mutable_cut()->set_version(2);
  EXPECT_EQ(store_->StepBack(request).status().code(), absl::StatusCode::kInvalidArgument);
  request.set_epoch(4);
  EXPECT_EQ(store_->StepBack(request).status().code(), absl::StatusCode::kNotFound);
  request.set_generation(2);
  EXPECT_EQ(store_->StepBack(request).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(ShardStoreTest, AsynchronousShardCannotStepBack) {
  ASSERT_TRUE(store_->Create(Spec(0), 1).ok());
  StepBackRequest request;
  request.set_job_id("job");
  request.set_generation(1);
  request.set_epoch(1);
  EXPECT_EQ(store_->StepBack(request).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ShardStoreTest, CutsArePlannedInPowersOfTwo) {
  ASSERT_TRUE(store_->Create(Spec(0, 10, /*replicas=*/1), 1).ok());
  PlanCutsRequest request;
  request.set_job_id("job");
  request.set_generation(1);
  request.set_every_versions(3);
  EXPECT_EQ(store_->PlanCuts(request).status().code(), absl::StatusCode::kInvalidArgument);
  request.set_every_versions(4);
  const auto status = store_->PlanCuts(request);
  ASSERT_TRUE(status.ok()) << status.status();
  ASSERT_EQ(status->cuts_size(), 1) << "the initial values";
  EXPECT_EQ(status->cuts(0).version(), 0);
}

}  // namespace
}  // namespace millrace::ps
