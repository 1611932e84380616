// Which checkpoints of a directory led up to one of them.
#ifndef MILLRACE_COMMON_CHECKPOINT_CHECKPOINT_LINEAGE_H_
#define MILLRACE_COMMON_CHECKPOINT_CHECKPOINT_LINEAGE_H_

#include <cstdint>
#include <vector>

#include "common/checkpoint/checkpoint_directory.h"

namespace millrace {

// Of checkpoints in the order of their numbers, as CheckpointDirectory::List returns them, those
// that led up to `number` (0: to the newest), itself among them, the newest first: they are of the
// same job, or of one that it was restored from and neither newer nor further than what was
// restored. A job that goes back to an older checkpoint leaves newer ones behind in its directory,
// of a run that has become another one since: whoever takes an older one instead of the job's
// newest must not take those. Between them are those of which nobody knows, since their manifests
// cannot be read.
std::vector<CheckpointDirectory::Listed> LeadingUpTo(
    uint64_t number, std::vector<CheckpointDirectory::Listed> listed);

// The one with the most steps first, of several with as many the newest: the newest is not always
// the furthest, since that of the best evaluation may be written after one of a later state. What
// cannot be read stands before those with lower numbers that are as far as the furthest of these.
std::vector<CheckpointDirectory::Listed> FurthestFirst(
    std::vector<CheckpointDirectory::Listed> listed);

}  // namespace millrace

#endif  // MILLRACE_COMMON_CHECKPOINT_CHECKPOINT_LINEAGE_H_
