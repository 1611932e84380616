// What a shard holds for a while: gradients that it has received, copies that it sends.
#ifndef MILLRACE_PS_SHARD_COUNTED_BYTES_H_
#define MILLRACE_PS_SHARD_COUNTED_BYTES_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace millrace::ps {

// Counts what is held for as long as anybody has it: of gradients in a push that is not complete,
// in one that waits for its turn or for others of its version, and while they are applied; of
// copies until gRPC has no more use for them. What is counted may outlive its counter. Thread-safe.
class CountedBytes {
 public:
  // Memory that counts until the last reference is gone.
  using Room = std::shared_ptr<const void>;

  uint64_t bytes() const { return bytes_->load(std::memory_order_relaxed); }

  // For what is about to be made.
  Room Reserve(uint64_t bytes) {
    bytes_->fetch_add(bytes, std::memory_order_relaxed);
    return Room(static_cast<const void*>(nullptr), [bytes, total = bytes_](const void* /*room*/) {
      total->fetch_sub(bytes, std::memory_order_relaxed);
    });
  }

  // The same thing, which takes `bytes`.
  template <typename T>
  std::shared_ptr<T> Count(std::shared_ptr<T> thing, uint64_t bytes) {
    auto* const counted = thing.get();
    return std::shared_ptr<T>(counted, [thing = std::move(thing),
                                        room = Reserve(bytes)](const void* /*counted*/) mutable {
      thing.reset();
      room.reset();
    });
  }

 private:
  const std::shared_ptr<std::atomic<uint64_t>> bytes_ = std::make_shared<std::atomic<uint64_t>>(0);
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_SHARD_COUNTED_BYTES_H_
