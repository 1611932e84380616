// What the dispatcher knows of a job, to be told to people.
#ifndef MILLRACE_COORDINATOR_DISPATCH_JOB_VIEW_H_
#define MILLRACE_COORDINATOR_DISPATCH_JOB_VIEW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"

namespace millrace::coordinator {

struct LeaseView {
  uint64_t step = 0;   // The lowest one that is not done.
  absl::Duration out;  // For how long the worker has it.
  bool late = false;   // For longer than steps of the job take.
  bool expired = false;
};

// A worker in the job.
struct WorkerView {
  uint64_t worker = 0;
  std::string name;
  bool has_answered = false;  // Whether it has said that it can run the job, or cannot.
  std::string refusal;        // Why it cannot. Empty: it can.
  bool draining = false;
  int faults = 0;  // In a row, without a step done.
  std::string last_fault;
  absl::optional<absl::Duration> evaluates;  // For how long.
  uint32_t other_leases = 0;                 // Of other jobs.
  std::vector<LeaseView> leases;

  uint64_t steps_done = 0;
  double share = 0;          // Of the steps of late.
  absl::Duration step_time;  // Of late; 0: not known.
  double slowness = 0;       // As a multiple of the median worker's; 0: not known.
};

struct JobView {
  bool started = false;  // Otherwise the rest says nothing.
  bool paused = false;
  bool at_barrier = false;
  bool can_take = false;  // Steps may be handed out that nobody has.
  uint64_t watermark = 0;
  std::vector<WorkerView> workers;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_DISPATCH_JOB_VIEW_H_
