// Shards that a store takes over from another server.
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps/store/fake_source.h"
#include "ps/store/shard_checkpoint_fixture.h"

namespace millrace::ps {
namespace {

using ::millrace::testing::MakeMessage;
using ::millrace::testing::MakeWirePiece;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint64_t kCopiedElements = 40;

CopyShardRequest CopyAt(uint64_t generation) {
  CopyShardRequest request;
  request.set_job_id("job");
  request.set_generation(generation);
  request.set_source_generation(generation - 1);
  return request;
}

class ShardCopyingTest : public ShardCheckpointTest {
 protected:
  // One that has trained in store "a": steps 0, 1 and 3, with Adam's slots. Store "b" is open then.
  ShardCopyingTest() {
    Create(job_.Shards(1));
    for (const uint64_t step : {0, 1, 3}) Push(step, kCopiedElements, 1);
    const ShardContents contents = Find()->Contents();
    arrays_ = AllArrays(1);
    need_ = MemoryNeed(Find()->plan());
    *snapshot_.mutable_spec() = Find()->plan().spec;
    snapshot_.set_epoch(7);
    snapshot_.mutable_stepped_back_to()->set_version(2);
    snapshot_.set_version(contents.state->version);
    *snapshot_.mutable_applied() = contents.state->applied.ToProto();
    snapshot_.set_gradient_norm(0.5);
    state_ = contents.state;
    Open("b");
  }

  FakeSource Source() const { return FakeSource(snapshot_, state_); }

  // A store with memory for one such shard, and not for two.
  void OpenWithRoomForOne(const std::string& name) {
    memory_limit_ = need_ * 3 / 2;  // A quarter of it is spare.
    Open(name);
  }

  ShardSpec SpecOfAnotherJob() const {
    ShardSpec spec = job_.Shards(1)[0];
    spec.set_job_id("other");
    return spec;
  }

  void ExpectNothingThere() {
    EXPECT_EQ(store_->shards().Find("job", 0).status().code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(CutFiles("b"), IsEmpty());
  }

  // A step whose gradient is 1.
  PushResponse PushAt(uint64_t generation, uint64_t step) {
    DecodedPush message = MakeMessage(Find()->plan().spec, step, ++push_id_);
    message.header.set_generation(generation);
    message.pieces.push_back(MakeWirePiece(0, 0, std::vector<float>(kCopiedElements, 1)));
    PushResponse answer;
    Find()->Push(1, std::move(message), [&](const PushResponse& got) { answer = got; });
    return answer;
  }

  const TestJob job_{{kCopiedElements}, MakeOptimizerSpec("adam { learning_rate: 0.5 }")};
  ShardSnapshot snapshot_;
  StatePtr state_;
  std::vector<std::vector<float>> arrays_;
  uint64_t need_ = 0;  // Of memory, in bytes.
  uint64_t push_id_ = 100;
};

TEST_F(ShardCopyingTest, CopyIsWhatTheShardIs) {
  FakeSource source = Source();
  const auto status = store_->Copy(CopyAt(5), source);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->generation(), 5u);
  EXPECT_EQ(status->epoch(), 7u);
  EXPECT_EQ(status->version(), 3u);
  EXPECT_EQ(status->applied().watermark(), 2u);
  EXPECT_THAT(status->applied().above(), ::testing::ElementsAre(3));
  EXPECT_EQ(status->origin(), ShardStatus::COPY);
  EXPECT_EQ(AllArrays(1), arrays_);
  EXPECT_EQ(Find()->Contents().state->gradient_norm, 0.5);
  EXPECT_EQ(Find()->Contents().stepped_back_to.version(), 2u);
}

// There is no arena here: as after the machine's restart.
TEST_F(ShardCopyingTest, CopyIsOnTheDiskFromTheFirst) {
  FakeSource source = Source();
  ASSERT_TRUE(store_->Copy(CopyAt(5), source).ok());
  Open("b");
  const ShardStatus status = Find()->Status();
  EXPECT_EQ(status.version(), 3u);
  EXPECT_EQ(status.epoch(), 7u);
  EXPECT_EQ(status.generation(), 5u);
  EXPECT_EQ(status.applied().SerializeAsString(), snapshot_.applied().SerializeAsString());
  EXPECT_TRUE(status.closed());
  EXPECT_EQ(AllArrays(1), arrays_);
  EXPECT_EQ(Find()->Contents().state->gradient_norm, 0.5);
  EXPECT_EQ(Find()->Contents().stepped_back_to.version(), 2u);
}

// It may have applied steps after its first cut.
TEST_F(ShardCopyingTest, CopyIsClosedAfterACrashUntilItsGenerationGrows) {
  FakeSource source = Source();
  ASSERT_TRUE(store_->Copy(CopyAt(5), source).ok());
  EXPECT_EQ(PushAt(5, 2).code(), 0);
  Open("b");
  const PushResponse refused = PushAt(5, 2);
  EXPECT_EQ(refused.code(), static_cast<int>(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(refused.message(), HasSubstr("is closed"));
  ASSERT_TRUE(store_->SetGeneration("job", 0, 6).ok());
  const PushResponse applied = PushAt(6, 2);
  EXPECT_EQ(applied.code(), 0) << applied.message();
  EXPECT_EQ(Find()->Status().version(), 4u);
}

TEST_F(ShardCopyingTest, CopyThatIsClosedIsNotTakenForAWholeOne) {
  FakeSource source = Source();
  ASSERT_TRUE(store_->Copy(CopyAt(5), source).ok());
  ASSERT_EQ(PushAt(5, 2).code(), 0);
  Open("b");
  EXPECT_EQ(store_->Copy(CopyAt(5), source).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(source.opened(), 1);
  FakeSource next = Source();
  const auto status = store_->Copy(CopyAt(7), next);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->generation(), 7u);
  EXPECT_FALSE(status->closed());
  EXPECT_EQ(AllArrays(1), arrays_);
}

TEST_F(ShardCopyingTest, CopyWhoseOnlyCutIsDamagedDoesNotBeginAnew) {
  FakeSource source = Source();
  ASSERT_TRUE(store_->Copy(CopyAt(5), source).ok());
  store_.reset();
  const auto cuts = CutFiles("b");
  ASSERT_THAT(cuts, SizeIs(1));
  std::filesystem::remove(cuts[0]);
  Open("b");
  EXPECT_EQ(store_->shards().Find("job", 0).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(ShardCopyingTest, CopyWhoseOnlyCutIsCutOffIsLostAndCanBeCopiedAgain) {
  FakeSource source = Source();
  ASSERT_TRUE(store_->Copy(CopyAt(5), source).ok());
  store_.reset();
  const auto cuts = CutFiles("b");
  ASSERT_THAT(cuts, SizeIs(1));
  std::filesystem::resize_file(cuts[0], std::filesystem::file_size(cuts[0]) / 2);
  Open("b");
  EXPECT_EQ(store_->shards().Find("job", 0).status().code(), absl::StatusCode::kDataLoss);
  FakeSource next = Source();
  const auto status = store_->Copy(CopyAt(6), next);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(AllArrays(1), arrays_);
}

TEST_F(ShardCopyingTest, RepeatedCallFindsItsCopyAndAsksNobody) {
  FakeSource source = Source();
  ASSERT_TRUE(store_->Copy(CopyAt(1), source).ok());
  PushOnes(2);
  const auto status = store_->Copy(CopyAt(1), source);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->version(), 4u);
  EXPECT_EQ(source.opened(), 1);
}

TEST_F(ShardCopyingTest, WhatIsHereAtAnOlderGenerationGoesFirst) {
  Create(job_.Shards(1));
  PushOnes(0);
  ASSERT_TRUE(store_->Flush("job", 0, 1).ok());
  FakeSource source = Source();
  ASSERT_TRUE(store_->Copy(CopyAt(5), source).ok());
  EXPECT_EQ(AllArrays(1), arrays_);
  EXPECT_THAT(CutFiles("b"), SizeIs(1));
}

TEST_F(ShardCopyingTest, WhatIsDamagedHereGoesFirst) {
  Create(job_.Shards(1));
  PushOnes(0);
  ASSERT_TRUE(store_->Flush("job", 0, 1).ok());
  store_.reset();
  for (const auto& cut : CutFiles("b")) std::filesystem::resize_file(cut, 10);
  Open("b");
  ASSERT_EQ(store_->shards().Find("job", 0).status().code(), absl::StatusCode::kDataLoss);
  FakeSource source = Source();
  const auto status = store_->Copy(CopyAt(5), source);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(AllArrays(1), arrays_);
}

// It was dropped while the disk gave errors.
TEST_F(ShardCopyingTest, WhatOnlyTheDiskHasGoesFirst) {
  Create(job_.Shards(1));
  PushOnes(0);
  ASSERT_TRUE(store_->Flush("job", 0, 1).ok());
  files_->Arm(0, millrace::testing::Fault::kError);
  ASSERT_FALSE(store_->Drop("job", 0, 1).ok());
  ASSERT_EQ(store_->shards().Find("job", 0).status().code(), absl::StatusCode::kNotFound);
  ASSERT_THAT(CutFiles("b"), SizeIs(1));
  clock_.Advance(absl::Minutes(1));  // It tries its disk again.
  FakeSource source = Source();
  const auto status = store_->Copy(CopyAt(5), source);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(AllArrays(1), arrays_);
  EXPECT_THAT(CutFiles("b"), SizeIs(1));
  Open("b");
  EXPECT_EQ(Find()->Status().generation(), 5u);
  EXPECT_EQ(Find()->Status().version(), 3u);
  EXPECT_EQ(AllArrays(1), arrays_);
}

TEST_F(ShardCopyingTest, CopyHasTheMemoryOfWhatWasHereBefore) {
  OpenWithRoomForOne("b");
  Create(job_.Shards(1));
  FakeSource source = Source();
  const auto status = store_->Copy(CopyAt(5), source);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(AllArrays(1), arrays_);
}

TEST_F(ShardCopyingTest, CopyDoesNotTakeTheMemoryOfOthers) {
  OpenWithRoomForOne("b");
  ASSERT_TRUE(store_->Create(SpecOfAnotherJob(), 1).ok());
  FakeSource source = Source();
  const absl::Status status = store_->Copy(CopyAt(5), source).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(status.ToString(), HasSubstr("not enough memory"));
  EXPECT_EQ(source.arrays_read(), 0u);
  ExpectNothingThere();
  ASSERT_TRUE(store_->Drop("other", 0, 1).ok());
  FakeSource next = Source();
  EXPECT_TRUE(store_->Copy(CopyAt(5), next).ok());
}

TEST_F(ShardCopyingTest, CallThatASecondOneOvertakesFindsItsCopy) {
  FakeSource first = Source();
  FakeSource second = Source();
  first.set_on_open([&] { EXPECT_TRUE(store_->Copy(CopyAt(5), second).ok()); });
  const auto status = store_->Copy(CopyAt(5), first);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->version(), 3u);
  EXPECT_EQ(first.arrays_read(), 0u);
}

TEST_F(ShardCopyingTest, WhatIsHereAtANewerGenerationStays) {
  Create(job_.Shards(1));
  ASSERT_TRUE(store_->SetGeneration("job", 0, 6).ok());
  FakeSource source = Source();
  EXPECT_EQ(store_->Copy(CopyAt(5), source).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(source.opened(), 0);
  EXPECT_EQ(Find()->Status().version(), 0u);
}

TEST_F(ShardCopyingTest, NothingStaysOfWhatCouldNotBeRead) {
  for (const char* const failing : {"open", "array", "close"}) {
    FakeSource source = Source();
    source.FailAt(failing);
    EXPECT_FALSE(store_->Copy(CopyAt(5), source).ok()) << failing;
    EXPECT_EQ(store_->shards().Find("job", 0).status().code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(CutFiles("b"), IsEmpty());
  }
  FakeSource source = Source();
  EXPECT_TRUE(store_->Copy(CopyAt(5), source).ok()) << "and the next one is made";
}

TEST_F(ShardCopyingTest, WhatCouldNotBeReadTakesNoMemory) {
  OpenWithRoomForOne("b");
  for (const char* const failing : {"open", "array", "close"}) {
    FakeSource source = Source();
    source.FailAt(failing);
    ASSERT_FALSE(store_->Copy(CopyAt(5), source).ok()) << failing;
    const auto other = store_->Create(SpecOfAnotherJob(), 1);
    ASSERT_TRUE(other.ok()) << failing << ": " << other.status();
    ASSERT_TRUE(store_->Drop("other", 0, 1).ok());
  }
}

// The caller is told what the other server said.
TEST_F(ShardCopyingTest, ErrorsOfTheSourceArePassedOn) {
  const auto error = [this](const std::string& failing) {
    FakeSource source = Source();
    source.FailAt(failing);
    return store_->Copy(CopyAt(5), source).status();
  };
  EXPECT_EQ(error("open"), absl::UnavailableError("no answer"));
  EXPECT_EQ(error("array"), absl::DataLossError("another checksum"));
  EXPECT_EQ(error("close"), absl::FailedPreconditionError("at a newer generation"));
}

TEST_F(ShardCopyingTest, StepsThatTheJobDoesNotHaveAreRefused) {
  const uint64_t total = snapshot_.spec().total_steps();
  FakeSource beyond = Source();
  beyond.snapshot().mutable_applied()->add_above(total);
  const absl::Status status = store_->Copy(CopyAt(5), beyond).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(
      status.ToString(),
      HasSubstr("what came of shard 0 of job 'job' has step 1000000 of a job with 1000000 steps"));
  EXPECT_EQ(beyond.arrays_read(), 0u);
  FakeSource unordered = Source();
  unordered.snapshot().mutable_applied()->add_above(1);
  EXPECT_EQ(store_->Copy(CopyAt(5), unordered).status().code(), absl::StatusCode::kDataLoss);
  ExpectNothingThere();
  FakeSource last = Source();
  last.snapshot().mutable_applied()->add_above(total - 1);
  EXPECT_TRUE(store_->Copy(CopyAt(5), last).ok());
}

TEST_F(ShardCopyingTest, WhatMakesNoSenseIsRefused) {
  FakeSource other = Source();
  other.snapshot().mutable_spec()->set_shard(1);
  EXPECT_THAT(store_->Copy(CopyAt(5), other).status().ToString(),
              HasSubstr("what came is shard 1 of job 'job' instead of shard 0"));
  FakeSource beyond = Source();
  beyond.snapshot().mutable_applied()->set_watermark(snapshot_.spec().total_steps() + 1);
  beyond.snapshot().mutable_applied()->clear_above();
  EXPECT_EQ(store_->Copy(CopyAt(5), beyond).status().code(), absl::StatusCode::kDataLoss);
  FakeSource unknown = Source();
  unknown.snapshot().mutable_spec()->clear_slices();
  EXPECT_EQ(store_->Copy(CopyAt(5), unknown).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store_->shards().Find("job", 0).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ShardCopyingTest, CopyThatIsDroppedMeanwhileIsNone) {
  FakeSource source = Source();
  before_cut_ = [this] { EXPECT_TRUE(store_->Drop("job", 0, 5).ok()); };
  EXPECT_EQ(store_->Copy(CopyAt(5), source).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(store_->shards().Find("job", 0).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ShardCopyingTest, CopyThatIsDroppedIsReadNoFurther) {
  OpenWithRoomForOne("b");
  FakeSource source = Source();
  source.set_on_array([this] { EXPECT_TRUE(store_->Drop("job", 0, 5).ok()); });
  EXPECT_EQ(store_->Copy(CopyAt(5), source).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(source.arrays_read(), 1u);
  ExpectNothingThere();
  const auto other = store_->Create(SpecOfAnotherJob(), 1);
  EXPECT_TRUE(other.ok()) << other.status();
}

TEST_F(ShardCopyingTest, CallOfAnOlderGenerationIsRefusedWhileACopyIsMade) {
  FakeSource source = Source();
  FakeSource older = Source();
  source.set_on_array([&] {
    EXPECT_EQ(store_->Copy(CopyAt(4), older, absl::ZeroDuration()).status().code(),
              absl::StatusCode::kFailedPrecondition);
  });
  ASSERT_TRUE(store_->Copy(CopyAt(5), source).ok());
  EXPECT_EQ(older.opened(), 0);
  EXPECT_EQ(Find()->Status().generation(), 5u);
}

TEST_F(ShardCopyingTest, StoreThatIsClosedAsksNobody) {
  store_->Close();
  FakeSource source = Source();
  EXPECT_EQ(store_->Copy(CopyAt(5), source).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(source.opened(), 0);
}

// A call to drop what was here before, which comes late.
TEST_F(ShardCopyingTest, CopyIsNotDroppedByACallOfTheGenerationBefore) {
  FakeSource source = Source();
  before_cut_ = [this] { store_->Drop("job", 0, 4).IgnoreError(); };
  ASSERT_TRUE(store_->Copy(CopyAt(5), source).ok());
  EXPECT_EQ(store_->Drop("job", 0, 4).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(AllArrays(1), arrays_);
}

TEST_F(ShardCopyingTest, TrainingGoesOnWithTheSameBits) {
  FakeSource source = Source();
  ASSERT_TRUE(store_->Copy(CopyAt(1), source).ok());
  Push(2, kCopiedElements, 1);
  const auto copied = AllArrays(1);
  Open("c");
  Create(job_.Shards(1));
  for (const uint64_t step : {0, 1, 3, 2}) Push(step, kCopiedElements, 1);
  EXPECT_EQ(copied, AllArrays(1));
}

}  // namespace
}  // namespace millrace::ps
