// Calls that make one shard at a time.
#include <atomic>
#include <future>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "ps/store/checkpoint_test_util.h"
#include "ps/store/shard_checkpoint_fixture.h"

namespace millrace::ps {
namespace {

using ::millrace::testing::TestJob;
using ::millrace::testing::WriteWholeCheckpoint;

// Tells when a thread begins to wait.
class TellingClock final : public Clock {
 public:
  explicit TellingClock(Clock* clock) : clock_(clock) {}

  absl::Time Now() override { return clock_->Now(); }
  bool WaitUntil(CondVar* condition, Mutex* mutex, absl::Time deadline) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (std::this_thread::get_id() == watched_ && !told_.exchange(true)) waits_.set_value();
    return clock_->WaitUntil(condition, mutex, deadline);
  }

  // Called by the thread.
  void Watch() { watched_ = std::this_thread::get_id(); }
  void AwaitItsWait() { waits_.get_future().wait(); }

 private:
  Clock* const clock_;
  std::atomic<std::thread::id> watched_{};
  std::atomic<bool> told_{false};
  std::promise<void> waits_;
};

class ShardMakingTest : public ShardCheckpointTest {};

// It was made after all, of what the job has no more, and the next one found it there.
TEST_F(ShardMakingTest, CallThatWaitsBehindADroppedOneMakesNothing) {
  const TestJob job({10}, PlainSgd());
  Create(job.Shards(1));
  const uint64_t number = WriteWholeCheckpoint(store_.get(), job, 1, checkpoints_);
  TellingClock clock(&clock_);
  store_clock_ = &clock;
  Open("b");
  const ShardSpec spec = TestJob::Restored(job.Shards(1), checkpoints_, number)[0];
  absl::Status second;
  std::thread waiter;
  before_cut_ = [&] {
    waiter = std::thread([&] {
      clock.Watch();
      second = store_->Create(spec, 1).status();
    });
    clock.AwaitItsWait();
    EXPECT_TRUE(store_->Drop("job", 0, 1).ok());
  };
  EXPECT_EQ(store_->Create(spec, 1).status().code(), absl::StatusCode::kAborted);
  waiter.join();
  EXPECT_EQ(second.code(), absl::StatusCode::kAborted) << second;
  EXPECT_EQ(store_->shards().Find("job", 0).status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(store_->Create(spec, 2).ok());
  store_.reset();  // Before its clock.
}

}  // namespace
}  // namespace millrace::ps
