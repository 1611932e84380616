// What Gpu does with arrays, element by element. Enqueued; see Gpu (library.h) for the formulas.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_KERNELS_ARRAYS_H_
#define MILLRACE_WORKER_DEVICE_CUDA_KERNELS_ARRAYS_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "worker/device/cuda/library.h"

namespace millrace::cuda {

// Loads one of the kernels. Throws Error where this GPU and its driver can run none: all are
// compiled for the same GPUs.
void CheckKernelsLoad();

void Add(cudaStream_t stream, const float* part, size_t count, float* sum);
void AddUp(cudaStream_t stream, const std::vector<const float*>& parts, size_t count, float* sum);
void MarkNotFinite(cudaStream_t stream, const float* values, size_t count, uint64_t* mark);
void Divide(cudaStream_t stream, float by, size_t count, float* values);
void ToFloats(cudaStream_t stream, const uint8_t* bytes, size_t count, float* floats);
void AddRegularizers(cudaStream_t stream, const std::vector<Regularized>& variables);

}  // namespace millrace::cuda

#endif  // MILLRACE_WORKER_DEVICE_CUDA_KERNELS_ARRAYS_H_
