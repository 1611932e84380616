// The ps servers that are to hold no shards of jobs that run.
#ifndef MILLRACE_COORDINATOR_PLACEMENT_EVACUATED_SERVERS_H_
#define MILLRACE_COORDINATOR_PLACEMENT_EVACUATED_SERVERS_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "common/mutex.h"
#include "coordinator/journal/journal.h"

namespace millrace::coordinator {

// By their directories, whoever serves these; in the journal. Thread-safe.
class EvacuatedServers {
 public:
  // `journal` is not owned.
  explicit EvacuatedServers(Journal* journal) : journal_(journal) {}

  // Reads the journal. Once, before anything else.
  absl::Status Load() ABSL_LOCKS_EXCLUDED(mutex_);

  // `name`: of the server that has the directory, or had it last. Returns when the journal has it;
  // on an error nothing is changed. Blocks on the disk.
  absl::Status Add(const std::string& directory_id, const std::string& name)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Remove(const std::string& directory_id) ABSL_LOCKS_EXCLUDED(mutex_);

  bool Contains(const std::string& directory_id) const ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return names_.contains(directory_id);
  }
  bool empty() const ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return names_.empty();
  }
  // The names that they were added with, by their directories.
  std::map<std::string, std::string> names() const ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return names_;
  }

 private:
  absl::Status Write(std::map<std::string, std::string> names)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(changing_) ABSL_LOCKS_EXCLUDED(mutex_);

  Journal* const journal_;
  Mutex changing_;  // Held while the journal is written. Before mutex_.
  mutable Mutex mutex_;
  std::map<std::string, std::string> names_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_PLACEMENT_EVACUATED_SERVERS_H_
