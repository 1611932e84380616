// A scripted Jobs service on loopback, for tests of what talks to a coordinator.
#ifndef MILLRACE_CLIENT_TESTING_FAKE_JOBS_H_
#define MILLRACE_CLIENT_TESTING_FAKE_JOBS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/mutex.h"
#include "common/net/server.h"
#include "grpcpp/support/status.h"
#include "protos/events.pb.h"
#include "protos/job.grpc.pb.h"
#include "protos/job.pb.h"

namespace millrace::testing {

// Events as the tests want them: without a sequence number, a second apart.
JobEvent StateEvent(JobState state, uint64_t step = 0,
                    const std::map<std::string, double>& metrics = {},
                    const std::string& message = "");
JobEvent ProgressEvent(uint64_t step, uint64_t total_steps, double examples_per_second,
                       const std::map<std::string, double>& metrics = {}, uint32_t workers = 2);
JobEvent EvaluatedEvent(uint64_t step, const std::map<std::string, double>& metrics,
                        uint64_t examples = 100);
JobEvent NoticeEvent(const std::string& message);

// Jobs are what the test says they are: nothing happens by itself, but that CancelJob adds the last
// event of a job that has none. CheckpointJob answers with the checkpoint of the job's status, and
// refuses a job whose spec has no directory for checkpoints. Thread-safe.
class FakeJobs final : public Jobs::Service {
 public:
  FakeJobs();
  ~FakeJobs() override;

  const std::string& address() const { return address_; }

  // Stops serving, as a coordinator that dies; serves again on the same port, with all it knew.
  void Stop();
  void Restart();

  // The next calls of any unary method are answered with these, before they are looked at.
  void FailNextCalls(std::vector<grpc::Status> statuses) ABSL_LOCKS_EXCLUDED(mutex_);
  // As FailNextCalls, but after the call has had its effect: the reply is lost.
  void LoseNextReplies(int count) ABSL_LOCKS_EXCLUDED(mutex_);
  // The next WatchJob streams end so: after that many events, with that status.
  void BreakNextWatches(std::vector<std::pair<int, grpc::Status>> breaks)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // From now on SubmitJob answers nobody: it waits until its client goes away, or for the release.
  void HoldSubmissions() ABSL_LOCKS_EXCLUDED(mutex_);
  void ReleaseSubmissions() ABSL_LOCKS_EXCLUDED(mutex_);
  // The same for CheckpointJob.
  void HoldCheckpoints() ABSL_LOCKS_EXCLUDED(mutex_);
  // From now on CancelJob ends no job: it returns the status as it is.
  void HoldCancellations() ABSL_LOCKS_EXCLUDED(mutex_);

  // Adds a job, or replaces its status; submitted jobs are RUNNING and called "job-1", "job-2", ...
  void SetJob(const JobStatus& status) ABSL_LOCKS_EXCLUDED(mutex_);
  // What ExplainJob says of a job.
  void SetExplanation(const std::string& job_id, const JobExplanation& explanation)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The job's status follows the events.
  void AddEvent(const std::string& job_id, JobEvent event) ABSL_LOCKS_EXCLUDED(mutex_);
  // What every job that is submitted from now on will tell at once.
  void SetEventsOfNewJobs(std::vector<JobEvent> events) ABSL_LOCKS_EXCLUDED(mutex_);
  // Drops the events after `sequence`, as a coordinator that lost them.
  void ForgetEventsAfter(const std::string& job_id, uint64_t sequence) ABSL_LOCKS_EXCLUDED(mutex_);
  void SetVariables(const std::string& job_id, const GetVariablesResponse& variables)
      ABSL_LOCKS_EXCLUDED(mutex_);

  void SetMembers(const ListMembersResponse& members) ABSL_LOCKS_EXCLUDED(mutex_);
  // What RebalanceJob answers of every job.
  void SetBalance(const RebalanceJobResponse& answer) ABSL_LOCKS_EXCLUDED(mutex_);
  // What EvacuatePs answers, one after the other; the last one from then on.
  void SetEvacuation(std::deque<EvacuatePsResponse> answers) ABSL_LOCKS_EXCLUDED(mutex_);

  // What was asked for.
  std::vector<SubmitJobRequest> submissions() const ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<WatchJobRequest> watches() const ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<CheckpointJobRequest> checkpoints() const ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<EvacuatePsRequest> evacuations() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Blocks until that many WatchJob streams have been opened, at most 30 s; returns whether.
  bool WaitForWatches(size_t count) const ABSL_LOCKS_EXCLUDED(mutex_);
  // The same for calls of SubmitJob, CancelJob, CheckpointJob or GetVariables, by name.
  bool WaitForCall(const std::string& method, size_t count = 1) const ABSL_LOCKS_EXCLUDED(mutex_);

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
  struct Job {
    JobStatus status;
    std::vector<JobEvent> events;
    GetVariablesResponse variables;
    JobExplanation explanation;
  };

  void NoteCall(const std::string& method) ABSL_LOCKS_EXCLUDED(mutex_);
  bool WaitUntil(const std::function<bool()>& happened) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Runs `handler` with the lock held, between the scripted failures.
  grpc::Status Scripted(const std::function<grpc::Status()>& handler) ABSL_LOCKS_EXCLUDED(mutex_);
  grpc::Status FindJob(const std::string& job_id, Job** job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddEventLocked(Job* job, JobEvent event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The next event after `sequence`, when it is there. Waits for it a little.
  bool NextEvent(const std::string& job_id, uint64_t sequence, JobEvent* event)
      ABSL_LOCKS_EXCLUDED(mutex_);

  std::string address_;
  std::unique_ptr<RpcServer> server_;

  mutable Mutex mutex_;
  mutable CondVar changed_;
  std::deque<grpc::Status> failures_ ABSL_GUARDED_BY(mutex_);
  int lost_replies_ ABSL_GUARDED_BY(mutex_) = 0;
  bool hold_submissions_ ABSL_GUARDED_BY(mutex_) = false;
  bool hold_checkpoints_ ABSL_GUARDED_BY(mutex_) = false;
  bool hold_cancellations_ ABSL_GUARDED_BY(mutex_) = false;
  std::multiset<std::string> called_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::pair<int, grpc::Status>> breaks_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Job> jobs_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> job_of_request_ ABSL_GUARDED_BY(mutex_);
  ListMembersResponse members_ ABSL_GUARDED_BY(mutex_);
  RebalanceJobResponse balance_ ABSL_GUARDED_BY(mutex_);
  std::deque<EvacuatePsResponse> evacuation_ ABSL_GUARDED_BY(mutex_);
  std::vector<JobEvent> events_of_new_jobs_ ABSL_GUARDED_BY(mutex_);
  std::vector<SubmitJobRequest> submissions_ ABSL_GUARDED_BY(mutex_);
  std::vector<WatchJobRequest> watches_ ABSL_GUARDED_BY(mutex_);
  std::vector<CheckpointJobRequest> checkpoints_ ABSL_GUARDED_BY(mutex_);
  std::vector<EvacuatePsRequest> evacuations_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millrace::testing

#endif  // MILLRACE_CLIENT_TESTING_FAKE_JOBS_H_
