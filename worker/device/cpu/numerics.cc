#include "worker/device/cpu/numerics.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "oneapi/dnnl/dnnl.hpp"

namespace millrace::worker {
namespace {

long CacheKib(int name) {
  const long bytes = sysconf(name);
  return bytes > 0 ? bytes / 1024 : 0;
}

}  // namespace

std::string CpuInstructionSet() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::all:
      return "plain instructions";
    case dnnl::cpu_isa::sse41:
      return "sse41";
    case dnnl::cpu_isa::avx:
      return "avx";
    case dnnl::cpu_isa::avx2:
      return "avx2";
    case dnnl::cpu_isa::avx2_vnni:
      return "avx2_vnni";
    case dnnl::cpu_isa::avx512_core:
      return "avx512_core";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "avx512_core_vnni";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "avx512_core_bf16";
    case dnnl::cpu_isa::avx512_core_amx:
      return "avx512_core_amx";
    default:  // Rare, or newer than this source.
      return absl::StrCat("instruction set 0x",
                          absl::Hex(static_cast<unsigned>(dnnl::get_effective_cpu_isa())));
  }
}

std::string CpuNumerics(int threads) {
  const dnnl_version_t* const version = dnnl_version();
  return absl::StrCat("cpu, ", threads, threads == 1 ? " thread" : " threads", ", oneDNN ",
                      version->major, ".", version->minor, ".", version->patch, " on ",
                      CpuInstructionSet(), ", caches of ", CacheKib(_SC_LEVEL1_DCACHE_SIZE), ", ",
                      CacheKib(_SC_LEVEL2_CACHE_SIZE), " and ", CacheKib(_SC_LEVEL3_CACHE_SIZE),
                      " KiB");
}

}  // namespace millrace::worker
