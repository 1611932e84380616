// Runs kernels: block after block, the threads of a block as fibers.
//
// A fiber runs one thread after the other, until one of these waits; then another fiber goes on
// with the next. So threads that never wait cost a call, and as many fibers exist as threads ever
// waited at once. Between two waits a thread runs alone. What shares memory without a barrier
// therefore sees either all or nothing of what another thread wrote: which one, the order decides.
#ifndef MILLRACE_TESTING_CUDA_EMULATION_BLOCK_H_
#define MILLRACE_TESTING_CUDA_EMULATION_BLOCK_H_

#include <cstdint>
#include <functional>

#include "testing/cuda_emulation/language.h"
#include "testing/cuda_emulation/order.h"

namespace cuda_emulation {

struct KernelLaunch {
  const void* kernel = nullptr;  // Its address, which gives its name.
  dim3 grid;
  dim3 block;
  std::function<void()> body;  // The call, with its arguments.
};

// One at a time. Returns when all threads have ended.
void RunKernel(const KernelLaunch& launch, Order* order);

}  // namespace cuda_emulation

#endif  // MILLRACE_TESTING_CUDA_EMULATION_BLOCK_H_
