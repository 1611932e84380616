// Kernels for tests of the emulated tensor cores; enqueued by these functions.
#ifndef MILLRACE_TESTING_CUDA_EMULATION_TEST_TENSOR_KERNELS_H_
#define MILLRACE_TESTING_CUDA_EMULATION_TEST_TENSOR_KERNELS_H_

#include <cuda_runtime.h>

namespace cuda_emulation {

enum class FactorKind {
  kTf32,      // Rounded by __float_to_tf32.
  kCutOff,    // TF32, not rounded.
  kBfloat16,  // Rounded by __float2bfloat16_rn.
};
enum class TensorError {
  kNone,
  kNoBarrierBeforeLoad,
  kNoBarrierAfterStore,
  kUnaligned,   // Where a factor stands.
  kOddPitch,    // How far its lines are apart.
  kLaneIsAway,  // One lane does not multiply.
};

// c = a b + 1, all row-major: a [16, depth], b [depth, 16]; the depth is 8 of TF32, else 16.
cudaError_t LaunchTensorProduct(cudaStream_t stream, FactorKind kind, TensorError error,
                                const float* a, const float* b, float* c);

}  // namespace cuda_emulation

#endif  // MILLRACE_TESTING_CUDA_EMULATION_TEST_TENSOR_KERNELS_H_
