// What a shard is made of, besides its plan: what is kept of it, and what it starts from.
#ifndef MILLRACE_PS_DENSE_SHARD_CONTENTS_H_
#define MILLRACE_PS_DENSE_SHARD_CONTENTS_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "protos/parameter_server.pb.h"
#include "ps/dense/push_assembly.h"
#include "ps/dense/shard_state.h"

namespace millrace::ps {

struct ShardContents {
  StatePtr state;
  StatePtr previous;  // Synchronous: the version before, where it is known. Or nullptr.
  // Synchronous: complete contributions to the current version, as Shard::Contents() gives them.
  std::vector<PushPtr> held;
  bool is_computing = false;  // Contents(): at that moment, and `held` is not told.
  uint64_t epoch = 0;         // How often the shard has stepped back.
  // Where this comes from; and whether the shard may have acknowledged more than this has: it is
  // closed then, until somebody who knows that sets a greater generation.
  ShardStatus::Origin origin = ShardStatus::CREATED;
  bool more_acknowledged = false;
  absl::Duration load = absl::ZeroDuration();  // CHECKPOINT, COPY: how long reading it took.
  CutName stepped_back_to = {};                // The cut that it went to last.
  // The job has ended; `state` may then be without blocks, which are in the database.
  bool retired = false;
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_DENSE_SHARD_CONTENTS_H_
