// The unfinished pushes of a shard, and those that must not come back.
#ifndef MILLRACE_PS_SHARD_PUSH_TABLE_H_
#define MILLRACE_PS_SHARD_PUSH_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "ps/dense/push_assembly.h"

namespace millrace::ps {

// A push whose pieces were in part refused or lost must not be started again by those still under
// way: their number is remembered, for as long as a few thousand later ones. Not thread-safe.
class PushTable {
 public:
  // nullptr where there is none.
  PushPtr Find(uint64_t push_id) const;

  // `stream` brought its first message. REQUIRES: no such push is there, and it is not voided.
  PushPtr Start(uint64_t push_id, uint64_t step, uint32_t examples, uint64_t stream);

  // A message of the push came, and was added to it. `now` may be the infinite past: it is not
  // known, and taken to be when VoidStalled is called next. REQUIRES: the push is there.
  void Carried(uint64_t push_id, absl::Time now);

  // What it takes to know what has arrived of the pushes; their pieces come on top.
  uint64_t memory_bytes() const { return memory_bytes_; }

  // How many of the unfinished pushes were started by `stream`.
  size_t started_by(uint64_t stream) const;

  // The push has all its pieces.
  void Finish(uint64_t push_id) { Remove(push_id); }

  // Forgets the push, if it is there, and remembers its number. Returns it or nullptr.
  PushPtr Void(uint64_t push_id);

  bool voided(uint64_t push_id) const { return voided_.contains(push_id); }

  // How many elements of a push had arrived when it was voided; 0 for one that is not known.
  uint64_t arrived_of_voided(uint64_t push_id) const;

  // Voids all that `stream` carried a part of, and returns them.
  std::vector<PushPtr> VoidCarriedBy(uint64_t stream);

  // Voids all that have got no message for longer than `silence`, and returns them.
  std::vector<PushPtr> VoidStalled(absl::Time now, absl::Duration silence);

  // Forgets all pushes, and returns them.
  std::vector<PushPtr> Clear();

  size_t size() const { return pushes_.size(); }

 private:
  struct Entry {
    PushPtr push;
    uint64_t stream = 0;  // That started it.
    uint64_t bytes = 0;
    absl::Time last_message;
  };

  // Returns it, or nullptr.
  PushPtr Remove(uint64_t push_id);

  absl::flat_hash_map<uint64_t, Entry> pushes_;
  uint64_t memory_bytes_ = 0;
  absl::flat_hash_map<uint64_t, size_t> started_;   // By stream; none is 0.
  absl::flat_hash_map<uint64_t, uint64_t> voided_;  // How many of its elements had arrived.
  std::deque<uint64_t> voided_order_;               // The oldest first.
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_SHARD_PUSH_TABLE_H_
