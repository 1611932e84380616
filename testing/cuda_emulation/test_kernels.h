// Kernels for the tests of the emulation; enqueued by these functions.
#ifndef MILLRACE_TESTING_CUDA_EMULATION_TEST_KERNELS_H_
#define MILLRACE_TESTING_CUDA_EMULATION_TEST_KERNELS_H_

#include <cuda_runtime.h>

#include <cstddef>

namespace cuda_emulation {

// out[i] = i, out[count] also if `beyond`.
cudaError_t LaunchNumber(cudaStream_t stream, size_t count, size_t beyond, float* out);
// out[i] = 2 * in[i].
cudaError_t LaunchDouble(cudaStream_t stream, size_t count, const float* in, float* out);

// Sums of the 256 numbers of each of `blocks` blocks.
enum class SumKind {
  kTree,            // In shared memory.
  kWithoutBarrier,  // The same, with one barrier left out.
  kShuffle,         // By shuffles, and shared memory between warps.
  kUnwritten,       // Adds up shared memory that nobody has written.
};
cudaError_t LaunchSums(cudaStream_t stream, SumKind kind, unsigned blocks, const float* in,
                       float* sums);

enum class Wrong {
  kThreadEnds,        // Before others come to a barrier.
  kTwoBarriers,       // Threads wait at different ones.
  kMaskWithoutSelf,   // Of a warp's operation.
  kLaneEnds,          // That is in the mask of others.
  kTwoOperations,     // Lanes of one mask.
  kLaneNotInMask,     // Whose value is asked for.
  kLaneIsNone,        // In a block of 16 threads with the full mask.
  kBarrierInShuffle,  // Some of a warp wait for the block, others for the warp.
  kSharedBeyond,      // Writes past the end of an array in shared memory.
};
cudaError_t LaunchWrong(cudaStream_t stream, Wrong wrong, float* out);

// What operations give to 64 threads; of each kOperations numbers, as TestKernelsTest knows them.
inline constexpr int kOperations = 10;
cudaError_t LaunchOperations(cudaStream_t stream, int* out);

// Counts in *counter the threads, one after the other, in the order in which they run.
cudaError_t LaunchOrder(cudaStream_t stream, dim3 grid, dim3 block, int* counter, int* out);

}  // namespace cuda_emulation

#endif  // MILLRACE_TESTING_CUDA_EMULATION_TEST_KERNELS_H_
