#include "worker/device/cuda/library_loader.h"

#include <dlfcn.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "worker/device/cuda/library_version.h"

namespace millrace::worker {
namespace {

constexpr char kFile[] = "libmillrace_cuda.so";

// What dlerror has to say.
absl::Status NotLoaded() {
  const char* const why = dlerror();
  return absl::UnavailableError(
      absl::StrCat("the CUDA library cannot be loaded: ", why == nullptr ? kFile : why,
                   "; it is looked for beside the binary, in ../lib/millrace of its folder, and "
                   "where LD_LIBRARY_PATH says (docs/gpu.md)"));
}

}  // namespace

absl::StatusOr<cuda::Library*> LoadCudaLibrary() {
  void* const library = dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return NotLoaded();
  const auto get =
      reinterpret_cast<decltype(&MillraceCudaLibrary)>(dlsym(library, "MillraceCudaLibrary"));
  if (get == nullptr) return NotLoaded();
  cuda::Library* const loaded = get(cuda::kLibraryVersion);
  if (loaded != nullptr) return loaded;
  return absl::UnavailableError(absl::StrCat(
      kFile, " is of another version of Millrace than this binary; install both from one"));
}

}  // namespace millrace::worker
