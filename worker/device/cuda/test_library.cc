#include "worker/device/cuda/test_library.h"

#include <dlfcn.h>

#include <cstdlib>

#include "glog/logging.h"
#include "worker/device/cuda/library_version.h"

namespace millrace::worker {
namespace {

const char* RealLibraryPath() { return std::getenv("MILLRACE_TEST_GPU"); }

// RTLD_DEEPBIND: what it needs of cuBLASLt is cuBLASLt's, and not the emulation's, which is in this
// process too.
cuda::Library* LoadRealLibrary() {
  const char* const path = RealLibraryPath();
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  CHECK(library != nullptr) << "MILLRACE_TEST_GPU: " << dlerror();
  const auto get =
      reinterpret_cast<decltype(&MillraceCudaLibrary)>(dlsym(library, "MillraceCudaLibrary"));
  CHECK(get != nullptr) << "MILLRACE_TEST_GPU: " << dlerror();
  cuda::Library* const loaded = get(cuda::kLibraryVersion);
  CHECK(loaded != nullptr) << "MILLRACE_TEST_GPU: " << path << " is of another version";
  return loaded;
}

cuda::Library* RealLibrary() {
  static cuda::Library* const library = LoadRealLibrary();
  return library;
}

}  // namespace

bool OnRealGpu(int gpus) {
  return RealLibraryPath() != nullptr && (gpus == 1 || RealLibrary()->GpuCount() >= gpus);
}

cuda::Library* TestLibrary(int gpus) {
  return OnRealGpu(gpus) ? RealLibrary() : MillraceCudaLibrary(cuda::kLibraryVersion);
}

}  // namespace millrace::worker
