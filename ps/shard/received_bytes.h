// What the gradients take that a shard has received.
#ifndef MILLRACE_PS_SHARD_RECEIVED_BYTES_H_
#define MILLRACE_PS_SHARD_RECEIVED_BYTES_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ps/dense/push_assembly.h"

namespace millrace::ps {

// Counts pieces for as long as anybody has them: in a push that is not complete, in one that waits
// for its turn or for others of its version, and while they are applied. Thread-safe.
class ReceivedBytes {
 public:
  uint64_t bytes() const { return bytes_->load(std::memory_order_relaxed); }

  // The same pieces, which take `bytes` until the last reference to them is gone. See CountPieces.
  PushPieces Count(PushPieces pieces, uint64_t bytes) {
    bytes_->fetch_add(bytes, std::memory_order_relaxed);
    const std::vector<WirePiece>* const counted = pieces.get();
    return PushPieces(counted, [pieces = std::move(pieces), bytes,
                                total = bytes_](const std::vector<WirePiece>* /*counted*/) mutable {
      pieces.reset();
      total->fetch_sub(bytes, std::memory_order_relaxed);
    });
  }

 private:
  const std::shared_ptr<std::atomic<uint64_t>> bytes_ = std::make_shared<std::atomic<uint64_t>>(0);
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_SHARD_RECEIVED_BYTES_H_
