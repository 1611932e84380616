#include "worker/device/cuda/cuda_numerics.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "glog/logging.h"
#include "worker/device/cuda/gpu_names.h"
#include "worker/input/fingerprint.h"

namespace millrace::worker {
namespace {

constexpr size_t kMostNames = 100;  // Characters.
constexpr size_t kNamesBeforeHash = 85;

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

// Eight digits.
std::string HashOf(const std::string& text) {
  const auto* const bytes = reinterpret_cast<const unsigned char*>(text.data());
  const uint64_t hash = Fingerprint(/*seed=*/0, absl::MakeConstSpan(bytes, text.size()));
  return absl::StrFormat("%08x", static_cast<uint32_t>(hash));
}

std::string Shortened(const std::string& names) {
  if (names.size() <= kMostNames) return names;
  return absl::StrCat(names.substr(0, kNamesBeforeHash), "... (", HashOf(names), ")");
}

// With which cuBLAS is told from outside how to round, or to multiply. Nobody needs them.
constexpr const char* kCublasSettings[] = {
    "NVIDIA_TF32_OVERRIDE", "CUBLAS_EMULATE_SINGLE_PRECISION", "CUBLAS_EMULATION_STRATEGY",
    "CUBLASLT_HEURISTICS_LUT_FILE"};

// Those that are set: "NAME=VALUE".
std::vector<std::string> CublasSettings() {
  std::vector<std::string> settings;
  for (const char* const name : kCublasSettings) {
    const char* const value = std::getenv(name);
    if (value != nullptr) settings.push_back(absl::StrCat(name, "=", value));
  }
  return settings;
}

// Of all GPUs.
std::vector<std::string> ProductsOf(const std::vector<cuda::Gpu*>& gpus) {
  std::vector<std::string> products;
  for (cuda::Gpu* const gpu : gpus) {
    for (std::string& product : gpu->ChosenProducts()) products.push_back(std::move(product));
  }
  return products;
}

// And of what else decides how they are multiplied.
std::string HashOf(const std::vector<std::string>& products) {
  std::vector<std::string> lines = CublasSettings();
  lines.insert(lines.begin(), products.begin(), products.end());
  return HashOf(absl::StrJoin(lines, "\n"));
}

}  // namespace

std::string CudaNumerics(const std::vector<cuda::Gpu*>& gpus, PrecisionSpec::Compute precision) {
  std::vector<std::string> names;
  for (cuda::Gpu* const each : gpus) {
    const cuda::GpuProperties gpu = each->Properties();
    names.push_back(absl::StrCat(gpu.name, " (sm_", gpu.major, gpu.minor, ")"));
  }
  const cuda::GpuProperties first = gpus[0]->Properties();
  const std::vector<std::string> products = ProductsOf(gpus);
  return absl::StrCat("cuda, ", Shortened(GpuNames(names)), ", ", NameOf(precision), ", ",
                      first.release, ", ", first.products,
                      products.empty() ? "" : absl::StrCat(", products ", HashOf(products)),
                      first.deterministic ? "" : ", any order");
}

void LogProducts(const std::vector<cuda::Gpu*>& gpus, const std::string& device_name) {
  const std::vector<std::string> products = ProductsOf(gpus);
  if (products.empty()) return;
  LOG(INFO) << device_name << ": algorithms are chosen for " << products.size()
            << " products of matrices: products " << HashOf(products);
  for (const std::string& product : products) VLOG(1) << device_name << ": " << product;
  for (const std::string& setting : CublasSettings()) {
    LOG(WARNING) << device_name << ": cuBLAS obeys " << setting
                 << " of this process's environment: products may not have the job's precision";
  }
}

}  // namespace millrace::worker
