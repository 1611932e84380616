#include <cuda_bf16.h>
#include <mma.h>

#include "testing/cuda_emulation/test_tensor_kernels.h"

namespace cuda_emulation {
namespace {

using nvcuda::wmma::accumulator;
using nvcuda::wmma::col_major;
using nvcuda::wmma::fragment;
using nvcuda::wmma::matrix_a;
using nvcuda::wmma::matrix_b;
using nvcuda::wmma::row_major;

struct Tf32 {
  using Element = float;
  using InFragment = nvcuda::wmma::precision::tf32;
  static constexpr int kDepth = 8;
  static __device__ float Take(float value) { return nvcuda::wmma::__float_to_tf32(value); }
};
struct CutOff : Tf32 {
  static __device__ float Take(float value) { return value; }
};
struct Bfloat16 {
  using Element = __nv_bfloat16;
  using InFragment = __nv_bfloat16;
  static constexpr int kDepth = 16;
  static __device__ __nv_bfloat16 Take(float value) { return __float2bfloat16_rn(value); }
};

// `a` is column-major in shared memory, and `b` row-major. One warp.
template <typename Factors>
__global__ void TensorProduct(TensorError error, const float* a, const float* b, float* c) {
  constexpr int kDepth = Factors::kDepth;
  constexpr int kPitch = 24;
  alignas(32) __shared__ typename Factors::Element a_part[kDepth][kPitch];
  alignas(32) __shared__ typename Factors::Element b_part[kDepth][kPitch];
  alignas(32) __shared__ float sums[16][16];
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = lane; i < 16 * kDepth; i += 32) {
    a_part[i % kDepth][i / kDepth] = Factors::Take(a[i]);
    b_part[i / 16][i % 16] = Factors::Take(b[i]);
  }
  if (error != TensorError::kNoBarrierBeforeLoad) __syncwarp();
  fragment<matrix_a, 16, 16, kDepth, typename Factors::InFragment, col_major> of_a;
  fragment<matrix_b, 16, 16, kDepth, typename Factors::InFragment, row_major> of_b;
  fragment<accumulator, 16, 16, kDepth, float> of_c;
  const int beside = error == TensorError::kUnaligned ? 1 : 0;
  const unsigned pitch = error == TensorError::kOddPitch ? kPitch - 1 : kPitch;
  nvcuda::wmma::load_matrix_sync(of_a, &a_part[0][beside], pitch);
  nvcuda::wmma::load_matrix_sync(of_b, &b_part[0][0], kPitch);
  nvcuda::wmma::fill_fragment(of_c, 1.0f);
  if (error == TensorError::kLaneIsAway && lane == 7) return;
  nvcuda::wmma::mma_sync(of_c, of_a, of_b, of_c);
  nvcuda::wmma::store_matrix_sync(&sums[0][0], of_c, 16, nvcuda::wmma::mem_row_major);
  if (error != TensorError::kNoBarrierAfterStore) __syncwarp();
  for (int i = lane; i < 256; i += 32) c[i] = sums[i / 16][i % 16];
}

}  // namespace

cudaError_t LaunchTensorProduct(cudaStream_t stream, FactorKind kind, TensorError error,
                                const float* a, const float* b, float* c) {
  cudaLaunchConfig_t config = {};
  config.gridDim = 1;
  config.blockDim = 32;
  config.stream = stream;
  const auto kernel = kind == FactorKind::kTf32     ? TensorProduct<Tf32>
                      : kind == FactorKind::kCutOff ? TensorProduct<CutOff>
                                                    : TensorProduct<Bfloat16>;
  return cudaLaunchKernelEx(&config, kernel, error, a, b, c);
}

}  // namespace cuda_emulation
