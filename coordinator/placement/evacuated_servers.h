// The ps servers that are to hold no shards of jobs that run, and what is on its way to any server.
#ifndef MILLRACE_COORDINATOR_PLACEMENT_EVACUATED_SERVERS_H_
#define MILLRACE_COORDINATOR_PLACEMENT_EVACUATED_SERVERS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/mutex.h"
#include "coordinator/journal/journal.h"

namespace millrace::coordinator {

class EvacuatedServers;

// Shards of a job that are about to be placed, while this lives. See EvacuatedServers::Announce.
class ArrivingShards {
 public:
  // `servers`, which is not owned, is told when this goes; null: nobody.
  ArrivingShards(EvacuatedServers* servers, std::string job_id,
                 std::vector<std::string> directory_ids)
      : servers_(servers), job_id_(std::move(job_id)), directory_ids_(std::move(directory_ids)) {}
  ~ArrivingShards();
  ArrivingShards(const ArrivingShards&) = delete;
  ArrivingShards& operator=(const ArrivingShards&) = delete;

  const std::string& job_id() const { return job_id_; }
  const std::vector<std::string>& directory_ids() const { return directory_ids_; }

 private:
  EvacuatedServers* const servers_;
  const std::string job_id_;
  const std::vector<std::string> directory_ids_;
};

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

  // Shards of the job are to be placed in these directories, one for each. Null: one of these is
  // evacuated; choose others. What is returned lives until the job's record says where they are. So
  // whoever looks what is on its way to a server that is evacuated, and then what is placed there,
  // misses nothing that has chosen it before.
  std::unique_ptr<ArrivingShards> Announce(const std::string& job_id,
                                           std::vector<std::string> directory_ids)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // How many are on their way there, by job.
  std::map<std::string, uint64_t> ArrivingAt(const std::string& directory_id) const
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  friend class ArrivingShards;

  void Forget(const ArrivingShards* shards) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    arriving_.erase(shards);
  }
  absl::Status Write(std::map<std::string, std::string> names)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(changing_) ABSL_LOCKS_EXCLUDED(mutex_);

  Journal* const journal_;
  Mutex changing_;  // Held while the journal is written. Before mutex_.
  mutable Mutex mutex_;
  std::map<std::string, std::string> names_ ABSL_GUARDED_BY(mutex_);
  std::set<const ArrivingShards*> arriving_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_PLACEMENT_EVACUATED_SERVERS_H_
