// What one instruction loads or stores: four floats, one after the other. A thread that takes four
// at once keeps more of the memory busy than one that takes them one by one.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_KERNELS_FOURS_H_
#define MILLRACE_WORKER_DEVICE_CUDA_KERNELS_FOURS_H_

#include <cstdint>

namespace millrace::cuda {

struct alignas(16) FourFloats {
  float values[4];
};

// Whether all of these stand where a FourFloats may.
template <typename... Pointers>
bool AlignedForFours(const Pointers*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % sizeof(FourFloats) == 0) && ...);
}

}  // namespace millrace::cuda

#endif  // MILLRACE_WORKER_DEVICE_CUDA_KERNELS_FOURS_H_
