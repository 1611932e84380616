// What is kept of jobs that have ended, and for how long.
#ifndef MILLRACE_COORDINATOR_JOBS_RETENTION_H_
#define MILLRACE_COORDINATOR_JOBS_RETENTION_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "coordinator/job/job.h"
#include "coordinator/jobs/shared_thread.h"
#include "coordinator/membership/member_registry.h"
#include "coordinator/run/runner_environment.h"
#include "coordinator/shards/shard_group.h"

namespace millrace::coordinator {

// How many of the jobs that ended last keep what.
struct RetentionLimits {
  size_t shards = 16;  // Their variables, on the ps servers.
  size_t events = 16;  // All events that were kept; those before keep the last hundred.
  // Anything at all, and how many bytes all records may have together, which take some ten times as
  // much memory. A job that still has shards is kept for longer.
  size_t records = 1000;
  uint64_t record_bytes = uint64_t{64} << 20;
};

// Retires shards of jobs that have ended, so that their servers can use the memory, then drops,
// trims and forgets, on a thread of its own. Shards of a job that never started are dropped at
// once: nobody reads them. Shards whose server is away, and what did not work, are tried again at
// the next Wake; what is not found is asked for again for some minutes, since it may be under way.
// Drops stray shards, of all jobs; a few at a time, with everything else between, since a server
// may have tens of thousands.
// Thread-safe.
class Retention {
 public:
  struct Options {
    RetentionLimits limits;
    // Not owned.
    const MemberRegistry* registry = nullptr;
    // Returns the jobs that have ended, and that nobody else changes any more.
    std::function<std::vector<std::shared_ptr<Job>>()> ended_jobs;
    std::function<absl::Status(const Job&)> forget;
    // Null: there is no such job.
    std::function<std::shared_ptr<Job>(const std::string& job_id)> find_job = nullptr;
    // Servers may have memory that they had not. Called by the thread; must not block.
    std::function<void()> on_freed = nullptr;
    Clock* clock = Clock::Real();
  };

  explicit Retention(Options options);
  // Stops.
  ~Retention();

  // A job has ended, or a server came: look again, soon. Does not block.
  void Wake() ABSL_LOCKS_EXCLUDED(mutex_);

  // Drops what is stray on a server that is there, soon. Does not block.
  void DropStrays(const std::vector<StrayShard>& strays) ABSL_LOCKS_EXCLUDED(mutex_);

  // Ends the thread; calls to servers that are under way are cancelled. Blocks until it has ended.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void SweepInLoop() ABSL_LOCKS_EXCLUDED(mutex_);
  void Sweep() ABSL_LOCKS_EXCLUDED(mutex_);
  // How many of these, the newest first, keep their records.
  size_t KeptRecords(const std::vector<std::shared_ptr<Job>>& jobs);
  // A job, and the directory of a ps server that has strays of it.
  using StrayHome = std::pair<std::string, std::string>;
  using Strays = std::map<StrayHome, std::set<uint32_t>>;

  void SweepStrays() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status DropSome(const StrayHome& home, std::set<uint32_t>& strays)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status DropPlacements(const JobRecord& record) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status FreeMemory(Job& job) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status RetireShards(const JobRecord& record) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status DropShards(Job& job) ABSL_LOCKS_EXCLUDED(mutex_);
  bool HasSettled(uint64_t job);
  // The group whose calls a Stop cancels, or null. Returns false when it was stopped before.
  bool SetUnderWay(ShardGroup* shards) ABSL_LOCKS_EXCLUDED(mutex_);
  bool stopping() const ABSL_LOCKS_EXCLUDED(mutex_);

  const Options options_;
  // Jobs, by number. Only used by the thread.
  std::set<uint64_t> retired_;
  std::map<uint64_t, absl::Time> unsettled_since_;
  absl::Time look_again_ = absl::InfiniteFuture();

  mutable Mutex mutex_;  // Before the group's lock.
  CondVar changed_;
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Strays strays_ ABSL_GUARDED_BY(mutex_);
  ShardGroup* under_way_ ABSL_GUARDED_BY(mutex_) = nullptr;

  SharedThread thread_;  // Last: it uses the others.
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_JOBS_RETENTION_H_
