// Which directories of checkpoints are held by this process.
#ifndef MILLRACE_COORDINATOR_JOBS_HELD_DIRECTORIES_H_
#define MILLRACE_COORDINATOR_JOBS_HELD_DIRECTORIES_H_

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "common/storage/durable_file.h"
#include "coordinator/checkpoint/checkpoint_hold.h"

namespace millrace::coordinator {

// Makes the holds, of jobs and of submissions, and knows each of them until it is released, which a
// disk that does not answer may keep waiting. Thread-safe; does not block.
class HeldDirectories {
 public:
  explicit HeldDirectories(FileSystemPtr file_system) : file_system_(std::move(file_system)) {}

  // A hold on the directory, yet to be taken.
  std::shared_ptr<CheckpointHold> MakeHold(const std::string& directory)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether there is a hold on it that is not released. `directory`: as NormalDirectory writes it.
  bool HasHold(const std::string& directory) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // A hold that was made here, by a job or for a submission that is under way or was left behind.
  struct Holding {
    std::string directory;  // As NormalDirectory writes it.
    std::shared_ptr<const std::atomic<bool>> released;
  };

  const FileSystemPtr file_system_;

  mutable Mutex mutex_;
  std::vector<Holding> holdings_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_JOBS_HELD_DIRECTORIES_H_
