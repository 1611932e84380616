// A version that several workers pull is rounded for each of them: it takes a fraction of the time
// that sending it takes, and what is rounded would have to be kept beside each state.
#include "ps/service/pull_pieces.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/printable.h"
#include "common/status_macros.h"

namespace millrace::ps {

absl::Status CheckEncoding(const PullRequest& request) {
  if (Encoding::Kind_IsValid(request.encoding())) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("encoding: ", static_cast<int>(request.encoding()),
                                                 "; must be one of FLOAT32, FLOAT16, BFLOAT16"));
}

absl::StatusOr<OutgoingPiece> PieceOf(Shard* shard, size_t index,
                                      const std::shared_ptr<const Block>& block,
                                      Encoding::Kind encoding) {
  const BlockLayout::BlockPlace& place = shard->plan().layout.blocks()[index];
  const ShardSlice& slice = shard->plan().spec.slices(static_cast<int>(place.slice));
  const absl::Span<const float> values = block->values();
  if (encoding == Encoding::FLOAT32 || slice.update().has_moving_average()) {
    return OutgoingPiece{place.slice, place.offset, values, block};
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<char[]> rounded,
                            shard->MakeCopy(values.size() * WidthOf(encoding)));
  const size_t bad = Narrow(values, encoding, rounded.get());
  if (bad < values.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "element ", slice.slice().offset() + place.offset + bad, " of variable '",
        PrintableName(slice.variable_name()), "' is ", DoesNotFit(values[bad], encoding)));
  }
  return OutgoingPiece{place.slice, place.offset,
                       EncodedNumbers(encoding, rounded.get(), values.size()), rounded};
}

}  // namespace millrace::ps
