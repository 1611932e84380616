#include "worker/input/memory_budget.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace millrace::worker {

absl::Status CheckKept(uint64_t bytes, uint64_t most, const ByteStream& stream) {
  if (bytes <= most) return absl::OkStatus();
  const absl::Status error = stream.Error(
      absl::StrCat("its examples, with those of files before, take ", bytes,
                   " bytes of memory up to offset ", stream.offset(), "; must be at most ", most,
                   " on this machine (docs/data.md says what need not be kept in memory)"));
  return absl::ResourceExhaustedError(error.message());
}

}  // namespace millrace::worker
