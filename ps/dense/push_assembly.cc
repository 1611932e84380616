#include "ps/dense/push_assembly.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace millrace::ps {

absl::Status PushAssembly::Add(const BlockLayout& layout, uint64_t stream, PushPieces pieces,
                               bool keep) {
  if (!carried_by(stream)) streams_.push_back(stream);
  for (const WirePiece& piece : *pieces) {
    const uint64_t count = piece.data.size();
    if (count == 0) {
      return absl::InvalidArgumentError(absl::StrCat("piece at offset ", piece.offset, " of slice ",
                                                     piece.slice, " has no data; leave it out"));
    }
    MILLRACE_ASSIGN_OR_RETURN(const uint64_t begin,
                              layout.Locate(piece.slice, piece.offset, count));
    if (!arrived_.Insert(begin, begin + count)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "piece of ", count, " elements at offset ", piece.offset, " of slice ", piece.slice,
          ": overlaps an earlier piece of the push; each element comes once"));
    }
  }
  if (keep && !pieces->empty()) pieces_.push_back(std::move(pieces));
  return absl::OkStatus();
}

bool PushAssembly::carried_by(uint64_t stream) const {
  return std::find(streams_.begin(), streams_.end(), stream) != streams_.end();
}

uint64_t ElementCount(const PushPieces& pieces) {
  uint64_t count = 0;
  for (const WirePiece& piece : *pieces) count += piece.data.size();
  return count;
}

}  // namespace millrace::ps
