// What the coordinator does in a job's directory of checkpoints. All of it blocks on the disk.
#ifndef MILLRACE_COORDINATOR_CHECKPOINT_CHECKPOINT_FILES_H_
#define MILLRACE_COORDINATOR_CHECKPOINT_CHECKPOINT_FILES_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/checkpoint_records.h"
#include "common/storage/durable_file.h"
#include "coordinator/checkpoint/checkpoint_hold.h"
#include "protos/checkpoint.pb.h"
#include "protos/job.pb.h"

namespace millrace::coordinator {

// Whose checkpoints a job's directory may have: one training run's.
struct CheckpointOwner {
  std::string job_id;
  // The jobs that this one goes on from, in this directory, and those that it leaves behind there.
  std::vector<std::string> earlier_job_ids;
  uint64_t restored = 0;  // The checkpoint of this directory that it goes on from; 0: none.
};

// What `status` of a job shows of it.
CheckpointInfo InfoOf(const std::string& directory, const CheckpointManifest& manifest);

// Whether a job that is submitted may have its checkpoints in its directory: nobody else holds it,
// and there are none, or it goes on from one of them. Takes `hold`, of the directory, before it
// looks; nullptr: nobody is held off. FAILED_PRECONDITION: others have it; the message says what to
// do. INVALID_ARGUMENT: it is one checkpoint's folder. UNAVAILABLE: the directory cannot be read.
// Statuses of CheckpointDirectory::CheckPlace too.
absl::Status CheckNewOwner(const FileSystemPtr& file_system, const JobSpec& spec,
                           CheckpointHold* hold);

// Whether `status`, of one of the calls below, says that the directory is another run's: then it is
// in vain to try again, until somebody does what its message says.
bool IsAnotherRuns(const absl::Status& status);
// Of such a status: "'/ckpt' was taken by job 'mnist-2-k3f9' (/ckpt/owner says so)"; or where
// another job holds it for now, which may pass: see WhoHolds. "": any other status, that of a
// command's hold too, which passes.
std::string WhoseItIs(const absl::Status& status);

// Whether a checkpoint counts whose commit takes long: who says so first decides. Thread-safe.
class CommitDecision {
 public:
  // Both return whether it is so.
  bool Count() { return Decide(State::kCounts); }
  bool GiveUp() { return Decide(State::kGivenUp); }

  bool is_given_up() const { return state_ == State::kGivenUp; }

 private:
  enum class State { kOpen, kCounts, kGivenUp };
  bool Decide(State wanted) {
    State before = State::kOpen;
    return state_.compare_exchange_strong(before, wanted) || before == wanted;
  }

  std::atomic<State> state_{State::kOpen};
};

// The directory is the job's from its first Begin on, until another job's, which goes on from one
// of its checkpoints, or finds none: its file `owner` says whose. The one that has lost it writes
// and removes nothing there any more. `damaged`: checkpoints of the job that it went back behind,
// since they are (JobRecord.damaged_checkpoints); only they are passed over.
class CheckpointFiles {
 public:
  // `hold`, of the directory, is taken, where it is not yet, before anything is written there;
  // FAILED_PRECONDITION of LookAround and Begin: another job holds it. nullptr: nobody is held off.
  CheckpointFiles(FileSystemPtr file_system, CheckpointSpec spec, CheckpointOwner owner,
                  std::shared_ptr<CheckpointHold> hold = nullptr);

  struct Found {
    // Of the job itself the one with the most steps, of several the newest.
    absl::optional<CheckpointManifest> furthest;
    std::string trouble;  // For people. Empty: none.
  };
  // What an earlier life of the coordinator has left; removes its garbage. FAILED_PRECONDITION: the
  // directory is another run's.
  absl::StatusOr<Found> LookAround(const std::set<uint64_t>& damaged) const;

  struct Begun {
    uint64_t number = 0;
    uint64_t base = 0;  // See WriteCheckpointRequest.
  };
  // Makes the folder of a new checkpoint, with a number of at least `at_least`. `is_first`: none
  // was begun before, and the directory becomes the job's. FAILED_PRECONDITION: it is another
  // run's.
  absl::StatusOr<Begun> Begin(uint64_t at_least, int shards, bool is_first,
                              const std::set<uint64_t>& damaged) const;

  struct CommitOptions {
    std::set<uint64_t> damaged = {};
    std::set<uint64_t> kept = {};  // Do not go.
    uint64_t before = 0;           // The newest one so far, which is in the directory. 0: none.
    CommitDecision* decision = nullptr;  // Not owned. nullptr: nobody gives it up.
  };
  // Makes it a checkpoint. Then those go that are not kept any longer, and where it is that of the
  // job's end, those of the same step; and the damaged ones. What goes wrong with that is returned,
  // for people, and so is that the one before, or that of the best evaluation that the manifest
  // names, is not there any more. It counts before any of them goes, unless it was given up by
  // then. FAILED_PRECONDITION: the directory is another run's by now. CANCELLED: it was given up,
  // and is none.
  absl::StatusOr<std::string> Commit(CheckpointManifest* manifest,
                                     const CommitOptions& options) const;

  // Removes what there is of it, and nothing of any other. What is left goes with the next Begin.
  // FAILED_PRECONDITION: there is a checkpoint of another job with this number.
  absl::Status GiveUp(uint64_t number) const;

 private:
  // The newest one is of the job, or of one that it goes on from.
  absl::Status CheckLineage(const CheckpointManifest& newest) const;
  // `owner` says so; or says nothing.
  absl::Status CheckOwner() const;
  absl::Status Hold(bool makes_directory) const;
  absl::StatusOr<uint64_t> MakeFolder(uint64_t at_least) const;
  // Of one that is committed, and counts for nothing.
  void TakeBack(uint64_t number) const;
  // What the next one may refer to; 0: nothing.
  uint64_t FindBase(const std::vector<CheckpointDirectory::Listed>& listing, int shards,
                    const std::set<uint64_t>& damaged) const;
  // Returns what had to stay and why, for people.
  absl::StatusOr<std::string> RemoveOld(const CheckpointManifest& newest,
                                        const std::set<uint64_t>& damaged,
                                        const std::set<uint64_t>& kept) const;
  // For people; empty: it is there, or in another directory, or there is none.
  std::string WhyNoBest(const BestEvaluation& best) const;
  std::string WhyNotBefore(uint64_t before) const;
  bool IsGone(uint64_t number) const;

  const FileSystemPtr file_system_;
  const CheckpointSpec spec_;
  const CheckpointOwner owner_;
  const std::shared_ptr<CheckpointHold> hold_;
  mutable ManifestCache manifests_;  // Of the directory.
  mutable CheckpointDirectory directory_{file_system_, spec_.directory(), &manifests_};
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_CHECKPOINT_CHECKPOINT_FILES_H_
