#include "testing/cuda_emulation/tensor_cores.h"

#include <string>

#include "testing/cuda_emulation/fail.h"

namespace cuda_emulation {

void CheckMatrix(const void* memory, size_t line_bytes, Place place) {
  constexpr size_t kAlignment = 32;
  constexpr size_t kLine = 16;
  const std::string where =
      std::string(" (at ") + place.file + ":" + std::to_string(place.line) + ")";
  if (reinterpret_cast<uintptr_t>(memory) % kAlignment != 0) {
    Fail("a matrix of tensor cores is not aligned to 32 bytes" + where);
  }
  if (line_bytes % kLine != 0) {
    Fail("lines of a matrix of tensor cores are " + std::to_string(line_bytes) +
         " bytes apart; must be a multiple of 16" + where);
  }
}

}  // namespace cuda_emulation
