// The clients' service: thin handlers over submissions and the job table.
#ifndef MILLRACE_COORDINATOR_SERVICE_JOBS_SERVICE_H_
#define MILLRACE_COORDINATOR_SERVICE_JOBS_SERVICE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/job/job.h"
#include "coordinator/jobs/job_table.h"
#include "coordinator/jobs/submissions.h"
#include "coordinator/membership/member_registry.h"
#include "coordinator/placement/evacuated_servers.h"
#include "protos/job.grpc.pb.h"

namespace millrace::coordinator {

// Handlers may block (a submission waits for a worker, a watch for events) and clients are few, so
// this is gRPC's synchronous interface: a thread for each call. Thread-safe.
class JobsService final : public millrace::Jobs::Service {
 public:
  // Not owned.
  JobsService(JobTable* table, Submissions* submissions, const MemberRegistry* registry,
              EvacuatedServers* evacuated);

  // Until then every call is answered with UNAVAILABLE: a job that has no runner yet could not be
  // cancelled.
  void Open() { phase_ = Phase::kOpen; }

  // Every call is answered with UNAVAILABLE from now on, and those that wait end soon with it.
  void Shutdown() { phase_ = Phase::kStopping; }

  grpc::Status SubmitJob(grpc::ServerContext* context, const SubmitJobRequest* request,
                         SubmitJobResponse* response) override;
  grpc::Status GetJob(grpc::ServerContext* context, const GetJobRequest* request,
                      JobStatus* response) override;
  grpc::Status ListJobs(grpc::ServerContext* context, const ListJobsRequest* request,
                        ListJobsResponse* response) override;
  grpc::Status WatchJob(grpc::ServerContext* context, const WatchJobRequest* request,
                        grpc::ServerWriter<JobEvent>* writer) override;
  grpc::Status CancelJob(grpc::ServerContext* context, const CancelJobRequest* request,
                         JobStatus* response) override;
  grpc::Status ExplainJob(grpc::ServerContext* context, const ExplainJobRequest* request,
                          JobExplanation* response) override;
  grpc::Status CheckpointJob(grpc::ServerContext* context, const CheckpointJobRequest* request,
                             CheckpointJobResponse* response) override;
  grpc::Status GetVariables(grpc::ServerContext* context, const GetVariablesRequest* request,
                            GetVariablesResponse* response) override;
  grpc::Status ListMembers(grpc::ServerContext* context, const ListMembersRequest* request,
                           ListMembersResponse* response) override;
  grpc::Status EvacuatePs(grpc::ServerContext* context, const EvacuatePsRequest* request,
                          EvacuatePsResponse* response) override;
  grpc::Status RebalanceJob(grpc::ServerContext* context, const RebalanceJobRequest* request,
                            RebalanceJobResponse* response) override;

 private:
  enum class Phase { kStarting, kOpen, kStopping };

  grpc::Status Watch(grpc::ServerContext* context, const WatchJobRequest& request,
                     const std::function<bool(const JobEvent&)>& write);

  absl::Status Checkpoint(grpc::ServerContext* context, const CheckpointJobRequest& request,
                          CheckpointJobResponse* response);

  // UNAVAILABLE unless open.
  absl::Status CheckOpen() const;
  // The job, when open.
  absl::StatusOr<std::shared_ptr<Job>> Find(const std::string& job_id) const;

  JobTable* const table_;
  Submissions* const submissions_;
  const MemberRegistry* const registry_;
  EvacuatedServers* const evacuated_;
  std::atomic<Phase> phase_{Phase::kStarting};
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_SERVICE_JOBS_SERVICE_H_
