// Blocks, as a pull sends them.
#ifndef MILLRACE_PS_SERVICE_PULL_PIECES_H_
#define MILLRACE_PS_SERVICE_PULL_PIECES_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "common/wire/tensor_codec.h"
#include "protos/parameter_server.pb.h"
#include "ps/block/block.h"
#include "ps/shard/shard.h"

namespace millrace::ps {

// INVALID_ARGUMENT: the encoding that a client wants is none that there is.
absl::Status CheckEncoding(const PullRequest& request);

// Which rows a request wants, by slice. Refers to the request.
class WantedBySlice {
 public:
  // INVALID_ARGUMENT: they are not as PullRequest.rows says.
  static absl::StatusOr<WantedBySlice> Create(const PullRequest& request, const ShardPlan& plan);

  // nullptr: all elements are wanted.
  const WantedRows* Of(uint32_t slice) const {
    const auto it = by_slice_.find(slice);
    return it == by_slice_.end() ? nullptr : it->second;
  }

 private:
  absl::flat_hash_map<uint32_t, const WantedRows*> by_slice_;
};

// How many elements PieceOf has at most.
size_t MostElements(const BlockLayout& layout, size_t index, const WantedRows* wanted);

// Block `index` of a state of the shard: its values where they are, or, in another encoding than
// FLOAT32, in memory of the piece's own. Slices that are moving averages are FLOAT32 in any case.
// With `wanted` these rows alone, in memory of the piece's own; nullopt: the block has none of
// them. INVALID_ARGUMENT: a value does not fit the encoding (it names the variable and the
// element). RESOURCE_EXHAUSTED: the server has no memory for copies.
absl::StatusOr<absl::optional<OutgoingPiece>> PieceOf(Shard* shard, size_t index,
                                                      const std::shared_ptr<const Block>& block,
                                                      Encoding::Kind encoding,
                                                      const WantedRows* wanted);

}  // namespace millrace::ps

#endif  // MILLRACE_PS_SERVICE_PULL_PIECES_H_
