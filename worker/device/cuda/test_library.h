// The CUDA library that tests are of: the one that is linked in, on the emulated GPU, or a real
// one.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_TEST_LIBRARY_H_
#define MILLRACE_WORKER_DEVICE_CUDA_TEST_LIBRARY_H_

#include "worker/device/cuda/library.h"

namespace millrace::worker {

// The libmillrace_cuda.so whose path the environment variable MILLRACE_TEST_GPU has: tests are of
// this machine's first GPUs then, so many. Where that is not set, or several are asked for and the
// machine has fewer: the library that is linked in. Stops the process, with the reason, where there
// is none.
cuda::Library* TestLibrary(int gpus = 1);

// Whether that is a real one.
bool OnRealGpu(int gpus = 1);

}  // namespace millrace::worker

// At the beginning of a test that orders the emulation about, looks into it, or calls what a real
// library hides. Takes what OnRealGpu takes.
#define MILLRACE_NEEDS_EMULATION(...)             \
  if (::millrace::worker::OnRealGpu(__VA_ARGS__)) \
  GTEST_SKIP() << "needs the emulated GPU, and MILLRACE_TEST_GPU is set"

#endif  // MILLRACE_WORKER_DEVICE_CUDA_TEST_LIBRARY_H_
