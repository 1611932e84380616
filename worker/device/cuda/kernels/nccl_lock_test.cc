#include "worker/device/cuda/kernels/nccl_lock.h"

#include <atomic>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace millrace::cuda {
namespace {

TEST(NcclLockTest, IsSharedByMany) {
  const auto first = ShareNcclLock();
  std::thread([] { EXPECT_TRUE(ShareNcclLock().owns_lock()); }).join();
}

// Somebody shares it at any time: there is no moment at which it is free by itself.
TEST(NcclLockTest, ASumGetsItWhileOthersShareItInTurns) {
  constexpr int kThreads = 8;
  constexpr int kYields = 100;
  std::atomic<bool> done = false;
  std::vector<std::thread> sharers;
  for (int i = 0; i < kThreads; ++i) {
    sharers.emplace_back([&] {
      while (!done) {
        const auto shared = ShareNcclLock();
        for (int k = 0; k < kYields; ++k) std::this_thread::yield();
      }
    });
  }
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(TakeNcclLock().owns_lock());
  done = true;
  for (std::thread& sharer : sharers) sharer.join();
}

}  // namespace
}  // namespace millrace::cuda
