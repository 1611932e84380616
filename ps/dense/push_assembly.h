// One attempt to push one step to one shard, while its pieces arrive.
#ifndef MILLRACE_PS_DENSE_PUSH_ASSEMBLY_H_
#define MILLRACE_PS_DENSE_PUSH_ASSEMBLY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/wire/tensor_codec.h"
#include "protos/parameter_server.pb.h"
#include "ps/dense/block_layout.h"
#include "ps/dense/interval_set.h"

namespace millrace::ps {

// Takes the answer to a push. Called once, from any thread, without locks; does not block.
using PushAnswer = std::function<void(const PushResponse&)>;

// The pieces of one message; immutable.
using PushPieces = std::shared_ptr<const std::vector<WirePiece>>;

// The pieces of one message, and where they belong.
struct PlacedPieces {
  PushPieces pieces;
  // Elements, as BlockLayout::Locate counts them: ranges in order, joined where they touch.
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  // What keeping them takes, as FLOAT32.
  uint64_t memory_bytes = 0;
  // Whether each has all its elements, as FLOAT32: then there is nothing to widen.
  bool plain = true;
  // Whether each piece is one or more whole blocks.
  bool whole_blocks = true;
};

// Returns the same pieces, which count as `bytes` of memory for as long as anybody has them.
using CountPieces = std::function<PushPieces(PushPieces pieces, uint64_t bytes)>;

// Ranges of a message at most. Senders bring a few: neighbours in a slice, and neighbouring slices,
// are one range. It bounds what a message costs under the shard's lock.
inline constexpr size_t kMaxRanges = 4096;

// What keeping a piece takes besides its numbers (itself, its list of slices, what counts
// references to them), and what one of the runs of elements takes in which a push has arrived so
// far.
inline constexpr uint64_t kPieceOverhead = 128;
inline constexpr uint64_t kIntervalBytes = 64;

// Checks a message's pieces, all that can be checked of them without what came before: needs no
// lock. INVALID_ARGUMENT: pieces that the shard has no place for, or of a frozen slice, without
// data, that overlap, in more than kMaxRanges ranges, in another encoding than the spec asks for
// (it names the variable), with a number that is infinite or NaN (it names the variable and the
// element), or with rows that are not as PieceRows and PushRequest.pieces say.
absl::StatusOr<PlacedPieces> PlacePieces(const ShardSpec& spec, const BlockLayout& layout,
                                         std::vector<WirePiece> pieces);

// Makes FLOAT32 of those that are kept as they are: all, or where they are `gathered` those that
// are whole blocks, since Gather copies the others, in whatever encoding. Where they are gathered,
// those with rows become pieces with all elements, too. Needs no lock.
void WidenKept(const BlockLayout& layout, bool gathered, PlacedPieces* message);
// The memory that this takes.
uint64_t BytesToWiden(const BlockLayout& layout, bool gathered, const PlacedPieces& message);

// Not thread-safe; the pieces are.
class PushAssembly {
 public:
  PushAssembly(uint64_t push_id, uint64_t step, uint32_t examples)
      : push_id_(push_id), step_(step), examples_(examples) {}

  // Adds a message's pieces, carried by `stream`; those that are kept are FLOAT32. With `keep`
  // false only their places count, since nobody will ask for the data. INVALID_ARGUMENT: they
  // overlap what arrived before; the push is then of no more use.
  absl::Status Add(uint64_t stream, PlacedPieces message, bool keep);
  // The same for pieces that did not come from a client: statuses of PlacePieces too, but numbers
  // are not looked at.
  absl::Status Add(const BlockLayout& layout, uint64_t stream, PushPieces pieces, bool keep);

  // As Add, keeping the pieces; but those that are not whole blocks are copied into blocks. So the
  // push takes no more than a gradient does, however small its pieces are, and its pieces() are
  // right only when it is complete.
  absl::Status Gather(const BlockLayout& layout, uint64_t stream, PlacedPieces message,
                      const CountPieces& count);
  // The memory that Gather would count; of a new push, where `push` is nullptr.
  static uint64_t BytesToGather(const PushAssembly* push, const BlockLayout& layout,
                                const PlacedPieces& message);

  // Has all that it keeps counted.
  void Count(const CountPieces& count);

  // Whether each element has arrived that is pushed.
  bool complete(const BlockLayout& layout) const {
    return arrived_.size() == layout.pushed_elements();
  }

  // Elements.
  uint64_t arrived() const { return arrived_.size(); }

  uint64_t push_id() const { return push_id_; }
  uint64_t step() const { return step_; }
  uint32_t examples() const { return examples_; }

  // In the order in which they came. A message without pieces, which is all of a push to a shard
  // that is frozen altogether, is one of them.
  const std::vector<PushPieces>& pieces() const { return pieces_; }
  // From now on it has none.
  std::vector<PushPieces> TakePieces() { return std::exchange(pieces_, {}); }

  bool carried_by(uint64_t stream) const;

  // What it takes to know which elements have arrived.
  uint64_t bookkeeping_bytes() const { return arrived_.intervals() * kIntervalBytes; }

  // Who is told when a complete push has taken effect: the stream that completed it.
  void set_answer(PushAnswer answer) { answer_ = std::move(answer); }
  const PushAnswer& answer() const { return answer_; }

 private:
  // Returns whether the message brings something new. Statuses as for Add.
  absl::StatusOr<bool> Arrive(uint64_t stream, const PlacedPieces& message);
  // Copies a piece into blocks. Those that are new are appended to `pieces`.
  void CopyToBlocks(const BlockLayout& layout, const WirePiece& piece,
                    std::vector<WirePiece>* pieces);

  const uint64_t push_id_;
  const uint64_t step_;
  const uint32_t examples_;
  IntervalSet arrived_;  // Elements, as BlockLayout::Locate counts them.
  std::vector<PushPieces> pieces_;
  absl::flat_hash_map<size_t, float*> gathered_;  // By block; `pieces_` own them.
  absl::InlinedVector<uint64_t, 4> streams_;
  PushAnswer answer_;
};

using PushPtr = std::shared_ptr<PushAssembly>;

// Elements in `pieces`.
uint64_t ElementCount(const PushPieces& pieces);

}  // namespace millrace::ps

#endif  // MILLRACE_PS_DENSE_PUSH_ASSEMBLY_H_
