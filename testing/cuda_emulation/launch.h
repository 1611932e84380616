// How kernels are launched: cudaLaunchKernelEx, since only nvcc knows <<<>>>.
#ifndef MILLRACE_TESTING_CUDA_EMULATION_LAUNCH_H_
#define MILLRACE_TESTING_CUDA_EMULATION_LAUNCH_H_

#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "testing/cuda_emulation/runtime_types.h"

namespace cuda_emulation {

// `pointers` are the kernel's arguments that are addresses of objects: each must be null, or lie in
// memory of the device, or in pinned memory.
cudaError_t Launch(const cudaLaunchConfig_t* config, const void* kernel, std::function<void()> body,
                   const std::vector<const void*>& pointers);

template <typename T>
void CollectPointer(const T& argument, std::vector<const void*>* pointers) {
  if constexpr (std::is_pointer_v<T> && !std::is_function_v<std::remove_pointer_t<T>>) {
    pointers->push_back(argument);
  }
}

}  // namespace cuda_emulation

// NOLINTNEXTLINE(readability-identifier-naming)
template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  static_assert((std::is_trivially_copyable_v<Parameters> && ...),
                "a kernel's arguments are copied as bytes");
  static_assert((size_t{0} + ... + sizeof(Parameters)) <= 32764, "a kernel's arguments are small");
  std::tuple<Parameters...> values(std::forward<Arguments>(arguments)...);
  std::vector<const void*> pointers;
  std::apply([&](const auto&... each) { (cuda_emulation::CollectPointer(each, &pointers), ...); },
             values);
  return cuda_emulation::Launch(
      config, reinterpret_cast<const void*>(kernel),
      [kernel, values = std::move(values)] { std::apply(kernel, values); }, pointers);
}

#endif  // MILLRACE_TESTING_CUDA_EMULATION_LAUNCH_H_
