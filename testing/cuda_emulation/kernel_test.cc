#include <numeric>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/cuda_emulation/control.h"
#include "testing/cuda_emulation/device_vector.h"
#include "testing/cuda_emulation/test_kernels.h"

namespace cuda_emulation {
namespace {

using ::testing::Each;
using ::testing::ElementsAreArray;

constexpr uint64_t kSeeds = 20;

class KernelTest : public ::testing::Test {
 protected:
  KernelTest() {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    Reset();
  }

  // Sums of 1, 2, 3 ... 256 in each of three blocks.
  static std::vector<float> Sums(SumKind kind, uint64_t seed) {
    SetOrder(seed);
    std::vector<float> numbers(3 * 256);
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i % 256 + 1);
    const DeviceVector<float> in(numbers), sums(3);
    EXPECT_EQ(LaunchSums(nullptr, kind, 3, in.data(), sums.data()), cudaSuccess);
    return sums.Values();
  }

  static void DoWrong(Wrong wrong) {
    const DeviceVector<float> out(64);
    EXPECT_EQ(LaunchWrong(nullptr, wrong, out.data()), cudaSuccess);
    cudaDeviceSynchronize();
  }
};

TEST_F(KernelTest, ThreadsStrideOverAllElements) {
  const DeviceVector<float> out(1000);
  ASSERT_EQ(LaunchNumber(nullptr, 1000, 0, out.data()), cudaSuccess);
  std::vector<float> expected(1000);
  std::iota(expected.begin(), expected.end(), 0.0f);
  EXPECT_THAT(out.Values(), ElementsAreArray(expected));
}

TEST_F(KernelTest, TreeSumIsRightInEveryOrder) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    EXPECT_THAT(Sums(SumKind::kTree, seed), Each(256 * 257 / 2)) << seed;
  }
}

TEST_F(KernelTest, ShuffleSumIsRightInEveryOrder) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    EXPECT_THAT(Sums(SumKind::kShuffle, seed), Each(256 * 257 / 2)) << seed;
  }
}

TEST_F(KernelTest, SumWithoutABarrierIsWrongInSomeOrder) {
  int wrong = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    for (float sum : Sums(SumKind::kWithoutBarrier, seed)) wrong += sum != 256 * 257 / 2;
  }
  EXPECT_GT(wrong, 0);
}

TEST_F(KernelTest, SharedMemoryThatNobodyWroteIsNoNumber) {
#ifdef CUDA_EMULATION_ASAN
  GTEST_SKIP() << "Shared memory is not filled with AddressSanitizer.";
#endif
  for (uint64_t seed = 0; seed < 3; ++seed) {
    for (float sum : Sums(SumKind::kUnwritten, seed)) EXPECT_NE(sum, sum);
  }
}

TEST_F(KernelTest, OperationsOfBlocksAndWarpsGiveWhatCudaSays) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SetOrder(seed);
    const DeviceVector<int> out(64 * kOperations);
    ASSERT_EQ(LaunchOperations(nullptr, out.data()), cudaSuccess);
    const std::vector<int> values = out.Values();
    for (int i = 0; i < 64; ++i) {
      const int lane = i % 32, first = i - lane;
      const std::vector<int> own(values.begin() + i * kOperations,
                                 values.begin() + (i + 1) * kOperations);
      EXPECT_THAT(own, ElementsAreArray({10, 1, 0, 15, first + 5, first + lane / 8 * 8 + 1,
                                         lane < 3 ? i : i - 3, lane % 4 < 2 ? i + 2 : i, i ^ 16,
                                         lane < 16 ? 1 : 0}))
          << i;
    }
  }
}

TEST_F(KernelTest, OrderOfThreadsAndBlocksFollowsFromTheSeed) {
  const auto order = [](uint64_t seed) {
    SetOrder(seed);
    const DeviceVector<int> counter(std::vector<int>{0}), out(24);
    EXPECT_EQ(LaunchOrder(nullptr, dim3(2, 1, 2), dim3(3, 2), counter.data(), out.data()),
              cudaSuccess);
    return out.Values();
  };
  std::vector<int> forwards(24);
  std::iota(forwards.begin(), forwards.end(), 0);
  EXPECT_EQ(order(0), forwards);
  std::set<std::vector<int>> orders;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    orders.insert(order(seed));
    EXPECT_EQ(order(seed), order(seed));
  }
  EXPECT_GT(orders.size(), 3);
}

TEST_F(KernelTest, DivergenceAtABarrierIsReported) {
  EXPECT_DEATH(DoWrong(Wrong::kThreadEnds),
               "DoWrong.*block \\(0, 0, 0\\): thread \\(0, 0, 0\\) waits in __syncthreads \\(at "
               ".*test_kernels.cu:[0-9]+\\) while thread \\(33, 0, 0\\) has ended");
  EXPECT_DEATH(DoWrong(Wrong::kTwoBarriers), "waits in __syncthreads.* while thread .* waits in");
}

TEST_F(KernelTest, WrongMasksAreReported) {
  EXPECT_DEATH(DoWrong(Wrong::kMaskWithoutSelf), "thread \\(1, 0, 0\\) .*is not in its mask");
  EXPECT_DEATH(DoWrong(Wrong::kLaneEnds), "thread \\(33, 0, 0\\) has ended, which is in its mask");
  EXPECT_DEATH(DoWrong(Wrong::kTwoOperations), "__ballot_sync.* while .*waits in __syncwarp");
  EXPECT_DEATH(DoWrong(Wrong::kLaneNotInMask), "value of lane 16, which is not in its mask");
  EXPECT_DEATH(DoWrong(Wrong::kLaneIsNone), "lane 16 in its mask, which is no thread");
  EXPECT_DEATH(DoWrong(Wrong::kBarrierInShuffle), "while .*waits in");
}

TEST_F(KernelTest, AccessBeyondMemoryIsFoundByAddressSanitizer) {
#ifndef CUDA_EMULATION_ASAN
  GTEST_SKIP() << "Needs AddressSanitizer.";
#endif
  EXPECT_DEATH(DoWrong(Wrong::kSharedBeyond), "global-buffer-overflow");
  const auto write_beyond = [] {
    const DeviceVector<float> out(100);
    EXPECT_EQ(LaunchNumber(nullptr, 100, 1, out.data()), cudaSuccess);
    cudaDeviceSynchronize();
  };
  EXPECT_DEATH(write_beyond(), "use-after-poison");
}

TEST_F(KernelTest, WritingBeyondDeviceMemoryIsFoundWhenItIsFreed) {
#ifdef CUDA_EMULATION_ASAN
  GTEST_SKIP() << "AddressSanitizer finds it before.";
#endif
  const auto write_beyond = [] {
    const DeviceVector<float> out(100);
    EXPECT_EQ(LaunchNumber(nullptr, 100, 1, out.data()), cudaSuccess);
  };
  EXPECT_DEATH(write_beyond(), "device memory of 400 bytes was written to beyond its end");
}

}  // namespace
}  // namespace cuda_emulation
