#ifndef MILLRACE_WORKER_DEVICE_CUDA_GPU_NAMES_H_
#define MILLRACE_WORKER_DEVICE_CUDA_GPU_NAMES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace millrace::worker {

// "cuda:0,1": as a user names GPUs.
inline std::string CudaName(const std::vector<int>& gpus) {
  return absl::StrCat("cuda:", absl::StrJoin(gpus, ","));
}

// "NVIDIA H200", "2 x NVIDIA H200", "NVIDIA H200, 2 x NVIDIA A100": neighbours of one kind
// together.
inline std::string GpuNames(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size();) {
    size_t end = i + 1;
    while (end < names.size() && names[end] == names[i]) ++end;
    const std::string count = end - i > 1 ? absl::StrCat(end - i, " x ") : "";
    absl::StrAppend(&text, i > 0 ? ", " : "", count, names[i]);
    i = end;
  }
  return text;
}

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CUDA_GPU_NAMES_H_
