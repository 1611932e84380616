// What the coordinator knows of a job at one moment, for Explain.
#ifndef MILLRACE_COORDINATOR_EXPLAIN_EXPLAIN_FACTS_H_
#define MILLRACE_COORDINATOR_EXPLAIN_EXPLAIN_FACTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "coordinator/dispatch/job_view.h"
#include "protos/cluster.pb.h"
#include "protos/events.pb.h"
#include "protos/job.pb.h"

namespace millrace::coordinator {

// What the job's runner itself waits for.
struct RunnerWait {
  std::string whom;
  absl::Duration since;
  bool is_turn = false;  // Its turn among the jobs; then `whom` is the whole message.
  // Somebody is at work, as far as the runner can see; the dispatch may know it better.
  bool stalled = false;
};

// A member that is there.
struct MemberFacts {
  std::string name;
  bool is_worker = false;
  // Nothing was heard of it for this long; 0: no longer than usual.
  absl::Duration silent;
  std::vector<Activity> activities;  // In this job; `since` is up to now.
  std::string device;                // Of a worker, as it registered.
  absl::optional<DeviceUse> device_use;
};

// One that is not there any more.
struct DepartureFacts {
  std::string name;
  bool is_worker = false;
  absl::Duration since;
  std::string reason;
  bool in_good_order = false;  // It said that it leaves.
};

struct ShardFacts {
  uint32_t shard = 0;
  std::string server;
  bool is_known = false;  // Whether the next four are: it has answered in this generation.
  uint64_t version = 0;
  uint64_t steps = 0;             // That it has applied.
  std::vector<uint64_t> missing;  // Synchronous: contributions that the next version lacks.
  std::string trouble;
  std::string error;      // What its server answered last, where that was an error.
  absl::Duration silent;  // It was asked for so long, without an answer; 0: it answers.
};

struct ExplainFacts {
  JobStatus status;
  absl::optional<RunnerWait> wait;
  // Set: shards are being reached. Why, and since when.
  std::string recovers_from;
  absl::Duration recovers_since;

  JobView dispatch;
  std::map<uint64_t, MemberFacts> members;  // By number.
  std::vector<DepartureFacts> departures;   // The newest first.
  std::vector<ShardFacts> shards;           // In their order.
  std::vector<JobEvent> recent;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_EXPLAIN_EXPLAIN_FACTS_H_
