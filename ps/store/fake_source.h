// A shard on another server, for tests: its state is held, and reading it fails where a test wants.
#ifndef MILLRACE_PS_STORE_FAKE_SOURCE_H_
#define MILLRACE_PS_STORE_FAKE_SOURCE_H_

#include <cstddef>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "ps/dense/shard_state.h"
#include "ps/store/shard_source.h"

namespace millrace::ps {

// Read once.
class FakeSource final : public ShardSource {
 public:
  FakeSource(ShardSnapshot snapshot, StatePtr state)
      : snapshot_(std::move(snapshot)), state_(std::move(state)) {}

  absl::StatusOr<ShardSnapshot> Open() override {
    ++opened_;
    if (on_open_) std::exchange(on_open_, nullptr)();
    if (failing_ == "open") return absl::UnavailableError("no answer");
    return snapshot_;
  }

  absl::Status ReadArray(absl::Span<float> values) override {
    if (on_array_) std::exchange(on_array_, nullptr)();
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

  // "open", "array" (the second one) or "close".
  void FailAt(const std::string& failing) { failing_ = failing; }
  // Called once, when it is opened.
  void set_on_open(std::function<void()> on_open) { on_open_ = std::move(on_open); }
  // Called once, when the first array is read.
  void set_on_array(std::function<void()> on_array) { on_array_ = std::move(on_array); }
  ShardSnapshot& snapshot() { return snapshot_; }
  int opened() const { return opened_; }
  size_t arrays_read() const { return next_; }

 private:
  size_t arrays() const { return static_cast<size_t>(state_->blocks[0]->slots()) + 1; }

  ShardSnapshot snapshot_;
  const StatePtr state_;
  std::string failing_;
  std::function<void()> on_open_;
  std::function<void()> on_array_;
  size_t next_ = 0;  // Of all arrays, in their order.
  int opened_ = 0;
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_STORE_FAKE_SOURCE_H_
