// The clients' service: thin handlers over the job table.
#ifndef MILLRACE_COORDINATOR_SERVICE_JOBS_SERVICE_H_
#define MILLRACE_COORDINATOR_SERVICE_JOBS_SERVICE_H_

#include <atomic>

#include "coordinator/jobs/job_table.h"
#include "coordinator/membership/member_registry.h"
#include "protos/job.grpc.pb.h"

namespace millrace::coordinator {

// Handlers may block (a submission waits for a worker, a watch for events) and clients are few, so
// this is gRPC's synchronous interface: a thread for each call. Thread-safe.
class JobsService final : public millrace::Jobs::Service {
 public:
  // Not owned.
  JobsService(JobTable* table, const MemberRegistry* registry)
      : table_(table), registry_(registry) {}

  // Watches end soon with UNAVAILABLE, now and later.
  void Shutdown() { stopping_ = true; }

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
  grpc::Status GetVariables(grpc::ServerContext* context, const GetVariablesRequest* request,
                            GetVariablesResponse* response) override;

 private:
  JobTable* const table_;
  const MemberRegistry* const registry_;
  std::atomic<bool> stopping_{false};
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_SERVICE_JOBS_SERVICE_H_
