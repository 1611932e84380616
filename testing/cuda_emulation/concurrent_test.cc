#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/cuda_emulation/control.h"
#include "testing/cuda_emulation/device_vector.h"
#include "testing/cuda_emulation/test_kernels.h"

namespace cuda_emulation {
namespace {

using ::testing::Each;

// What a thread of the host does with a stream of its own.
void SumInTurns(SumKind kind) {
  cudaStream_t stream;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  for (int turn = 0; turn < 20; ++turn) {
    const DeviceVector<float> in(std::vector<float>(512, 1)), sums(2);
    ASSERT_EQ(LaunchSums(stream, kind, 2, in.data(), sums.data()), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_THAT(sums.Values(), Each(256));
  }
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST(ConcurrentTest, ThreadsOfTheHostShareTheDevice) {
  Reset();
  SetOrder(1);
  std::thread tree(SumInTurns, SumKind::kTree), shuffle(SumInTurns, SumKind::kShuffle);
  for (int i = 0; i < 100; ++i) cudaPeekAtLastError();
  tree.join();
  shuffle.join();
  EXPECT_EQ(InUse().allocations, 0);
}

}  // namespace
}  // namespace cuda_emulation
