// Blocks, as a pull sends them.
#ifndef MILLRACE_PS_SERVICE_PULL_PIECES_H_
#define MILLRACE_PS_SERVICE_PULL_PIECES_H_

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/wire/tensor_codec.h"
#include "protos/parameter_server.pb.h"
#include "ps/block/block.h"
#include "ps/shard/shard.h"

namespace millrace::ps {

// INVALID_ARGUMENT: the encoding that a client wants is none that there is.
absl::Status CheckEncoding(const PullRequest& request);

// Block `index` of a state of the shard: its values where they are, or, in another encoding than
// FLOAT32, in memory of the piece's own. Slices that are moving averages are FLOAT32 in any case.
// INVALID_ARGUMENT: a value does not fit the encoding (it names the variable and the element).
// RESOURCE_EXHAUSTED: the server has no memory for another encoding.
absl::StatusOr<OutgoingPiece> PieceOf(Shard* shard, size_t index,
                                      const std::shared_ptr<const Block>& block,
                                      Encoding::Kind encoding);

}  // namespace millrace::ps

#endif  // MILLRACE_PS_SERVICE_PULL_PIECES_H_
