#include "worker/input/byte_stream.h"

#include <algorithm>

#include "common/status_macros.h"

namespace millrace::worker {

absl::Status ReadUpTo(ByteStream* stream, uint64_t size, std::string* bytes) {
  constexpr uint64_t kPartBytes = uint64_t{1} << 20;
  constexpr uint64_t kMostPartBytes = kPartBytes << 5;
  bytes->clear();
  while (bytes->size() < size) {
    const size_t have = bytes->size();
    const size_t wanted =
        std::min(size - have, std::clamp<uint64_t>(have, kPartBytes, kMostPartBytes));
    bytes->resize(have + wanted);
    MILLRACE_ASSIGN_OR_RETURN(const size_t got,
                              stream->Read(absl::MakeSpan(*bytes).subspan(have, wanted)));
    bytes->resize(have + got);
    if (got < wanted) break;
  }
  return absl::OkStatus();
}

}  // namespace millrace::worker
