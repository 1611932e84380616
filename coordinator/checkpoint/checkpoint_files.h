// What the coordinator does in a job's directory of checkpoints. All of it blocks on the disk.
#ifndef MILLRACE_COORDINATOR_CHECKPOINT_CHECKPOINT_FILES_H_
#define MILLRACE_COORDINATOR_CHECKPOINT_CHECKPOINT_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "common/storage/durable_file.h"
#include "protos/checkpoint.pb.h"
#include "protos/job.pb.h"

namespace millrace::coordinator {

// Whose checkpoints a job's directory may have: one training run's.
struct CheckpointOwner {
  std::string job_id;
  // The jobs that this one goes on from, in this directory.
  std::vector<std::string> earlier_job_ids;
};

// What `status` of a job shows of it.
CheckpointInfo InfoOf(const std::string& directory, const CheckpointManifest& manifest);

// Whether a job that begins may have its checkpoints in `directory`: there are none, or it goes on
// from one of them. FAILED_PRECONDITION: others; the message says what to do. UNAVAILABLE: the
// directory cannot be read.
absl::Status CheckNewOwner(const FileSystemPtr& file_system, const JobSpec& spec);

class CheckpointFiles {
 public:
  CheckpointFiles(FileSystemPtr file_system, CheckpointSpec spec, CheckpointOwner owner);

  struct Found {
    absl::optional<CheckpointManifest> newest;  // Of the job itself.
    std::string trouble;                        // For people. Empty: none.
  };
  // What an earlier life of the coordinator has left; removes its garbage.
  absl::StatusOr<Found> LookAround() const;

  struct Begun {
    uint64_t number = 0;
    uint64_t base = 0;  // See WriteCheckpointRequest.
  };
  // Makes the folder of a new checkpoint, with a number of at least `at_least`.
  // FAILED_PRECONDITION: the newest one is another run's.
  absl::StatusOr<Begun> Begin(uint64_t at_least, int shards) const;

  // Makes it a checkpoint. Then those go that are not kept any longer; what goes wrong with that is
  // returned, for people.
  absl::StatusOr<std::string> Commit(CheckpointManifest* manifest) const;

  // Removes what there is of it. What is left goes with the next Begin.
  absl::Status GiveUp(uint64_t number) const;

 private:
  absl::Status CheckOwner(const CheckpointManifest& manifest) const;
  absl::Status RemoveOld() const;

  const FileSystemPtr file_system_;
  const CheckpointSpec spec_;
  const CheckpointOwner owner_;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_CHECKPOINT_CHECKPOINT_FILES_H_
