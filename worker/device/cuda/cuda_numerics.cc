#include "worker/device/cuda/cuda_numerics.h"

#include "absl/strings/str_cat.h"
#include "worker/device/cuda/gpu_names.h"
#include "worker/device/cuda/library.h"

namespace millrace::worker {
namespace {

const char* NameOf(PrecisionSpec::Compute precision) {
  switch (precision) {
    case PrecisionSpec::TF32:
      return "tf32";
    case PrecisionSpec::BFLOAT16:
      return "bfloat16";
    default:
      return "float32";
  }
}

}  // namespace

std::string CudaNumerics(const std::vector<std::unique_ptr<CudaReplica>>& replicas,
                         PrecisionSpec::Compute precision) {
  std::vector<std::string> names;
  for (const auto& replica : replicas) {
    const cuda::GpuProperties gpu = replica->gpu()->Properties();
    names.push_back(absl::StrCat(gpu.name, " (sm_", gpu.major, gpu.minor, ")"));
  }
  const cuda::GpuProperties first = replicas[0]->gpu()->Properties();
  const char* const order = first.deterministic ? "" : ", any order";
  return absl::StrCat("cuda, ", GpuNames(names), ", ", NameOf(precision), ", ", first.release, ", ",
                      first.products, order);
}

}  // namespace millrace::worker
