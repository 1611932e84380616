// Finds the checkpoint or the file that a job begins with. Calls block on the disk: see
// PatientCaller.
#ifndef MILLRACE_COORDINATOR_CHECKPOINT_CHECKPOINT_FINDER_H_
#define MILLRACE_COORDINATOR_CHECKPOINT_CHECKPOINT_FINDER_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "common/storage/durable_file.h"
#include "coordinator/journal/job_record.pb.h"
#include "protos/cluster.pb.h"
#include "protos/job.pb.h"
#include "protos/parameter_server.pb.h"

namespace millrace::coordinator {

// "DIR/000017".
std::string NameOf(const ShardRestore& checkpoint);

struct FoundRestore {
  RestoredFrom from;
  // Newer ones, or of later steps, that cannot be used, for people.
  std::vector<std::string> damaged;
};
// The checkpoint that spec.restore names, opened and compared with the spec (CheckRestoredSpec).
// Where it names none: of those that led up to the newest the one with the most steps, of several
// the newest, that is not damaged, as far as that is seen without reading values. Unless `before`
// is 0: of those that led up to that one, and without it. NOT_FOUND: there is none; DATA_LOSS: it
// is damaged: which file and byte, and how to restore the one before; or all are;
// FAILED_PRECONDITION: of a newer format; INVALID_ARGUMENT: another job than the spec's;
// UNAVAILABLE. REQUIRES: spec.has_restore().
absl::StatusOr<FoundRestore> FindRestore(const FileSystemPtr& file_system, const JobSpec& spec,
                                         uint64_t before = 0);

struct FoundCheckpoint {
  absl::optional<ShardRestore> checkpoint;  // Unset: there is none.
  uint64_t step = 0;
  std::string why_none;  // For people.
  // Newer ones, or of later steps, that cannot be used, by number, and why, for people.
  std::map<uint64_t, std::string> damaged;
};
// The whole checkpoint of a job in a directory that has the most steps, of several the newest, but
// for those with the numbers `damaged`.
// `written`: one that the job has written there; 0: none. UNAVAILABLE: the directory cannot be
// read; or it has no checkpoint at all, although one was written: perhaps it is not mounted.
absl::StatusOr<FoundCheckpoint> FindCheckpoint(const FileSystemPtr& file_system,
                                               const std::string& directory,
                                               const std::string& job_id, uint64_t written,
                                               const std::set<uint64_t>& damaged);

// Whether the checkpoint was removed: it has no manifest, or another one has its number. False also
// where that cannot be told.
bool IsRemoved(const FileSystemPtr& file_system, const ShardRestore& checkpoint);

// "; --restore=DIR/000016 goes on from the one before, at step 600", or "" where there is none that
// could. `damage` is what is said of the damaged one: see FindOneBefore.
std::string OfferOneBefore(const FileSystemPtr& file_system, const std::string& directory,
                           uint64_t number, const std::string& damage);

struct FoundWarmStart {
  // By variable; those that have no name have their initial values.
  std::vector<StoredTensor> tensors;
  std::string notice;  // For people.
};
// What the variables of a plan begin as. Statuses as FindRestore's, and MatchTensors'. REQUIRES:
// spec.has_warm_start().
absl::StatusOr<FoundWarmStart> FindWarmStart(const FileSystemPtr& file_system, const JobSpec& spec,
                                             const JobPlan& plan);

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_CHECKPOINT_CHECKPOINT_FINDER_H_
