#include "worker/input/prefetcher.h"

#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/input/batch.h"
#include "worker/input/dataset.h"
#include "worker/input/step_order.h"

namespace millrace::worker {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kExamples = 100;

// Example i has label i. Counts reads, and can be told to hold them up.
class FakeDataset final : public Dataset {
 public:
  uint64_t size() const override { return kExamples; }
  const ExampleSpec& example() const override { return example_; }

  absl::Status Read(absl::Span<const uint64_t> indices, Batch* batch) const override {
    {
      MutexLock lock(&mutex_);
      ++reads_;
      changed_.SignalAll();
      while (!open_) changed_.Wait(&mutex_);
      if (out_of_memory_) throw std::bad_alloc();
    }
    batch->size = indices.size();
    batch->labels.resize(1);
    batch->labels[0].ids.assign(indices.begin(), indices.end());
    return absl::OkStatus();
  }

  // Reads wait until the gate is open (it is at first).
  void SetOpen(bool open) {
    MutexLock lock(&mutex_);
    open_ = open;
    changed_.SignalAll();
  }

  void SetOutOfMemory(bool out_of_memory) {
    MutexLock lock(&mutex_);
    out_of_memory_ = out_of_memory;
  }

  // Returns when so many reads have started in all.
  void AwaitReads(int reads) const {
    MutexLock lock(&mutex_);
    while (reads_ < reads) changed_.Wait(&mutex_);
  }

  int reads() const {
    MutexLock lock(&mutex_);
    return reads_;
  }

 private:
  const ExampleSpec example_ = FloatsAndClass({1}, kExamples);
  mutable Mutex mutex_;
  mutable CondVar changed_;
  mutable int reads_ ABSL_GUARDED_BY(mutex_) = 0;
  bool open_ ABSL_GUARDED_BY(mutex_) = true;
  bool out_of_memory_ ABSL_GUARDED_BY(mutex_) = false;
};

class PrefetcherTest : public ::testing::Test {
 protected:
  std::vector<int64_t> Wanted(uint64_t step) {
    const std::vector<uint64_t> examples = order_.Examples(step);
    return {examples.begin(), examples.end()};
  }

  std::unique_ptr<Prefetcher> Start(size_t capacity, Prefetcher::Change change = {}) {
    return *Prefetcher::Start(&dataset_, order_, capacity, std::move(change));
  }

  FakeDataset dataset_;
  const StepOrder order_{kExamples, 8, /*seed=*/3, /*shuffle=*/true};
};

TEST_F(PrefetcherTest, TakesUnexpectedSteps) {
  const auto prefetcher = Start(2);
  EXPECT_EQ((*prefetcher->Take(5))->labels[0].ids, Wanted(5));
  EXPECT_EQ((*prefetcher->Take(5))->labels[0].ids, Wanted(5));
}

TEST_F(PrefetcherTest, ExpectedStepIsAssembledOnceAndAhead) {
  const auto prefetcher = Start(2);
  prefetcher->Expect(7);
  prefetcher->Expect(7);
  dataset_.AwaitReads(1);
  EXPECT_EQ((*prefetcher->Take(7))->labels[0].ids, Wanted(7));
  EXPECT_EQ(dataset_.reads(), 1);
}

TEST_F(PrefetcherTest, TakeWaitsForABatchUnderWay) {
  dataset_.SetOpen(false);
  const auto prefetcher = Start(2);
  prefetcher->Expect(7);
  dataset_.AwaitReads(1);
  std::unique_ptr<Batch> batch;
  std::thread taker([&] { batch = *prefetcher->Take(7); });
  dataset_.SetOpen(true);
  taker.join();
  EXPECT_EQ(batch->labels[0].ids, Wanted(7));
  EXPECT_EQ(dataset_.reads(), 1);
}

TEST_F(PrefetcherTest, WhatIsReadyStaysWhereItIsUntilItIsTaken) {
  dataset_.SetOpen(false);
  const auto prefetcher = Start(2);
  prefetcher->Expect(7);
  prefetcher->Expect(8);
  dataset_.AwaitReads(1);
  EXPECT_EQ(prefetcher->Ready(7), nullptr);
  dataset_.SetOpen(true);
  dataset_.AwaitReads(2);  // One after the other.
  const Batch* const ready = prefetcher->Ready(7);
  ASSERT_NE(ready, nullptr);
  EXPECT_EQ(ready->labels[0].ids, Wanted(7));
  EXPECT_EQ(prefetcher->Ready(7), ready);
  EXPECT_EQ(prefetcher->Take(7)->get(), ready);
  EXPECT_EQ(prefetcher->Ready(7), nullptr);
  EXPECT_EQ(prefetcher->Ready(9), nullptr);
}

TEST_F(PrefetcherTest, KeepsNoMoreThanItsCapacity) {
  dataset_.SetOpen(false);
  const auto prefetcher = Start(2);
  for (uint64_t step = 0; step < 10; ++step) prefetcher->Expect(step);
  dataset_.SetOpen(true);
  for (uint64_t step = 0; step < 10; ++step) {
    EXPECT_EQ((*prefetcher->Take(step))->labels[0].ids, Wanted(step));
  }
  EXPECT_EQ(dataset_.reads(), 10);  // None was made in vain, whoever made it.
}

TEST_F(PrefetcherTest, ForgottenStepsMakeRoom) {
  dataset_.SetOpen(false);
  const auto prefetcher = Start(2);
  prefetcher->Expect(0);
  dataset_.AwaitReads(1);  // Under way.
  prefetcher->Expect(1);   // Queued.
  prefetcher->Forget(0, 2);
  prefetcher->Expect(8);  // Takes the place of step 1.
  dataset_.SetOpen(true);
  dataset_.AwaitReads(2);
  EXPECT_EQ((*prefetcher->Take(8))->labels[0].ids, Wanted(8));
  EXPECT_EQ(dataset_.reads(), 2);
  EXPECT_EQ((*prefetcher->Take(0))->labels[0].ids, Wanted(0));
  EXPECT_EQ(dataset_.reads(), 3);  // The first one was dropped.
}

TEST_F(PrefetcherTest, StepForgottenUnderWayCanBeExpectedAgain) {
  dataset_.SetOpen(false);
  const auto prefetcher = Start(2);
  prefetcher->Expect(0);
  dataset_.AwaitReads(1);
  prefetcher->Forget(0, 1);
  prefetcher->Expect(0);
  dataset_.SetOpen(true);
  EXPECT_EQ((*prefetcher->Take(0))->labels[0].ids, Wanted(0));
  EXPECT_EQ(dataset_.reads(), 1);
}

TEST_F(PrefetcherTest, RecycledMemoryIsUsedAgain) {
  const auto prefetcher = Start(2);
  std::unique_ptr<Batch> batch = *prefetcher->Take(0);
  const Batch* const address = batch.get();
  prefetcher->Recycle(std::move(batch));
  batch = *prefetcher->Take(order_.steps_per_epoch() - 1);  // The short one.
  EXPECT_EQ(batch.get(), address);
  EXPECT_EQ(batch->labels[0].ids, Wanted(order_.steps_per_epoch() - 1));
}

TEST_F(PrefetcherTest, ExamplesAreChangedWithTheirStepOnce) {
  const auto prefetcher = Start(2, [](uint64_t step, Batch* batch) {
    for (int64_t& label : batch->labels[0].ids) label += static_cast<int64_t>(1000 * step);
  });
  prefetcher->Expect(7);
  dataset_.AwaitReads(1);
  for (const uint64_t step : {7, 8}) {
    std::vector<int64_t> wanted = Wanted(step);
    for (int64_t& label : wanted) label += static_cast<int64_t>(1000 * step);
    EXPECT_EQ((*prefetcher->Take(step))->labels[0].ids, wanted);
  }
}

// That ended the process: nobody caught it in the prefetcher's thread.
TEST_F(PrefetcherTest, BatchThatFindsNoMemoryIsAnErrorOfItsStepAlone) {
  const auto prefetcher = Start(2);
  dataset_.SetOutOfMemory(true);
  prefetcher->Expect(0);
  dataset_.AwaitReads(1);
  EXPECT_TRUE(absl::IsResourceExhausted(prefetcher->Take(0).status()));
  dataset_.SetOutOfMemory(false);
  EXPECT_EQ((*prefetcher->Take(0))->labels[0].ids, Wanted(0));
}

TEST_F(PrefetcherTest, StopsWithStepsStillExpected) {
  const auto prefetcher = Start(8);
  for (uint64_t step = 0; step < 8; ++step) prefetcher->Expect(step);
}

TEST_F(PrefetcherTest, ManyThreadsGetTheirOwnBatches) {
  constexpr int kThreads = 4;
  constexpr uint64_t kSteps = 200;
  const auto prefetcher = Start(6);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t step = t; step < kSteps; step += kThreads) {
        prefetcher->Expect(step + kThreads);
        std::unique_ptr<Batch> batch = *prefetcher->Take(step);
        EXPECT_EQ(batch->labels[0].ids, Wanted(step));
        prefetcher->Recycle(std::move(batch));
        if (step % 16 == 0) prefetcher->Forget(step, step + 8);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace millrace::worker
