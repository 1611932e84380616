#include "client/jobs_client.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/outage.h"
#include "common/grpc_status.h"
#include "common/job_state.h"
#include "common/mutex.h"
#include "common/net/address.h"
#include "common/net/channel.h"
#include "common/proto_time.h"
#include "common/random_token.h"
#include "common/status_macros.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "protos/job.grpc.pb.h"

namespace millrace::client {
namespace {

// How often the end of a job is asked after.
constexpr absl::Duration kStatusPeriod = absl::Milliseconds(500);
// What a call gets, however little time is left.
constexpr absl::Duration kShortestCall = absl::Seconds(1);
// For finding out whether a coordinator answers at all.
constexpr absl::Duration kProbeTimeout = absl::Seconds(5);
// A call may end for its deadline by the clock of the server, or of gRPC, before it is over by
// ours.
constexpr absl::Duration kClocksApart = absl::Milliseconds(20);

// The end of a stream that another attempt may mend: the connection or the coordinator went away. A
// server that shuts down cancels its handlers, so CANCELLED that we did not ask for is such an end.
bool StreamMayResume(absl::StatusCode code) {
  return code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kCancelled ||
         code == absl::StatusCode::kInternal || code == absl::StatusCode::kUnknown ||
         code == absl::StatusCode::kDeadlineExceeded;
}

class GrpcJobsClient final : public JobsClient {
 public:
  explicit GrpcJobsClient(JobsClientOptions options)
      : options_(std::move(options)),
        channel_(CreateChannel(options_.address)),
        stub_(Jobs::NewStub(channel_)) {}

  absl::StatusOr<std::string> Submit(const JobSpec& spec) override;
  absl::StatusOr<JobStatus> Get(const std::string& job_id) override;
  absl::StatusOr<JobExplanation> Explain(const std::string& job_id) override;
  absl::StatusOr<std::vector<JobStatus>> List() override;
  absl::StatusOr<ListMembersResponse> ListMembers() override;
  absl::StatusOr<EvacuatePsResponse> EvacuatePs(const std::string& ps_server, bool undo) override;
  absl::StatusOr<EvacuatePsResponse> AwaitEvacuated(
      const std::string& ps_server, absl::Duration timeout,
      const std::function<void(const EvacuatePsResponse&)>& on_news) override;
  absl::StatusOr<RebalanceJobResponse> Rebalance(const std::string& job_id) override;
  absl::StatusOr<JobStatus> Cancel(const std::string& job_id) override;
  absl::StatusOr<JobStatus> AwaitEnd(const std::string& job_id, absl::Duration timeout) override;
  absl::StatusOr<CheckpointJobResponse> Checkpoint(const std::string& job_id, bool wait,
                                                   absl::Duration timeout) override;
  absl::StatusOr<GetVariablesResponse> GetVariables(const std::string& job_id,
                                                    absl::Duration timeout) override;
  absl::Status Watch(const std::string& job_id, uint64_t after_sequence,
                     const std::function<void(const JobEvent&)>& on_event) override;
  void Interrupt() override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::StatusOr<JobStatus> Get(const std::string& job_id, absl::Duration timeout);

  // One RPC's context, where Interrupt() finds it.
  class Attempt {
   public:
    // `timeout` may be infinite.
    Attempt(GrpcJobsClient* client, absl::Duration timeout);
    ~Attempt();
    grpc::ClientContext* context() { return &context_; }

   private:
    GrpcJobsClient* const client_;
    grpc::ClientContext context_;
  };

  // What a watch has seen so far.
  struct WatchPosition {
    uint64_t sequence = 0;
    absl::Time time = absl::InfinitePast();
    bool ended = false;
    // The coordinator counts again from an earlier event; see Watch.
    bool rewound = false;
  };

  // Sets `timed_out` after an error if the call was waiting for its answer at the end.
  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(const char* name,
                                grpc::Status (Jobs::Stub::*method)(grpc::ClientContext*,
                                                                   const Request&, Response*),
                                const Request& request, absl::Duration timeout,
                                bool* timed_out = nullptr);
  absl::Status Told(const grpc::Status& status) const {
    const absl::Status told = FromGrpcStatus(status);
    // What a coordinator says may be about others; where gRPC says nothing, it is no coordinator.
    if (!absl::IsUnimplemented(told) || !status.error_message().empty()) return told;
    return absl::UnimplementedError(
        absl::StrCat("the coordinator is asked at ", options_.address, ", but ", told.message()));
  }
  Outage MakeOutage(const std::string& what, absl::Duration patience) const;
  // Pauses before the next attempt. CANCELLED: interrupted. Others: the outage lasts for too long.
  absl::Status PauseAfter(const absl::Status& error, FailedBy by, Outage* outage)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // CANCELLED: interrupted.
  absl::Status PauseUntil(absl::Time time) ABSL_LOCKS_EXCLUDED(mutex_);
  bool IsConnected() const {
    return channel_->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY;
  }
  // Of an attempt that has just failed.
  FailedBy WhoFailed() const;
  // One attempt. Where that lasts the coordinator is there, and what it waits for is told.
  absl::Status SubmitOnce(const SubmitJobRequest& request, SubmitJobResponse* response,
                          Outage* outage, bool* told);
  absl::Status WatchOnce(const std::string& job_id,
                         const std::function<void(const JobEvent&)>& on_event,
                         WatchPosition* position, Outage* outage);
  bool interrupted() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return interrupted_;
  }

  const JobsClientOptions options_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<Jobs::Stub> stub_;

  Mutex mutex_;
  CondVar interrupted_changed_;
  bool interrupted_ ABSL_GUARDED_BY(mutex_) = false;
  absl::flat_hash_set<grpc::ClientContext*> active_ ABSL_GUARDED_BY(mutex_);
};

GrpcJobsClient::Attempt::Attempt(GrpcJobsClient* client, absl::Duration timeout) : client_(client) {
  if (timeout != absl::InfiniteDuration()) {
    // gRPC's deadlines are the machine's time, whatever clock the client measures with.
    context_.set_deadline(SystemDeadline(timeout));
  }
  MutexLock lock(&client_->mutex_);
  client_->active_.insert(&context_);
  if (client_->interrupted_) context_.TryCancel();
}

GrpcJobsClient::Attempt::~Attempt() {
  MutexLock lock(&client_->mutex_);
  client_->active_.erase(&context_);
}

Outage GrpcJobsClient::MakeOutage(const std::string& what, absl::Duration patience) const {
  return Outage({.address = options_.address,
                 .what = what,
                 .patience = patience,
                 .on_wait = options_.on_wait,
                 .clock = options_.clock});
}

absl::Status GrpcJobsClient::PauseAfter(const absl::Status& error, FailedBy by, Outage* outage) {
  if (interrupted()) return absl::CancelledError("interrupted");
  MILLRACE_ASSIGN_OR_RETURN(const absl::Time retry_at, outage->NextAttempt(error, by));
  return PauseUntil(retry_at);
}

absl::Status GrpcJobsClient::PauseUntil(absl::Time time) {
  MutexLock lock(&mutex_);
  while (!interrupted_ && !options_.clock->WaitUntil(&interrupted_changed_, &mutex_, time)) {
  }
  return interrupted_ ? absl::CancelledError("interrupted") : absl::OkStatus();
}

// gRPC tells the server's UNAVAILABLE from its own by nothing but the connection: the server's came
// on one that still stands.
FailedBy GrpcJobsClient::WhoFailed() const {
  return IsConnected() ? FailedBy::kCoordinator : FailedBy::kConnection;
}

template <typename Request, typename Response>
absl::StatusOr<Response> GrpcJobsClient::Call(
    const char* name,
    grpc::Status (Jobs::Stub::*method)(grpc::ClientContext*, const Request&, Response*),
    const Request& request, absl::Duration timeout, bool* timed_out) {
  Outage outage = MakeOutage(name, timeout);
  absl::Status failure;  // The newest UNAVAILABLE, and whose it was.
  FailedBy by = FailedBy::kConnection;
  while (true) {
    Response response;
    absl::Status status;
    {
      Attempt attempt(this, outage.remaining());
      status = Told(((*stub_).*method)(attempt.context(), request, &response));
    }
    if (status.ok()) return response;
    if (interrupted()) return absl::CancelledError("interrupted");
    if (absl::IsDeadlineExceeded(status) && outage.remaining() <= kClocksApart) {
      if (timed_out != nullptr) *timed_out = true;
      return outage.GiveUp(failure.ok() ? status : failure, by);
    }
    if (!absl::IsUnavailable(status)) return status;
    failure = status;
    by = WhoFailed();
    MILLRACE_RETURN_IF_ERROR(PauseAfter(failure, by, &outage));
  }
}

absl::StatusOr<std::string> GrpcJobsClient::Submit(const JobSpec& spec) {
  SubmitJobRequest request;
  *request.mutable_spec() = spec;
  request.set_request_id(RandomToken());
  Outage outage = MakeOutage("SubmitJob", options_.submit_patience);
  bool told = false;
  while (true) {
    SubmitJobResponse response;
    const absl::Status status = SubmitOnce(request, &response, &outage, &told);
    if (status.ok()) return response.job_id();
    if (interrupted()) return absl::CancelledError("interrupted");
    if (!absl::IsUnavailable(status)) return status;
    MILLRACE_RETURN_IF_ERROR(PauseAfter(status, WhoFailed(), &outage));
  }
}

// It has no deadline: workers have that of the coordinator, and that the other end is there is what
// the channel's keepalive watches.
absl::Status GrpcJobsClient::SubmitOnce(const SubmitJobRequest& request,
                                        SubmitJobResponse* response, Outage* outage, bool* told) {
  Attempt attempt(this, absl::InfiniteDuration());
  grpc::CompletionQueue queue;
  const auto call = stub_->AsyncSubmitJob(attempt.context(), request, &queue);
  grpc::Status status;
  call->Finish(response, &status, /*tag=*/nullptr);
  void* tag = nullptr;
  bool ok = false;
  while (queue.AsyncNext(&tag, &ok, SystemDeadline(options_.planning_is_long)) ==
         grpc::CompletionQueue::TIMEOUT) {
    if (!IsConnected() || std::exchange(*told, true)) continue;
    outage->Over();
    if (options_.on_wait) {
      options_.on_wait("waits until a worker has compiled the model and opened the data");
    }
  }
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  return Told(status);
}

absl::StatusOr<JobStatus> GrpcJobsClient::Get(const std::string& job_id) {
  return Get(job_id, options_.timeout);
}

absl::StatusOr<JobStatus> GrpcJobsClient::Get(const std::string& job_id, absl::Duration timeout) {
  GetJobRequest request;
  request.set_job_id(job_id);
  return Call("GetJob", &Jobs::Stub::GetJob, request, timeout);
}

absl::StatusOr<JobExplanation> GrpcJobsClient::Explain(const std::string& job_id) {
  ExplainJobRequest request;
  request.set_job_id(job_id);
  return Call("ExplainJob", &Jobs::Stub::ExplainJob, request, options_.timeout);
}

absl::StatusOr<std::vector<JobStatus>> GrpcJobsClient::List() {
  std::vector<JobStatus> jobs;
  ListJobsRequest request;
  do {
    MILLRACE_ASSIGN_OR_RETURN(const ListJobsResponse page,
                              Call("ListJobs", &Jobs::Stub::ListJobs, request, options_.timeout));
    jobs.insert(jobs.end(), page.jobs().begin(), page.jobs().end());
    // Pages lead from newer to older jobs: one without any would not end.
    request.set_page_token(page.jobs().empty() ? "" : page.next_page_token());
  } while (!request.page_token().empty());
  return jobs;
}

absl::StatusOr<ListMembersResponse> GrpcJobsClient::ListMembers() {
  return Call("ListMembers", &Jobs::Stub::ListMembers, ListMembersRequest(), options_.timeout);
}

absl::StatusOr<EvacuatePsResponse> GrpcJobsClient::EvacuatePs(const std::string& ps_server,
                                                              bool undo) {
  EvacuatePsRequest request;
  request.set_ps_server(ps_server);
  request.set_undo(undo);
  return Call("EvacuatePs", &Jobs::Stub::EvacuatePs, request, options_.timeout);
}

absl::StatusOr<EvacuatePsResponse> GrpcJobsClient::AwaitEvacuated(
    const std::string& ps_server, absl::Duration timeout,
    const std::function<void(const EvacuatePsResponse&)>& on_news) {
  const absl::Time deadline = options_.clock->Now() + timeout;
  std::string last;
  std::string server = ps_server;
  while (true) {
    MILLRACE_ASSIGN_OR_RETURN(EvacuatePsResponse response, EvacuatePs(server, /*undo=*/false));
    server = response.directory_id();  // Another one may come by that name.
    EvacuatePsResponse told = response;
    told.clear_was_evacuated();  // Which the first answer alone need not say.
    const std::string news = told.SerializeAsString();
    if (std::exchange(last, news) != news) on_news(response);
    const absl::Time now = options_.clock->Now();
    if (response.jobs().empty() || now >= deadline) return response;
    MILLRACE_RETURN_IF_ERROR(PauseUntil(std::min(now + kStatusPeriod, deadline)));
  }
}

absl::StatusOr<RebalanceJobResponse> GrpcJobsClient::Rebalance(const std::string& job_id) {
  RebalanceJobRequest request;
  request.set_job_id(job_id);
  return Call("RebalanceJob", &Jobs::Stub::RebalanceJob, request, options_.timeout);
}

absl::StatusOr<JobStatus> GrpcJobsClient::Cancel(const std::string& job_id) {
  CancelJobRequest request;
  request.set_job_id(job_id);
  return Call("CancelJob", &Jobs::Stub::CancelJob, request, options_.timeout);
}

absl::StatusOr<JobStatus> GrpcJobsClient::AwaitEnd(const std::string& job_id,
                                                   absl::Duration timeout) {
  const absl::Time deadline = options_.clock->Now() + timeout;
  while (true) {
    const absl::Duration left = std::max(deadline - options_.clock->Now(), kShortestCall);
    MILLRACE_ASSIGN_OR_RETURN(JobStatus status, Get(job_id, std::min(left, options_.timeout)));
    const absl::Time now = options_.clock->Now();
    if (HasEnded(status.state()) || now >= deadline) return status;
    MILLRACE_RETURN_IF_ERROR(PauseUntil(std::min(now + kStatusPeriod, deadline)));
  }
}

absl::StatusOr<CheckpointJobResponse> GrpcJobsClient::Checkpoint(const std::string& job_id,
                                                                 bool wait,
                                                                 absl::Duration timeout) {
  CheckpointJobRequest request;
  request.set_job_id(job_id);
  request.set_wait(wait);
  bool timed_out = false;
  auto response = Call("CheckpointJob", &Jobs::Stub::CheckpointJob, request, timeout,
                       wait ? &timed_out : nullptr);
  // A coordinator that waits for the checkpoint is well.
  if (timed_out && Get(job_id, std::min(options_.timeout, kProbeTimeout)).ok()) {
    return absl::DeadlineExceededError(absl::StrCat("there was no checkpoint of job ", job_id,
                                                    " within ", absl::FormatDuration(timeout)));
  }
  return response;
}

absl::StatusOr<GetVariablesResponse> GrpcJobsClient::GetVariables(const std::string& job_id,
                                                                  absl::Duration timeout) {
  GetVariablesRequest request;
  request.set_job_id(job_id);
  return Call("GetVariables", &Jobs::Stub::GetVariables, request, timeout);
}

// One stream, to its end. The stream has no deadline: a job may have nothing to tell for hours.
// That the other end is there is what the channel's keepalive watches.
absl::Status GrpcJobsClient::WatchOnce(const std::string& job_id,
                                       const std::function<void(const JobEvent&)>& on_event,
                                       WatchPosition* position, Outage* outage) {
  WatchJobRequest request;
  request.set_job_id(job_id);
  request.set_after_sequence(position->sequence);
  Attempt attempt(this, absl::InfiniteDuration());
  const auto stream = stub_->WatchJob(attempt.context(), request);
  JobEvent event;
  while (!position->ended && stream->Read(&event)) {
    outage->Over();
    if (event.sequence() <= position->sequence) continue;
    position->sequence = event.sequence();
    const absl::Time time = FromTimestamp(event.time());
    if (position->rewound && time <= position->time) continue;
    position->time = time;
    position->ended = IsLastEvent(event);
    on_event(event);
  }
  // A server that sends on after the last event must not keep us here.
  if (position->ended) attempt.context()->TryCancel();
  return Told(stream->Finish());
}

absl::Status GrpcJobsClient::Watch(const std::string& job_id, uint64_t after_sequence,
                                   const std::function<void(const JobEvent&)>& on_event) {
  WatchPosition position;
  position.sequence = after_sequence;
  Outage outage = MakeOutage(absl::StrCat("WatchJob of ", job_id), options_.watch_patience);
  outage.Over();
  while (true) {
    const absl::Status status = WatchOnce(job_id, on_event, &position, &outage);
    if (position.ended) return absl::OkStatus();
    if (absl::IsOutOfRange(status) && position.time != absl::InfinitePast()) {
      // A coordinator that lost its newest events in a crash counts on from an older one: take what
      // it has from the beginning, and leave out what was seen by time.
      position.sequence = 0;
      position.rewound = true;
      continue;
    }
    if (!status.ok() && !StreamMayResume(status.code()) && !interrupted()) return status;
    MILLRACE_RETURN_IF_ERROR(PauseAfter(
        status.ok() ? absl::UnavailableError("it ended the stream before the job's last event")
                    : status,
        FailedBy::kConnection, &outage));
  }
}

void GrpcJobsClient::Interrupt() {
  MutexLock lock(&mutex_);
  interrupted_ = true;
  interrupted_changed_.SignalAll();
  // Under the lock, which keeps the contexts alive. TryCancel only hands the call to gRPC's
  // threads.
  for (grpc::ClientContext* context : active_) context->TryCancel();
}

}  // namespace

bool IsLastEvent(const JobEvent& event) {
  JobState state = JOB_STATE_UNSPECIFIED;
  return event.has_state_changed() && JobState_Parse(event.state_changed().state(), &state) &&
         HasEnded(state);
}

absl::StatusOr<std::unique_ptr<JobsClient>> JobsClient::Create(JobsClientOptions options) {
  MILLRACE_RETURN_IF_ERROR(CheckDialable("the coordinator's address", options.address));
  return std::make_unique<GrpcJobsClient>(std::move(options));
}

}  // namespace millrace::client
