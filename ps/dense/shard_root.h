// The hook by which a shard's newest state outlives its process.
#ifndef MILLRACE_PS_DENSE_SHARD_ROOT_H_
#define MILLRACE_PS_DENSE_SHARD_ROOT_H_

#include <cstdint>

#include "ps/dense/shard_state.h"

namespace millrace::ps {

// What a successor of a killed process is to find of a shard.
struct RootContents {
  StatePtr state;
  StatePtr previous;  // Synchronous: the version before. Or nullptr.
  uint64_t epoch = 0;
  uint64_t generation = 0;
  // Something was acknowledged that is not in `state`: contributions that are held.
  bool more_acknowledged = false;
};

// Called under its shard's lock, so that calls do not overlap, and none may block. Nothing is
// acknowledged, and no block of the state before is used again, until Write has returned.
//
// Destroying it forgets the shard: no successor finds it.
class ShardRoot {
 public:
  virtual ~ShardRoot() = default;

  virtual void Write(const RootContents& contents) = 0;

  // Sets `more_acknowledged` of what was written last.
  virtual void NoteMoreAcknowledged() = 0;
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_DENSE_SHARD_ROOT_H_
