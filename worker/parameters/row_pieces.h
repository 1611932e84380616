// Gradients of some rows of a variable, as pieces of a push: with rows, and without.
#ifndef MILLRACE_WORKER_PARAMETERS_ROW_PIECES_H_
#define MILLRACE_WORKER_PARAMETERS_ROW_PIECES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "common/wire/encoding.h"
#include "common/wire/tensor_codec.h"
#include "protos/job.pb.h"
#include "protos/parameter_server.pb.h"
#include "worker/parameters/parameter_client.h"

namespace millrace::worker {

// How many blocks a piece without a given row, or a message of several pieces, stands for at most:
// few enough for a server to share the work of a large variable among its threads.
inline constexpr size_t kMaxBlocksTogether = 16;

// How many elements a piece stands for.
inline uint64_t ElementsOfPiece(const OutgoingPiece& piece) {
  return piece.rows == nullptr ? piece.values.size() : piece.rows->count();
}

// The pieces of slice `index` of a shard, in order: one for each block with a given row, and others
// for the blocks between. `gradient`: as for Push::AddRows.
std::vector<OutgoingPiece> MakeRowPieces(const Slice& slice, uint32_t index,
                                         const VariableRows& rows, EncodedNumbers gradient,
                                         const std::shared_ptr<const void>& owner);

// The same gradient for a server that does not know rows: pieces with rows become pieces with all
// elements, one for each block. `slices`: of the shard.
std::vector<OutgoingPiece> WithoutRows(absl::Span<const OutgoingPiece> pieces,
                                       const std::vector<Slice>& slices);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_PARAMETERS_ROW_PIECES_H_
