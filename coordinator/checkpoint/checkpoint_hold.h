// Who has a directory of checkpoints while a job runs: nobody else may take it meanwhile.
#ifndef MILLRACE_COORDINATOR_CHECKPOINT_CHECKPOINT_HOLD_H_
#define MILLRACE_COORDINATOR_CHECKPOINT_CHECKPOINT_HOLD_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/mutex.h"
#include "common/storage/durable_file.h"
#include "coordinator/checkpoint/background_call.h"

namespace millrace::coordinator {

// What a job says of itself when it takes its directory: "job 'mnist-1-k3f9', which goes on from
// 000003,". `restored`: the checkpoint there that it goes on from; 0: none.
std::string NameOfJob(const std::string& job_id, uint64_t restored);

// What `millrace checkpoints rm` does, which has a directory only while it removes something.
inline constexpr char kRemovingCommand[] = "`millrace checkpoints rm`";

// A job's hold on its directory, against those of this process and of others: the system's lock on
// the file `held-by` in it, which says who has it. It ends with this object, and with the process,
// however that ends. Machines that share a directory are held off where its file system's locks
// reach from one to the other. Where locks cannot be had, all are let in: then `owner` in the
// directory tells runs apart, from their first checkpoint on. Whoever only reads needs no hold.
//
// Thread-safe. Calls block on the disk, which may be a network's that hangs, and wait for one
// another.
class CheckpointHold {
 public:
  CheckpointHold(FileSystemPtr file_system, std::string directory);
  ~CheckpointHold();  // Releases.
  CheckpointHold(const CheckpointHold&) = delete;
  CheckpointHold& operator=(const CheckpointHold&) = delete;

  // Sees to it that the directory is held, and that others are told by whom: "job 'mnist-1-k3f9'".
  // To be called again before something is done in it: somebody may have removed the file. A
  // directory that is not there is made, or nothing is held. FAILED_PRECONDITION: another one holds
  // it; the message names both (see WhoHolds). CANCELLED: it was released.
  absl::Status Take(const std::string& who, bool makes_directory) ABSL_LOCKS_EXCLUDED(mutex_);

  // For ever. Removes the file, and the directory where it was made for this hold and nothing came
  // into it.
  void Release() ABSL_LOCKS_EXCLUDED(mutex_);

  // Becomes true when that is done, which the disk may keep waiting. Outlives this object.
  std::shared_ptr<const std::atomic<bool>> released() const { return is_released_; }

 private:
  enum class Try { kHeld, kNotHere, kAgain, kAnothers };

  void MakeDirectory() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Try TryToLock() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Say(const std::string& who) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status HeldByAnother() const;

  const FileSystemPtr file_system_;
  const std::string directory_;
  const std::string path_;  // Of the file.

  // Held while the disk is waited for: who calls has a thread for that.
  Mutex mutex_;
  int fd_ ABSL_GUARDED_BY(mutex_) = -1;  // The locked file; -1: none.
  bool made_directory_ ABSL_GUARDED_BY(mutex_) = false;
  bool released_ ABSL_GUARDED_BY(mutex_) = false;
  std::string said_ ABSL_GUARDED_BY(mutex_);  // What is in the file.
  const std::shared_ptr<std::atomic<bool>> is_released_ =
      std::make_shared<std::atomic<bool>>(false);
};

// Of Take's status where another one holds the directory: "'/ckpt' is held by job 'mnist-1-k3f9' of
// process 4711 on trainer-0 (/ckpt/held-by)". "": any other status.
std::string WhoHolds(const absl::Status& status);

struct Holder {
  std::string held;       // As of WhoHolds.
  std::string job_id;     // "": it is no job, or one that has not begun, or does not say who it is.
  uint64_t restored = 0;  // As of NameOfJob.
  bool is_command = false;  // kRemovingCommand.
};
Holder HolderOf(const absl::Status& status);

// Takes it, and tries that for some seconds while another one has it: it may be about to end. Waits
// no longer than that for a directory that hangs, nor when `cancelled` returns true, which is asked
// all the time. Whoever writes there must Take it all the same. Arguments as those of Take.
// Where the system has no thread for it, it is not taken.
void TakeHold(const std::shared_ptr<CheckpointHold>& hold, const std::string& who,
              bool makes_directory, const std::function<bool()>& cancelled,
              const ThreadStarter& start_thread = StartThread);

// Releases them, and waits for that for some seconds at most: a directory that hangs is left
// behind. Where the system has no thread for it, it is waited for. REQUIRES: no lock is held.
void ReleaseHolds(std::vector<std::shared_ptr<CheckpointHold>> holds,
                  const ThreadStarter& start_thread = StartThread);

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_CHECKPOINT_CHECKPOINT_HOLD_H_
