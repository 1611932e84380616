#include "testing/cuda_emulation/test_kernels.h"

namespace cuda_emulation {
namespace {

constexpr unsigned kThreads = 256;

template <typename... Parameters, typename... Arguments>
cudaError_t LaunchAs(cudaStream_t stream, dim3 grid, dim3 block, void (*kernel)(Parameters...),
                     Arguments... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

__global__ void Number(size_t count, float* out) {
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += size_t{gridDim.x} * blockDim.x) {
    out[i] = static_cast<float>(i);
  }
}

__global__ void __launch_bounds__(256)
    Double(size_t count, const float* __restrict__ in, float* __restrict__ out) {
  const size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) out[i] = __fmul_rn(2, __ldg(in + i));
}

template <bool barrier>
__global__ void TreeSum(const float* in, float* sums) {
  __shared__ float part[kThreads];
  part[threadIdx.x] = in[blockIdx.x * kThreads + threadIdx.x];
  __syncthreads();
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    if (barrier || half != 64) __syncthreads();
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
}

__device__ __forceinline__ float WarpSum(float value) {
  for (int by = 16; by > 0; by /= 2) value += __shfl_down_sync(0xffffffff, value, by);
  return value;
}

__global__ void ShuffleSum(const float* in, float* sums) {
  __shared__ float part[kThreads / 32];
  const float sum = WarpSum(in[blockIdx.x * kThreads + threadIdx.x]);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  const float total = WarpSum(threadIdx.x < kThreads / 32 ? part[threadIdx.x] : 0);
  if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

__global__ void UnwrittenSum(const float* in, float* sums) {
  __shared__ float part[kThreads];
  if (threadIdx.x < kThreads / 2) part[threadIdx.x] = in[blockIdx.x * kThreads + threadIdx.x];
  __syncthreads();
  if (threadIdx.x > 0) return;
  float sum = 0;
  for (float each : part) sum += each;
  sums[blockIdx.x] = sum;
}

__global__ void DoWrong(Wrong wrong, float* out) {
  __shared__ float part[64];
  const unsigned i = threadIdx.x;
  const bool odd = i == 33;  // One thread is unlike the others.
  const unsigned all = 0xffffffff;
  switch (wrong) {
    case Wrong::kThreadEnds:
      if (odd) return;
      __syncthreads();
      break;
    case Wrong::kTwoBarriers:
      if (odd) {
        __syncthreads();
      } else {
        __syncthreads();
      }
      break;
    case Wrong::kMaskWithoutSelf:
      __syncwarp(0xfffffffd);
      break;
    case Wrong::kLaneEnds:
      if (odd) return;
      __syncwarp();
      break;
    case Wrong::kTwoOperations:
      if (odd) {
        __ballot_sync(all, 1);
      } else {
        __syncwarp();
      }
      break;
    case Wrong::kLaneNotInMask:
      if (i < 16) out[i] = __shfl_down_sync(0x0000ffff, 1.0f, 1);
      break;
    case Wrong::kLaneIsNone:
      out[i] = __shfl_xor_sync(all, 1.0f, 1);
      break;
    case Wrong::kBarrierInShuffle:
      if (odd) {
        __syncthreads();
      } else {
        __syncwarp();
      }
      break;
    case Wrong::kSharedBeyond: {
      float* place = part + i;
      place[1] = 1;
      out[i] = part[i];
      break;
    }
  }
}

__global__ void Operations(int* out) {
  const int i = static_cast<int>(threadIdx.x);
  const int lane = i % 32;
  const unsigned all = 0xffffffff;
  int* own = out + i * kOperations;
  own[0] = __syncthreads_count(i < 10);
  own[1] = __syncthreads_or(i == 3);
  own[2] = __syncthreads_and(i != 3);
  own[3] = static_cast<int>(__ballot_sync(all, lane < 4));
  own[4] = __shfl_sync(all, i, 5);
  own[5] = __shfl_sync(all, i, 1, 8);
  own[6] = __shfl_up_sync(all, i, 3);
  own[7] = __shfl_down_sync(all, i, 2, 4);
  own[8] = __shfl_xor_sync(all, i, 16);
  own[9] = lane < 16 ? __any_sync(0x0000ffff, lane == 2) : __all_sync(0xffff0000, lane == 17);
}

__global__ void CountInOrder(int* counter, int* out) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] = (*counter)++;
}

}  // namespace

cudaError_t LaunchNumber(cudaStream_t stream, size_t count, size_t beyond, float* out) {
  return LaunchAs(stream, 3, 64, Number, count + beyond, out);
}

cudaError_t LaunchDouble(cudaStream_t stream, size_t count, const float* in, float* out) {
  return LaunchAs(stream, static_cast<unsigned>((count + 255) / 256), 256, Double, count, in, out);
}

cudaError_t LaunchSums(cudaStream_t stream, SumKind kind, unsigned blocks, const float* in,
                       float* sums) {
  switch (kind) {
    case SumKind::kTree:
      return LaunchAs(stream, blocks, kThreads, TreeSum<true>, in, sums);
    case SumKind::kWithoutBarrier:
      return LaunchAs(stream, blocks, kThreads, TreeSum<false>, in, sums);
    case SumKind::kShuffle:
      return LaunchAs(stream, blocks, kThreads, ShuffleSum, in, sums);
    default:
      return LaunchAs(stream, blocks, kThreads, UnwrittenSum, in, sums);
  }
}

cudaError_t LaunchWrong(cudaStream_t stream, Wrong wrong, float* out) {
  return LaunchAs(stream, 1, wrong == Wrong::kLaneIsNone ? 16 : 64, DoWrong, wrong, out);
}

cudaError_t LaunchOperations(cudaStream_t stream, int* out) {
  return LaunchAs(stream, 1, 64, Operations, out);
}

cudaError_t LaunchOrder(cudaStream_t stream, dim3 grid, dim3 block, int* counter, int* out) {
  return LaunchAs(stream, grid, block, CountInOrder, counter, out);
}

}  // namespace cuda_emulation
