// The ps servers that are to hold no shards of jobs that run.
#ifndef MILLRACE_COORDINATOR_PLACEMENT_EVACUATED_SERVERS_H_
#define MILLRACE_COORDINATOR_PLACEMENT_EVACUATED_SERVERS_H_

#include <set>
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

  // Returns when the journal has it; on an error nothing is changed. Blocks on the disk.
  absl::Status Set(const std::string& directory_id, bool is_evacuated) ABSL_LOCKS_EXCLUDED(mutex_);

  bool Contains(const std::string& directory_id) const ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return directories_.contains(directory_id);
  }
  bool empty() const ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return directories_.empty();
  }

 private:
  Journal* const journal_;
  Mutex changing_;  // Held while the journal is written. Before mutex_.
  mutable Mutex mutex_;
  std::set<std::string> directories_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_PLACEMENT_EVACUATED_SERVERS_H_
