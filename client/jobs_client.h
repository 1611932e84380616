// The client library: submit jobs to a coordinator, follow them, cancel them.
//
//   MILLRACE_ASSIGN_OR_RETURN(auto client, JobsClient::Create({.address = "trainer-0:2220"}));
//   MILLRACE_ASSIGN_OR_RETURN(std::string job, client->Submit(spec));
//   MILLRACE_RETURN_IF_ERROR(client->Watch(job, 0, [](const JobEvent& event) { ... }));
//
// Call ConfigureGrpcEnvironment() (common/net/channel.h) first in main().
#ifndef MILLRACE_CLIENT_JOBS_CLIENT_H_
#define MILLRACE_CLIENT_JOBS_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "protos/events.pb.h"
#include "protos/job.pb.h"

namespace millrace::client {

struct JobsClientOptions {
  // The coordinator's HOST:PORT.
  std::string address;
  // How long a call may take, all its attempts together.
  absl::Duration timeout = absl::Seconds(30);
  // How long Submit goes on trying while the coordinator cannot be reached. Once it is reached, a
  // worker compiles the model and opens the data: how long that may take is up to the coordinator
  // (its --plan_timeout).
  absl::Duration submit_patience = absl::Minutes(3);
  // When `on_wait` is told that this is what Submit waits for.
  absl::Duration planning_is_long = absl::Seconds(5);
  // How long Watch goes on trying while the coordinator cannot be reached.
  absl::Duration watch_patience = absl::Minutes(10);
  // Told when a call starts to wait, once for each outage: "waits for the coordinator at HOST:PORT:
  // REASON" where it cannot be reached, "waits, as the coordinator says: REASON" where it answers;
  // and by Submit, see `planning_is_long`.
  // Called by the thread that waits. May be empty.
  std::function<void(const std::string&)> on_wait = nullptr;
  // Measures the durations above. Must outlive the client.
  Clock* clock = Clock::Real();
};

// Whether this is a job's last event: a change to a final state.
bool IsLastEvent(const JobEvent& event);

// Every call blocks until it is answered, its time is over, or Interrupt(). While the coordinator
// cannot be reached, or answers UNAVAILABLE, a call is tried again, with pauses of 0.1 s to 2 s;
// all calls are safe to repeat. Beside the statuses of the service (protos/job.proto) each may
// return UNAVAILABLE or DEADLINE_EXCEEDED, which name the coordinator's address and what to check,
// and CANCELLED after Interrupt(). Thread-safe.
class JobsClient {
 public:
  // Does not connect yet. INVALID_ARGUMENT: the address is malformed.
  static absl::StatusOr<std::unique_ptr<JobsClient>> Create(JobsClientOptions options);

  virtual ~JobsClient() = default;

  // Returns the job's id. The job is taken once, however often the request had to be repeated.
  virtual absl::StatusOr<std::string> Submit(const JobSpec& spec) = 0;

  virtual absl::StatusOr<JobStatus> Get(const std::string& job_id) = 0;

  // For whom a job waits, what its members do, what has gone wrong of late.
  virtual absl::StatusOr<JobExplanation> Explain(const std::string& job_id) = 0;

  // All jobs, the newest first; of their specs the names alone.
  virtual absl::StatusOr<std::vector<JobStatus>> List() = 0;

  // The cluster's ps servers and workers, and those that were there of late.
  virtual absl::StatusOr<ListMembersResponse> ListMembers() = 0;

  // Has a ps server left by all jobs that run, or undoes that; returns what is still there. The
  // server goes by its name, or by its data directory's id.
  virtual absl::StatusOr<EvacuatePsResponse> EvacuatePs(const std::string& ps_server,
                                                        bool undo) = 0;
  // The same until nothing is there any more, or `timeout` has passed; the newest answer. `on_news`
  // is told of each that says another thing than the one before.
  virtual absl::StatusOr<EvacuatePsResponse> AwaitEvacuated(
      const std::string& ps_server, absl::Duration timeout,
      const std::function<void(const EvacuatePsResponse&)>& on_news) = 0;

  // Has shards of a running job moved, so that ps servers hold as much as one another; returns what
  // is to move.
  virtual absl::StatusOr<RebalanceJobResponse> Rebalance(const std::string& job_id) = 0;

  // A job that had ended stays as it is; its status is returned. One that does not end within the
  // service's patience (10 s, or half of `timeout`) is still under way in the status that is
  // returned: see AwaitEnd.
  virtual absl::StatusOr<JobStatus> Cancel(const std::string& job_id) = 0;

  // Asks for the status until it is final or `timeout` has passed, and returns the newest.
  virtual absl::StatusOr<JobStatus> AwaitEnd(const std::string& job_id, absl::Duration timeout) = 0;

  // Has a checkpoint written. Returns at once, with the newest that there is, if any; or with
  // `wait` when the one that was asked for is there, which may take up to `timeout`:
  // DEADLINE_EXCEEDED after that from a coordinator that is well.
  virtual absl::StatusOr<CheckpointJobResponse> Checkpoint(const std::string& job_id, bool wait,
                                                           absl::Duration timeout) = 0;

  // Waits up to `timeout` for servers of the job that are away.
  virtual absl::StatusOr<GetVariablesResponse> GetVariables(const std::string& job_id,
                                                            absl::Duration timeout) = 0;

  // Calls `on_event` for each event after `after_sequence` (0: from the first that the coordinator
  // still has), in order and once, from this thread. Where the stream breaks or the coordinator
  // restarts it goes on after the last event seen. Returns OK after the job's last event.
  virtual absl::Status Watch(const std::string& job_id, uint64_t after_sequence,
                             const std::function<void(const JobEvent&)>& on_event) = 0;

  // Ends calls under way, and all later ones, with CANCELLED. Does not block.
  virtual void Interrupt() = 0;
};

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_JOBS_CLIENT_H_
