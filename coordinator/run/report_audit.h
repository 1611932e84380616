// Whether shards have the steps that workers reported: what a worker says is news, what the shards
// have is the truth. And who has said often enough what is not so.
#ifndef MILLRACE_COORDINATOR_RUN_REPORT_AUDIT_H_
#define MILLRACE_COORDINATOR_RUN_REPORT_AUDIT_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/applied_set.h"
#include "common/mutex.h"

namespace millrace::coordinator {

// Thread-safe.
class ReportAudit {
 public:
  // After so many offences a worker gets no more steps of the job.
  static constexpr int kForgiven = 3;

  // A generation begins: what was reported in others says nothing about the worker any more, since
  // a shard may have been lost.
  void Begin(uint64_t generation) ABSL_LOCKS_EXCLUDED(mutex_);

  // `worker`, by name, has reported that every shard has `step`. Ignored in other generations.
  void Add(uint64_t generation, uint64_t step, const std::string& worker)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Reports that came before this call can be checked against what shards are asked for after it.
  void BeginCheck() ABSL_LOCKS_EXCLUDED(mutex_);

  struct Offence {
    std::string worker;
    uint64_t step = 0;   // The lowest one that is missing.
    uint64_t steps = 0;  // How many are.
    bool excluded = false;
  };
  // `truth`: steps that every shard has. REQUIRES: no shard has lost anything in this generation.
  // Reports before BeginCheck are done with; returns the workers that reported what is not so.
  std::vector<Offence> Check(const AppliedSet& truth) ABSL_LOCKS_EXCLUDED(mutex_);

  // `worker` has reported `what`, which cannot be so, whatever shards have: an offence as well.
  // Returns whether it is excluded now.
  bool AddOffence(const std::string& worker, const std::string& what) ABSL_LOCKS_EXCLUDED(mutex_);

  bool IsExcluded(absl::string_view worker) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Its last offence, as "it reported ...". Empty: there was none.
  std::string WhyExcluded(absl::string_view worker) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Report {
    uint64_t step = 0;
    std::string worker;
  };
  struct Standing {
    int offences = 0;
    std::string last;  // What it reported.
  };

  bool Count(const std::string& worker, const std::string& what)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  uint64_t generation_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<Report> reports_ ABSL_GUARDED_BY(mutex_);
  size_t checkable_ ABSL_GUARDED_BY(mutex_) = 0;  // Of the first in reports_.
  std::map<std::string, Standing, std::less<>> standings_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_RUN_REPORT_AUDIT_H_
