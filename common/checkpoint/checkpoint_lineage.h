// Which checkpoints of a directory led up to one of them.
#ifndef MILLRACE_COMMON_CHECKPOINT_CHECKPOINT_LINEAGE_H_
#define MILLRACE_COMMON_CHECKPOINT_CHECKPOINT_LINEAGE_H_

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "protos/checkpoint.pb.h"

namespace millrace {

// A job that goes back to an older checkpoint leaves newer ones behind in its directory, of a run
// that has become another one since. Whoever takes an older one instead of the job's newest must
// not take those.
class CheckpointLineage {
 public:
  // To be asked about one checkpoint after the other, the highest number first. Whether this one
  // led up to the first: it is of the same job, or of one that it was restored from, and not newer
  // than what was restored. The first one did.
  bool Has(const CheckpointManifest& manifest);

 private:
  bool has_begun_ = false;
  // Of the newest job that was met.
  std::string job_id_;
  absl::flat_hash_set<std::string> earlier_job_ids_;
  uint64_t restored_ = 0;  // The checkpoint that it goes on from; 0: of another directory, or none.
};

}  // namespace millrace

#endif  // MILLRACE_COMMON_CHECKPOINT_CHECKPOINT_LINEAGE_H_
