// A shard against a model that a reader can check by eye: a vector and a set of steps.
//
// Random pushes come in random pieces over random streams, twice, broken off, or with steps that
// were applied long ago, and the store is stopped, or closed as if it had crashed, at random
// points. Gradients are whole numbers, so sums are exact in any order.
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "common/clock.h"
#include "gtest/gtest.h"
#include "ps/shard/shard_test_util.h"
#include "ps/store/shard_store.h"
#include "testing/seed/test_seed.h"

namespace millrace::ps {
namespace {

using ::millrace::testing::MakeMessage;
using ::millrace::testing::MakeSpec;
using ::millrace::testing::MakeWirePiece;
using ::millrace::testing::Newest;
using ::millrace::testing::Values;

constexpr uint64_t kTotalSteps = 60;

// The gradient of a step.
std::vector<float> Gradient(uint64_t step, size_t elements) {
  std::vector<float> gradient(elements);
  for (size_t i = 0; i < elements; ++i) gradient[i] = static_cast<float>((step * 31 + i * 7) % 64);
  return gradient;
}

// A piece that has not been sent.
struct Part {
  uint32_t slice = 0;
  uint64_t offset = 0;
  uint64_t begin = 0;  // From the shard's first element.
  uint64_t count = 0;
};

// A push under way.
struct OpenPush {
  uint64_t step = 0;
  uint64_t push_id = 0;
  std::vector<Part> parts;
  std::set<uint64_t> streams;
};

class Scenario {
 public:
  Scenario(unsigned seed, uint32_t replicas)
      : random_(seed),
        replicas_(replicas),
        spec_(MakeSpec({3, 500, 1}, replicas, kTotalSteps)),
        directory_(absl::StrCat(::testing::TempDir(), "/shard_model_test_", replicas)) {
    std::filesystem::remove_all(directory_);
    Open();
    EXPECT_TRUE(store_->Create(spec_, generation_).ok());
    shard_ = *store_->shards().Find("job", 0);
  }

  void Run() {
    for (int action = 0; action < 3000 && applied_.size() < kTotalSteps; ++action) {
      switch (Choose(40)) {
        case 0:
          BreakStream();
          break;
        case 1:
          if (Choose(5) == 0) Stop();
          break;
        case 2:
          if (Choose(5) == 0) Crash();
          break;
        case 3:
          Flush();
          break;
        default:
          if (open_.size() < 4 && Choose(3) == 0) StartPush();
          SendPart();
      }
      if (::testing::Test::HasFailure()) return;
    }
    FinishAll();
    Check();
    EXPECT_EQ(applied_.size(), kTotalSteps);
  }

 private:
  uint64_t Choose(uint64_t below) { return random_() % below; }

  void Open() {
    auto store = ShardStore::Open(directory_, {.clock = &clock_});
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  void Reopen() {
    open_.clear();
    shard_.reset();
    store_.reset();
    Open();
    shard_ = *store_->shards().Find("job", 0);
    Check();
  }

  void Flush() {
    EXPECT_TRUE(store_->Flush("job", 0, generation_).ok());
    if (flushed_ == applied_) return;
    flushed_ = applied_;
    flushed_held_.clear();
  }

  // Clean: nothing that was acknowledged is lost.
  void Stop() {
    ASSERT_TRUE(store_->Stop().ok());
    flushed_ = applied_;
    flushed_held_ = held_;
    Reopen();
    EXPECT_FALSE(shard_->Status().closed());
  }

  void Crash() {
    applied_ = flushed_;
    held_ = flushed_held_;
    Reopen();
    if (!shard_->Status().closed()) {
      EXPECT_EQ(applied_.size(), kTotalSteps);
      return;
    }
    EXPECT_FALSE(store_->Flush("job", 0, generation_).ok());
    EXPECT_TRUE(store_->SetGeneration("job", 0, ++generation_).ok());
  }

  // A step that may be pushed now: mostly one that is needed.
  uint64_t ChooseStep() {
    if (replicas_ == 0) return Choose(kTotalSteps);
    const uint64_t next = applied_.size() / replicas_ * replicas_;
    return Choose(8) == 0 ? Choose(next + 1) : std::min(kTotalSteps - 1, next + Choose(replicas_));
  }

  void StartPush() { open_.push_back(MakeOpenPush(ChooseStep())); }

  OpenPush MakeOpenPush(uint64_t step) {
    OpenPush push;
    push.step = step;
    push.push_id = ++last_push_id_;
    uint64_t begin = 0;
    for (int i = 0; i < spec_.slices_size(); ++i) {
      const uint64_t length = spec_.slices(i).slice().length();
      for (uint64_t offset = 0; offset < length;) {
        const uint64_t count = std::min(length - offset, 1 + Choose(300));
        push.parts.push_back({static_cast<uint32_t>(i), offset, begin + offset, count});
        offset += count;
      }
      begin += length;
    }
    std::shuffle(push.parts.begin(), push.parts.end(), random_);
    return push;
  }

  void SendPart() {
    if (open_.empty()) return;
    SendPartOf(Choose(open_.size()));
  }

  void SendPartOf(size_t index) {
    OpenPush& push = open_[index];
    const std::vector<float> gradient = Gradient(push.step, Elements());
    DecodedPush message = MakeMessage(spec_, push.step, push.push_id);
    message.header.set_generation(generation_);
    const size_t parts = std::min<size_t>(push.parts.size(), 1 + Choose(3));
    for (size_t i = 0; i < parts; ++i) {
      const Part& part = push.parts.back();
      message.pieces.push_back(MakeWirePiece(
          part.slice, part.offset, absl::MakeConstSpan(gradient).subspan(part.begin, part.count),
          1 + Choose(50)));
      push.parts.pop_back();
    }
    const uint64_t stream = 1 + Choose(3) + 10 * broken_streams_;
    push.streams.insert(stream);
    absl::optional<PushResponse> answer;
    const bool answered =
        shard_->Push(stream, std::move(message), [&](const PushResponse& got) { answer = got; });
    ASSERT_EQ(answered, push.parts.empty());
    if (!answered) return;
    ASSERT_TRUE(answer.has_value());
    Expect(push, *answer);
    open_.erase(open_.begin() + static_cast<long>(index));
    Check();
  }

  // The model's own idea of what a complete push does.
  void Expect(const OpenPush& push, const PushResponse& answer) {
    EXPECT_EQ(answer.code(), 0) << answer.message();
    if (applied_.contains(push.step)) {
      EXPECT_EQ(answer.outcome(), PushResponse::ALREADY_APPLIED) << push.step;
      return;
    }
    if (replicas_ == 0) {
      EXPECT_EQ(answer.outcome(), PushResponse::APPLIED) << push.step;
      applied_.insert(push.step);
      return;
    }
    held_.insert(push.step);
    const uint64_t version = applied_.size() / replicas_;
    const uint64_t needed = std::min<uint64_t>(replicas_, kTotalSteps - version * replicas_);
    if (held_.size() < needed) {
      EXPECT_EQ(answer.outcome(), PushResponse::HELD) << push.step;
      return;
    }
    EXPECT_EQ(answer.outcome(), PushResponse::APPLIED) << push.step;
    applied_.insert(held_.begin(), held_.end());
    held_.clear();
  }

  void BreakStream() {
    for (uint64_t stream = 1; stream <= 3; ++stream)
      shard_->StreamEnded(stream + 10 * broken_streams_);
    ++broken_streams_;
    open_.erase(std::remove_if(open_.begin(), open_.end(),
                               [](const OpenPush& push) { return !push.streams.empty(); }),
                open_.end());
  }

  void FinishAll() {
    while (!open_.empty() && !::testing::Test::HasFailure()) SendPartOf(0);
    for (uint64_t step = 0; step < kTotalSteps; ++step) {
      open_.push_back(MakeOpenPush(step));
      while (!open_.empty() && !::testing::Test::HasFailure()) SendPartOf(0);
    }
  }

  size_t Elements() const { return 504; }

  void Check() {
    const StatePtr state = Newest(shard_.get());
    std::vector<float> expected(Elements(), 0);
    for (const uint64_t step : applied_) {
      const std::vector<float> gradient = Gradient(step, Elements());
      const float weight = replicas_ == 0 ? 1 : 1.0f / static_cast<float>(replicas_);
      for (size_t i = 0; i < expected.size(); ++i) expected[i] -= weight * gradient[i];
    }
    ASSERT_EQ(Values(*state), expected);
    AppliedSet applied;
    for (const uint64_t step : applied_) applied.Insert(step);
    ASSERT_TRUE(state->applied == applied);
    AppliedSet held;
    for (const uint64_t step : held_) held.Insert(step);
    ASSERT_EQ(shard_->Status().held().SerializeAsString(), held.ToProto().SerializeAsString());
  }

  SimulatedClock clock_;  // Stands still: cuts are written when the test says so.
  std::mt19937_64 random_;
  const uint32_t replicas_;
  ShardSpec spec_;
  const std::string directory_;
  std::unique_ptr<ShardStore> store_;
  std::shared_ptr<Shard> shard_;
  std::vector<OpenPush> open_;
  std::set<uint64_t> applied_;
  std::set<uint64_t> flushed_;  // As applied_ and held_, in the newest cut.
  std::set<uint64_t> flushed_held_;
  std::set<uint64_t> held_;
  uint64_t generation_ = 1;
  uint64_t last_push_id_ = 0;
  uint64_t broken_streams_ = 0;
};

class ShardModelTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(ShardModelTest, ShardDoesAsTheModelDoes) {
  const auto seed = static_cast<unsigned>(TestSeed());
  Scenario(seed, GetParam()).Run();
}

// Powers of two, so that means are exact too.
INSTANTIATE_TEST_SUITE_P(Replicas, ShardModelTest, ::testing::Values(0, 1, 2, 4));

}  // namespace
}  // namespace millrace::ps
