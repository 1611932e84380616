#include <dlfcn.h>

#include <string>

#include "worker/device/cuda/kernels/nccl_functions.h"
#include "worker/device/cuda/library.h"

#if __has_include(<nccl.h>)

namespace millrace::cuda {
namespace {

constexpr char kNcclFile[] = "libnccl.so.2";

[[noreturn]] void ThrowNoNccl() {
  const char* const why = dlerror();
  throw Error(Error::kOther,
              "NCCL cannot be loaded: " + std::string(why == nullptr ? kNcclFile : why));
}

template <typename Function>
void FindNcclFunction(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  if (*function == nullptr) ThrowNoNccl();
}

// Looked for where this library looks for CUDA's: where they were at build time, beside it, or
// where LD_LIBRARY_PATH says.
NcclFunctions FindNccl() {
  void* const library = dlopen(kNcclFile, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) ThrowNoNccl();
  NcclFunctions functions;
  FindNcclFunction(library, "ncclGetVersion", &functions.get_version);
  FindNcclFunction(library, "ncclGetErrorString", &functions.get_error_string);
  FindNcclFunction(library, "ncclGetLastError", &functions.get_last_error);
  FindNcclFunction(library, "ncclCommInitAll", &functions.comm_init_all);
  FindNcclFunction(library, "ncclCommDestroy", &functions.comm_destroy);
  FindNcclFunction(library, "ncclCommAbort", &functions.comm_abort);
  FindNcclFunction(library, "ncclCommGetAsyncError", &functions.comm_get_async_error);
  FindNcclFunction(library, "ncclGroupStart", &functions.group_start);
  FindNcclFunction(library, "ncclGroupEnd", &functions.group_end);
  FindNcclFunction(library, "ncclReduceScatter", &functions.reduce_scatter);
  return functions;
}

}  // namespace

// One that failed is tried again.
const NcclFunctions& LoadNccl() {
  static const NcclFunctions functions = FindNccl();
  return functions;
}

}  // namespace millrace::cuda

#endif  // __has_include(<nccl.h>)
