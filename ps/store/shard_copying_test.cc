// Shards that a store takes over from another server.
#include <cstddef>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps/store/shard_checkpoint_fixture.h"
#include "ps/store/shard_source.h"

namespace millrace::ps {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint64_t kCopiedElements = 40;

// What is read of a shard that is held for it.
class HeldSource final : public ShardSource {
 public:
  HeldSource(ShardSnapshot snapshot, StatePtr state)
      : snapshot_(std::move(snapshot)), state_(std::move(state)) {}

  absl::StatusOr<ShardSnapshot> Open() override {
    ++opened_;
    if (on_open_) std::exchange(on_open_, nullptr)();
    if (failing_ == "open") return absl::UnavailableError("no answer");
    return snapshot_;
  }

  absl::Status ReadArray(absl::Span<float> values) override {
    if (failing_ == "array" && next_ > 0) return absl::DataLossError("another checksum");
    const Block& block = *state_->blocks[next_ / arrays()];
    const float* const array = block.array(static_cast<int>(next_ % arrays()));
    ++next_;
    EXPECT_EQ(values.size(), block.elements());
    std::memcpy(values.data(), array, values.size() * sizeof(float));
    return absl::OkStatus();
  }

  absl::Status Close() override {
    return failing_ == "close" ? absl::FailedPreconditionError("at a newer generation")
                               : absl::OkStatus();
  }

  void FailAt(const std::string& failing) { failing_ = failing; }
  // Called once, when it is opened.
  void set_on_open(std::function<void()> on_open) { on_open_ = std::move(on_open); }
  ShardSnapshot& snapshot() { return snapshot_; }
  int opened() const { return opened_; }

 private:
  size_t arrays() const { return static_cast<size_t>(state_->blocks[0]->slots()) + 1; }

  ShardSnapshot snapshot_;
  const StatePtr state_;
  std::string failing_;
  std::function<void()> on_open_;
  size_t next_ = 0;  // Of all arrays, in their order.
  int opened_ = 0;
};

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
    *snapshot_.mutable_spec() = Find()->plan().spec;
    snapshot_.set_epoch(7);
    snapshot_.mutable_stepped_back_to()->set_version(2);
    snapshot_.set_version(contents.state->version);
    *snapshot_.mutable_applied() = contents.state->applied.ToProto();
    snapshot_.set_gradient_norm(0.5);
    state_ = contents.state;
    Open("b");
  }

  HeldSource Source() const { return HeldSource(snapshot_, state_); }

  const TestJob job_{{kCopiedElements}, MakeOptimizerSpec("adam { learning_rate: 0.5 }")};
  ShardSnapshot snapshot_;
  StatePtr state_;
  std::vector<std::vector<float>> arrays_;
};

TEST_F(ShardCopyingTest, CopyIsWhatTheShardIs) {
  HeldSource source = Source();
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
  HeldSource source = Source();
  ASSERT_TRUE(store_->Copy(CopyAt(5), source).ok());
  Open("b");
  const ShardStatus status = Find()->Status();
  EXPECT_EQ(status.version(), 3u);
  EXPECT_EQ(status.epoch(), 7u);
  EXPECT_EQ(status.generation(), 5u);
  EXPECT_TRUE(status.closed());
  EXPECT_EQ(AllArrays(1), arrays_);
}

TEST_F(ShardCopyingTest, CopyWhoseOnlyCutIsDamagedDoesNotBeginAnew) {
  HeldSource source = Source();
  ASSERT_TRUE(store_->Copy(CopyAt(5), source).ok());
  store_.reset();
  const auto cuts = CutFiles("b");
  ASSERT_THAT(cuts, SizeIs(1));
  std::filesystem::remove(cuts[0]);
  Open("b");
  EXPECT_EQ(store_->shards().Find("job", 0).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(ShardCopyingTest, RepeatedCallFindsItsCopyAndAsksNobody) {
  HeldSource source = Source();
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
  HeldSource source = Source();
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
  HeldSource source = Source();
  const auto status = store_->Copy(CopyAt(5), source);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(AllArrays(1), arrays_);
}

TEST_F(ShardCopyingTest, WhatIsHereAtANewerGenerationStays) {
  Create(job_.Shards(1));
  ASSERT_TRUE(store_->SetGeneration("job", 0, 6).ok());
  HeldSource source = Source();
  EXPECT_EQ(store_->Copy(CopyAt(5), source).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(source.opened(), 0);
  EXPECT_EQ(Find()->Status().version(), 0u);
}

TEST_F(ShardCopyingTest, NothingStaysOfWhatCouldNotBeRead) {
  for (const char* const failing : {"open", "array", "close"}) {
    HeldSource source = Source();
    source.FailAt(failing);
    EXPECT_FALSE(store_->Copy(CopyAt(5), source).ok()) << failing;
    EXPECT_EQ(store_->shards().Find("job", 0).status().code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(CutFiles("b"), IsEmpty());
  }
  HeldSource source = Source();
  EXPECT_TRUE(store_->Copy(CopyAt(5), source).ok()) << "and the next one is made";
}

TEST_F(ShardCopyingTest, WhatMakesNoSenseIsRefused) {
  HeldSource other = Source();
  other.snapshot().mutable_spec()->set_shard(1);
  EXPECT_THAT(store_->Copy(CopyAt(5), other).status().ToString(),
              HasSubstr("what came is shard 1 of job 'job' instead of shard 0"));
  HeldSource beyond = Source();
  beyond.snapshot().mutable_applied()->set_watermark(snapshot_.spec().total_steps() + 1);
  beyond.snapshot().mutable_applied()->clear_above();
  EXPECT_EQ(store_->Copy(CopyAt(5), beyond).status().code(), absl::StatusCode::kDataLoss);
  HeldSource unknown = Source();
  unknown.snapshot().mutable_spec()->clear_slices();
  EXPECT_EQ(store_->Copy(CopyAt(5), unknown).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store_->shards().Find("job", 0).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ShardCopyingTest, CopyThatIsDroppedMeanwhileIsNone) {
  HeldSource source = Source();
  before_cut_ = [this] { EXPECT_TRUE(store_->Drop("job", 0, 5).ok()); };
  EXPECT_EQ(store_->Copy(CopyAt(5), source).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(store_->shards().Find("job", 0).status().code(), absl::StatusCode::kNotFound);
}

// A call to drop what was here before, which comes late.
TEST_F(ShardCopyingTest, CopyIsNotDroppedByACallOfTheGenerationBefore) {
  HeldSource source = Source();
  before_cut_ = [this] { store_->Drop("job", 0, 4).IgnoreError(); };
  ASSERT_TRUE(store_->Copy(CopyAt(5), source).ok());
  EXPECT_EQ(store_->Drop("job", 0, 4).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(AllArrays(1), arrays_);
}

TEST_F(ShardCopyingTest, TrainingGoesOnWithTheSameBits) {
  HeldSource source = Source();
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
