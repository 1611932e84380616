// Checkpoints of a store's shards, and shards that are made from them: what was saved comes back to
// the bit, in any number of shards, and what goes wrong leaves nothing.
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/new_file.h"
#include "common/job_spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps/shard/shard_test_util.h"
#include "ps/store/checkpoint_test_util.h"
#include "ps/store/shard_checkpoint_fixture.h"
#include "ps/store/shard_store.h"
#include "testing/faults/fault_file_system.h"
#include "testing/spin/spin_until.h"

namespace millrace::ps {
namespace {

using ::millrace::testing::BeginCheckpoint;
using ::millrace::testing::Fault;
using ::millrace::testing::MakeCheckpointRequest;
using ::millrace::testing::Newest;
using ::millrace::testing::PushWhole;
using ::millrace::testing::TestJob;
using ::millrace::testing::Values;
using ::millrace::testing::WriteWholeCheckpoint;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// So often a call of three blocks has asked whether it may go on when it has written some of them.
constexpr int kInTheMiddle = 6;

class RestoreTest : public ShardCheckpointTest,
                    public ::testing::WithParamInterface<const char*> {};

TEST_P(RestoreTest, ValuesAndSlotsAreTheSameBitsInThreeThenFiveThenTwoShards) {
  const OptimizerSpec optimizer = MakeOptimizerSpec(GetParam());
  // Variables that are to be whole are so in two, three and five equal parts.
  const TestJob job(NeedsWholeVariables(optimizer)
                        ? std::vector<uint64_t>(30, 1000)
                        : std::vector<uint64_t>{kBlockElements + 1000, 35, 1, kBlockElements},
                    optimizer);
  uint64_t step = 0;
  uint64_t number = 0;
  int shards_before = 0;
  for (const int shards : {3, 5, 2}) {
    std::vector<std::vector<float>> saved;
    if (number != 0) saved = AllArrays(shards_before);
    Open(absl::StrCat("of_", shards));
    Create(number == 0 ? job.Shards(shards)
                       : TestJob::Restored(job.Shards(shards), checkpoints_, number));
    if (number != 0) {
      EXPECT_TRUE(AllArrays(shards) == saved) << shards << " shards";
    }
    const ShardStatus status = Find()->Status();
    EXPECT_EQ(status.version(), step);
    EXPECT_EQ(status.applied().watermark(), step);
    EXPECT_EQ(status.origin(), number == 0 ? ShardStatus::CREATED : ShardStatus::CHECKPOINT);
    for (int i = 0; i < 2; ++i) Push(step++, job.elements(), shards);
    number = WriteWholeCheckpoint(store_.get(), job, shards, checkpoints_);
    shards_before = shards;
  }
  const auto restored = AllArrays(2);
  Open("undisturbed");
  Create(job.Shards(1));
  for (uint64_t i = 0; i < step; ++i) Push(i, job.elements(), 1);
  EXPECT_TRUE(AllArrays(1) == restored);
}

INSTANTIATE_TEST_SUITE_P(Optimizers, RestoreTest,
                         ::testing::Values("sgd {}", "sgd { momentum: 0.9 }", "adam {}",
                                           "rmsprop { momentum: 0.5 centered: true }", "ftrl {}",
                                           "lamb {}", "sgd { momentum: 0.9 } clip_norm: 3",
                                           "adamw { amsgrad: true } clip_value: 0.5 "
                                           "schedule { cosine_decay { decay_steps: 5 } }"));

TEST_F(ShardCheckpointTest, RestoredShardIsOnTheDiskBeforeItIsServed) {
  const TestJob job({10}, PlainSgd(), /*replicas=*/2);
  Create(job.Shards(1));
  for (uint64_t step = 0; step < 6; ++step) PushOnes(step);
  const std::vector<float> saved = Values(*Newest(Find().get()));
  const uint64_t number = WriteWholeCheckpoint(store_.get(), job, 1, checkpoints_);
  Open("b");
  Create(TestJob::Restored(job.Shards(1), checkpoints_, number));
  std::filesystem::remove_all(checkpoints_);
  Open("b");
  const ShardStatus status = Find()->Status();
  EXPECT_EQ(status.version(), 3);
  EXPECT_EQ(status.applied().watermark(), 6);
  EXPECT_EQ(status.origin(), ShardStatus::CUT);
  ASSERT_EQ(status.cuts_size(), 1) << "the initial values are none";
  EXPECT_EQ(status.cuts(0).version(), 3);
  EXPECT_EQ(Values(*Newest(Find().get())), saved);
}

TEST_F(ShardCheckpointTest, RestoredShardWithoutItsCutsIsDamagedNotNew) {
  const TestJob job({10}, PlainSgd());
  Create(job.Shards(1));
  PushOnes(0);
  const uint64_t number = WriteWholeCheckpoint(store_.get(), job, 1, checkpoints_);
  Open("b");
  Create(TestJob::Restored(job.Shards(1), checkpoints_, number));
  store_.reset();
  for (const auto& file : CutFiles("b")) std::filesystem::remove(file);
  Open("b");
  EXPECT_EQ(store_->shards().Find("job", 0).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(ShardCheckpointTest, SynchronousShardStepsBackToWhatItWasRestoredTo) {
  const TestJob job({10}, PlainSgd(), /*replicas=*/1);
  Create(job.Shards(1));
  for (uint64_t step = 0; step < 3; ++step) PushOnes(step);
  const uint64_t number = WriteWholeCheckpoint(store_.get(), job, 1, checkpoints_);
  const std::vector<float> saved = Values(*Newest(Find().get()));
  Open("b");
  Create(TestJob::Restored(job.Shards(1), checkpoints_, number));
  PushOnes(3);
  StepBackRequest request;
  request.set_job_id("job");
  request.set_generation(1);
  request.set_epoch(1);
  EXPECT_EQ(store_->StepBack(request).status().code(), absl::StatusCode::kNotFound)
      << "there are no initial values";
  request.mutable_cut()->set_version(3);
  ASSERT_TRUE(store_->StepBack(request).ok());
  EXPECT_EQ(Values(*Newest(Find().get())), saved);
  PushOnes(3);
  const uint64_t second = WriteWholeCheckpoint(store_.get(), job, 1, checkpoints_);
  Open("c");
  Create(TestJob::Restored(job.Shards(1), checkpoints_, second));
  EXPECT_EQ(Find()->Status().epoch(), 1);
  EXPECT_EQ(Find()->Status().version(), 4);
}

TEST_F(ShardCheckpointTest, ShardsThatWereSavedWithDifferentStepsAreNotMixed) {
  const TestJob job({1000}, PlainSgd());
  Create(job.Shards(2));
  PushOnes(0, 0);
  PushOnes(2, 0);
  PushOnes(0, 1);
  const uint64_t number = WriteWholeCheckpoint(store_.get(), job, 2, checkpoints_);
  Open("b");
  const absl::Status status =
      store_->Create(TestJob::Restored(job.Shards(1), checkpoints_, number)[0], 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("needs shards 0 and 1"));
  Create(TestJob::Restored(job.Shards(4), checkpoints_, number));
  EXPECT_EQ(Find(1)->Status().applied().watermark(), 1);
  EXPECT_THAT(Find(1)->Status().applied().above(), ElementsAre(2));
  EXPECT_EQ(Find(1)->Status().version(), 2);
  EXPECT_EQ(Find(2)->Status().applied().watermark(), 1);
  EXPECT_EQ(Find(2)->Status().version(), 1);
}

TEST_F(ShardCheckpointTest, WhatDoesNotFitTheCheckpointIsRefusedByName) {
  const TestJob job({10}, PlainSgd());
  Create(job.Shards(1));
  PushOnes(0);
  const uint64_t number = WriteWholeCheckpoint(store_.get(), job, 1, checkpoints_);
  Open("b");
  const ShardSpec good = TestJob::Restored(job.Shards(1), checkpoints_, number)[0];
  const auto expect = [&](const std::function<void(ShardSpec*)>& change, absl::StatusCode code,
                          const std::string& text) {
    ShardSpec spec = good;
    change(&spec);
    const absl::Status status = store_->Create(spec, 1).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    EXPECT_EQ(store_->shards().Find("job", 0).status().code(), absl::StatusCode::kNotFound);
  };
  expect([](ShardSpec* spec) { spec->mutable_restore()->set_checkpoint(99); },
         absl::StatusCode::kNotFound, "000099");
  expect([](ShardSpec* spec) { spec->mutable_restore()->set_directory("/nowhere"); },
         absl::StatusCode::kNotFound, "/nowhere");
  expect(
      [](ShardSpec* spec) {
        spec->mutable_restore()->set_manifest_checksum("0123456789abcdef0123456789abcdef");
      },
      absl::StatusCode::kNotFound, "another checkpoint");
  expect([](ShardSpec* spec) { spec->mutable_slices(0)->set_variable_name("other"); },
         absl::StatusCode::kNotFound, "'other'");
  expect([](ShardSpec* spec) { spec->mutable_slices(0)->set_shape(0, 12); },
         absl::StatusCode::kInvalidArgument, "[12]");
  expect(
      [](ShardSpec* spec) {
        spec->mutable_slices(0)->clear_shape();
        spec->mutable_slices(0)->mutable_slice()->set_offset(1);
      },
      absl::StatusCode::kNotFound, "10 elements");
  expect([](ShardSpec* spec) { spec->mutable_optimizer()->mutable_adam(); },
         absl::StatusCode::kInvalidArgument, "slot 'm'");
  expect([](ShardSpec* spec) { spec->set_replicas(2); }, absl::StatusCode::kInvalidArgument,
         "spec.replicas: 2");
  Create({good});
  PushOnes(1);
}

TEST_F(ShardCheckpointTest, DamagedCheckpointIsNotLoaded) {
  const TestJob job({1000}, PlainSgd());
  Create(job.Shards(1));
  PushOnes(0);
  const uint64_t number = WriteWholeCheckpoint(store_.get(), job, 1, checkpoints_);
  const std::string file = checkpoints_ + "/000001/shard-00000.safetensors";
  {
    std::fstream values(file, std::ios::in | std::ios::out | std::ios::binary);
    values.seekp(static_cast<std::streamoff>(std::filesystem::file_size(file)) - 1000);
    values.put('!');
  }
  Open("b");
  const ShardSpec spec = TestJob::Restored(job.Shards(1), checkpoints_, number)[0];
  const absl::Status status = store_->Create(spec, 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr(file));
  EXPECT_EQ(store_->shards().Find("job", 0).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(CutFiles("b"), IsEmpty());
}

TEST_F(ShardCheckpointTest, EachReadOfARestoreMayFail) {
  const TestJob job({1000, 5}, MakeOptimizerSpec("adam {}"));
  Create(job.Shards(2));
  for (uint32_t shard = 0; shard < 2; ++shard) PushOnes(0, shard);
  const auto saved = AllArrays(2);
  const uint64_t number = WriteWholeCheckpoint(store_.get(), job, 2, checkpoints_);
  const ShardSpec spec = TestJob::Restored(job.Shards(1), checkpoints_, number)[0];
  Open("b");
  uint64_t failures = 0;
  for (bool restored = false; !restored; ++failures) {
    ASSERT_LT(failures, 100);
    files_->ArmRead(failures);
    const absl::Status status = store_->Create(spec, 1).status();
    restored = status.ok();
    if (restored) continue;
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_EQ(store_->shards().Find("job", 0).status().code(), absl::StatusCode::kNotFound);
  }
  EXPECT_GT(failures, 5) << "it reads nothing";
  EXPECT_TRUE(AllArrays(1) == saved);
}

TEST_F(ShardCheckpointTest, StepsThatAShardHasNoLongerAreRefused) {
  const TestJob job({10}, PlainSgd());
  Create(job.Shards(1));
  for (uint64_t step = 0; step < 3; ++step) PushOnes(step);
  const uint64_t number = WriteWholeCheckpoint(store_.get(), job, 1, checkpoints_);
  Open("b");
  ShardSpec spec = TestJob::Restored(job.Shards(1), checkpoints_, number)[0];
  spec.set_total_steps(2);
  EXPECT_EQ(store_->Create(spec, 1).status().code(), absl::StatusCode::kInvalidArgument);
  spec.set_total_steps(2'000'000);
  EXPECT_TRUE(store_->Create(spec, 1).ok());
}

TEST_F(ShardCheckpointTest, ShardThatIsDroppedWhileItIsMadeIsNotThere) {
  const TestJob job({10}, PlainSgd());
  Create(job.Shards(1));
  const uint64_t number = WriteWholeCheckpoint(store_.get(), job, 1, checkpoints_);
  Open("b");
  const ShardSpec spec = TestJob::Restored(job.Shards(1), checkpoints_, number)[0];
  before_cut_ = [&] { EXPECT_TRUE(store_->Drop("job", 0, 1).ok()); };
  EXPECT_EQ(store_->Create(spec, 1).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(store_->shards().Find("job", 0).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(CutFiles("b"), IsEmpty());
  // It forgot the numbers of the shard's cuts, whose newest was removed later.
  before_cut_ = [&] {
    EXPECT_EQ(store_->Drop("job", 0, 0).code(), absl::StatusCode::kFailedPrecondition)
        << "a caller that was replaced drops nothing";
  };
  ASSERT_TRUE(store_->Create(spec, 1).ok());
  for (uint64_t step = 0; step < 3; ++step) {
    PushOnes(step);
    ASSERT_TRUE(store_->Flush("job", 0, 1).ok());
  }
  Open("b");
  EXPECT_EQ(Find()->Status().version(), 3);
}

TEST_F(ShardCheckpointTest, StoreThatClosesMakesNoFurtherShard) {
  const TestJob job({10}, PlainSgd());
  Create(job.Shards(1));
  const uint64_t number = WriteWholeCheckpoint(store_.get(), job, 1, checkpoints_);
  Open("b");
  before_cut_ = [&] { store_->Close(); };
  const ShardSpec spec = TestJob::Restored(job.Shards(1), checkpoints_, number)[0];
  EXPECT_EQ(store_->Create(spec, 1).status().code(), absl::StatusCode::kUnavailable);
  Open("b");
  EXPECT_EQ(store_->shards().Find("job", 0).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ShardCheckpointTest, CutThatIsPrunedWhileItIsCopiedIsCopiedToItsEnd) {
  const TestJob job({3 * kBlockElements}, PlainSgd());
  Create(job.Shards(1));
  PushOnes(0);
  const std::vector<float> saved = Values(*Newest(Find().get()));
  const uint64_t number = BeginCheckpoint(checkpoints_);
  uint64_t step = 1;
  const auto written = Write(MakeCheckpointRequest(0, checkpoints_, number), [&] {
    if (step < 3) {
      PushOnes(step++);
      EXPECT_TRUE(store_->Flush("job", 0, 1).ok());
      EXPECT_THAT(CutFiles("a"), SizeIs(1));
    }
    return false;
  });
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(step, 3);
  EXPECT_EQ(written->shard().version(), 1);
  EXPECT_GE(written->extra_memory(), kBlockElements * sizeof(float));
  EXPECT_LT(written->extra_memory(), NewFile::kMemoryBytes + 2 * kBlockElements * sizeof(float));
  job.Commit(checkpoints_, number, {written->shard()});
  EXPECT_TRUE(RestoredValues(job, number) == saved);
}

TEST_F(ShardCheckpointTest, CallThatEndsEarlyLeavesNoFile) {
  const TestJob job({3 * kBlockElements}, PlainSgd());
  Create(job.Shards(1));
  PushOnes(0);
  const uint64_t number = BeginCheckpoint(checkpoints_);
  const WriteCheckpointRequest request = MakeCheckpointRequest(0, checkpoints_, number);
  int asked = 0;
  EXPECT_EQ(Write(request, [&] { return ++asked == kInTheMiddle; }).status().code(),
            absl::StatusCode::kCancelled);
  EXPECT_EQ(FilesOf(number), 0);
  const auto fenced = Write(request, [&] {
    if (++asked < 2 * kInTheMiddle) return false;
    EXPECT_TRUE(store_->SetGeneration("job", 0, 2).ok());
    return false;
  });
  EXPECT_EQ(fenced.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(FilesOf(number), 0);
  WriteCheckpointRequest newer = request;
  newer.set_generation(2);
  asked = 0;
  const auto dropped = Write(newer, [&] {
    if (++asked < kInTheMiddle) return false;
    EXPECT_TRUE(store_->Drop("job", 0, 2).ok());
    return false;
  });
  EXPECT_EQ(dropped.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(FilesOf(number), 0);
  Create(job.Shards(1));
  asked = 0;
  const auto closed = Write(request, [&] {
    if (++asked == kInTheMiddle) store_->Close();
    return false;
  });
  EXPECT_EQ(closed.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(FilesOf(number), 0);
}

TEST_F(ShardCheckpointTest, OneAtATimeOfAShard) {
  const TestJob job({10}, PlainSgd());
  Create(job.Shards(2));
  const uint64_t number = BeginCheckpoint(checkpoints_);
  bool other_written = false;
  const auto written = Write(MakeCheckpointRequest(0, checkpoints_, number), [&] {
    if (std::exchange(other_written, true)) return false;
    EXPECT_EQ(Write(MakeCheckpointRequest(0, checkpoints_, number)).status().code(),
              absl::StatusCode::kAlreadyExists);
    EXPECT_TRUE(Write(MakeCheckpointRequest(1, checkpoints_, number)).ok());
    return false;
  });
  EXPECT_TRUE(written.ok()) << written.status();
}

TEST_F(ShardCheckpointTest, FullDiskEndsItAndTheNextOneWorksWhenThereIsRoom) {
  const TestJob job({3 * kBlockElements}, PlainSgd());
  Create(job.Shards(1));
  PushOnes(0);
  const uint64_t number = BeginCheckpoint(checkpoints_);
  const WriteCheckpointRequest request = MakeCheckpointRequest(0, checkpoints_, number);
  int asked = 0;
  const auto full = Write(request, [&] {
    if (++asked == kInTheMiddle) files_->Arm(0, Fault::kFull);
    return false;
  });
  EXPECT_EQ(full.status().code(), absl::StatusCode::kUnavailable) << full.status();
  EXPECT_EQ(FilesOf(number), 0);
  PushOnes(1);
  EXPECT_EQ(Find()->Status().version(), 2) << "training goes on";
  files_->Heal();
  const auto written = Write(request);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(written->shard().version(), 2);
}

TEST_F(ShardCheckpointTest, WhatHasNotChangedIsReferredTo) {
  const TestJob job({kBlockElements, 10}, PlainSgd());
  Create(job.Shards(1));
  PushOnes(0);
  const uint64_t first = WriteWholeCheckpoint(store_.get(), job, 1, checkpoints_);
  const uint64_t number = BeginCheckpoint(checkpoints_);
  WriteCheckpointRequest request = MakeCheckpointRequest(0, checkpoints_, number);
  request.set_base(first);
  const auto written = Write(request);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(written->shard().bytes(), job.elements() * sizeof(float));
  EXPECT_EQ(written->shard().bytes_written(), written->shard().record_bytes());
  job.Commit(checkpoints_, number, {written->shard()});
  const std::vector<float> saved = Values(*Newest(Find().get()));
  EXPECT_TRUE(RestoredValues(job, number) == saved);
}

// It was told to be none.
TEST_F(ShardCheckpointTest, WhatTrainingReplacesMeanwhileIsThePinnedStatesMemory) {
  const TestJob job({3 * kBlockElements}, PlainSgd());
  Create(job.Shards(1));
  PushOnes(0);
  ASSERT_TRUE(Find()->PinCut(1, "pinned").ok());
  WriteCheckpointRequest request =
      MakeCheckpointRequest(0, checkpoints_, BeginCheckpoint(checkpoints_));
  request.set_cut_id("pinned");
  const auto undisturbed = Write(request);
  ASSERT_TRUE(undisturbed.ok()) << undisturbed.status();
  request.set_checkpoint(BeginCheckpoint(checkpoints_));
  bool trained = false;
  const auto written = Write(request, [&] {
    if (!std::exchange(trained, true)) PushOnes(1);
    return false;
  });
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(written->extra_memory() - undisturbed->extra_memory(), job.elements() * sizeof(float));
  EXPECT_EQ(written->shard().version(), 1);
}

TEST_F(ShardCheckpointTest, NamedCutAndPinnedStateAreWrittenInsteadOfTheNewest) {
  const TestJob job({10}, PlainSgd(), /*replicas=*/1);
  Create(job.Shards(1));
  PushOnes(0);
  ASSERT_TRUE(store_->Flush("job", 0, 1).ok());
  PushOnes(1);
  ASSERT_TRUE(Find()->PinCut(1, "pinned").ok());
  PushOnes(2);
  WriteCheckpointRequest request =
      MakeCheckpointRequest(0, checkpoints_, BeginCheckpoint(checkpoints_));
  request.mutable_cut()->set_version(1);
  EXPECT_EQ(Write(request)->shard().version(), 1);
  request.set_checkpoint(BeginCheckpoint(checkpoints_));
  request.set_cut_id("pinned");
  const auto pinned = Write(request);
  ASSERT_TRUE(pinned.ok()) << pinned.status();
  EXPECT_EQ(pinned->shard().version(), 2);
  EXPECT_EQ(pinned->shard().applied().watermark(), 2);
  request.set_checkpoint(BeginCheckpoint(checkpoints_));
  request.mutable_cut()->set_version(0);
  EXPECT_EQ(Write(request)->shard().version(), 0) << "the initial values";
  request.set_checkpoint(BeginCheckpoint(checkpoints_));
  request.mutable_cut()->set_version(2);
  EXPECT_EQ(Write(request).status().code(), absl::StatusCode::kNotFound);
  request.set_cut_id("other");
  EXPECT_EQ(Write(request).status().code(), absl::StatusCode::kNotFound);
  job.Commit(checkpoints_, 2, {pinned->shard()});
  const float newest = Values(*Newest(Find().get()))[3];
  EXPECT_NEAR(RestoredValues(job, 2)[3], newest + 1, 1e-5) << "one step less";
}

TEST_F(ShardCheckpointTest, NewShardAndRetiredShardCanBeSaved) {
  const TestJob job({10}, PlainSgd());
  Create(job.Shards(1));
  const std::vector<float> initial = Values(*Newest(Find().get()));
  const uint64_t first = WriteWholeCheckpoint(store_.get(), job, 1, checkpoints_);
  PushOnes(0);
  const std::vector<float> trained = Values(*Newest(Find().get()));
  ASSERT_TRUE(store_->Retire("job", 0, 1).ok());
  const uint64_t last = WriteWholeCheckpoint(store_.get(), job, 1, checkpoints_);
  EXPECT_EQ(RestoredValues(job, first), initial);
  EXPECT_EQ(RestoredValues(job, last), trained);
}

TEST_F(ShardCheckpointTest, DamagedCutIsGivenUpAndTheNextCallWritesAnother) {
  const TestJob job({kBlockElements}, PlainSgd());
  Create(job.Shards(1));
  PushOnes(0);
  ASSERT_TRUE(store_->Flush("job", 0, 1).ok());
  for (const auto& file : CutFiles("a")) {
    std::fstream cut(file, std::ios::in | std::ios::out | std::ios::binary);
    cut.seekp(kBlockElements);
    cut.put('!');
  }
  const WriteCheckpointRequest request =
      MakeCheckpointRequest(0, checkpoints_, BeginCheckpoint(checkpoints_));
  const auto damaged = Write(request);
  EXPECT_EQ(damaged.status().code(), absl::StatusCode::kUnavailable) << damaged.status();
  const auto written = Write(request);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(written->shard().version(), 1);
}

// The next call saved the initial values.
TEST_F(ShardCheckpointTest, RetiredShardWhoseCutIsDamagedIsNotSavedAsItBegan) {
  const TestJob job({kBlockElements}, PlainSgd());
  Create(job.Shards(1));
  PushOnes(0);
  ASSERT_TRUE(store_->Retire("job", 0, 1).ok());
  for (const auto& file : CutFiles("a")) {
    std::fstream cut(file, std::ios::in | std::ios::out | std::ios::binary);
    cut.seekp(kBlockElements);
    cut.put('!');
  }
  const WriteCheckpointRequest request =
      MakeCheckpointRequest(0, checkpoints_, BeginCheckpoint(checkpoints_));
  EXPECT_FALSE(Write(request).ok());
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = Write(request).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("of version 1"));
  }
}

// It kept its memory for as long as the directory of checkpoints hung.
TEST_F(ShardCheckpointTest, DroppedShardIsNotKeptByACheckpointOfIt) {
  const TestJob job({3 * kBlockElements}, PlainSgd());
  Create(job.Shards(1));
  PushOnes(0);
  const std::weak_ptr<Shard> shard = Find();
  int asked = 0;
  const auto dropped =
      Write(MakeCheckpointRequest(0, checkpoints_, BeginCheckpoint(checkpoints_)), [&] {
        if (++asked != kInTheMiddle) return false;
        EXPECT_TRUE(store_->Drop("job", 0, 1).ok());
        SpinUntil("a lane being done with it", [&] { return shard.expired(); });
        return false;
      });
  EXPECT_EQ(dropped.status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ShardCheckpointTest, RequestThatMakesNoSenseIsRefused) {
  const TestJob job({10}, PlainSgd());
  Create(job.Shards(1));
  const auto code = [&](const std::function<void(WriteCheckpointRequest*)>& change) {
    WriteCheckpointRequest request = MakeCheckpointRequest(0, checkpoints_, 5);
    change(&request);
    return Write(request).status().code();
  };
  using Request = WriteCheckpointRequest;
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(code([](Request* request) { request->set_directory("here"); }), kInvalid);
  // The files would be made at the path before the byte.
  EXPECT_EQ(
      code([&](Request* request) { request->set_directory(checkpoints_ + std::string("\0c", 2)); }),
      kInvalid);
  EXPECT_EQ(code([](Request* request) { request->set_checkpoint(0); }), kInvalid);
  EXPECT_EQ(code([](Request* request) { request->set_base(5); }), kInvalid);
  EXPECT_EQ(code([](Request* request) { request->set_shard(1); }), absl::StatusCode::kNotFound);
  EXPECT_EQ(code([](Request* request) { request->set_generation(0); }),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace millrace::ps
