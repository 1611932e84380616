// A kernel of the kind that kernel_resources_test must find: what it indexes is not in registers.
#include <cuda_runtime.h>

namespace millrace::cuda {

__global__ void UsesLocalMemory(const int* order, float* values) {
  float copies[64];
  for (int i = 0; i < 64; ++i) copies[i] = values[i];
  for (int i = 0; i < 64; ++i) values[i] = copies[order[i] % 64];
}

}  // namespace millrace::cuda
