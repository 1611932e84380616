#include "client/testing/fake_jobs.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/jobs_client.h"
#include "common/job_state.h"
#include "glog/logging.h"

namespace millrace::testing {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(20);
// When the first event of a job happened: 2020-09-13 12:26:40 UTC.
constexpr int64_t kFirstEventSeconds = 1600000000;

std::unique_ptr<RpcServer> Serve(const std::string& listen, grpc::Service* service) {
  ServerOptions options;
  options.listen = listen;
  auto server = RpcServer::Start(options, {service});
  CHECK(server.ok()) << server.status();
  return *std::move(server);
}

}  // namespace

JobEvent StateEvent(JobState state, uint64_t step, const std::map<std::string, double>& metrics,
                    const std::string& message) {
  JobEvent event;
  StateChanged* change = event.mutable_state_changed();
  change->set_state(JobState_Name(state));
  change->set_step(step);
  change->set_message(message);
  change->mutable_metrics()->insert(metrics.begin(), metrics.end());
  return event;
}

JobEvent ProgressEvent(uint64_t step, uint64_t total_steps, double examples_per_second,
                       const std::map<std::string, double>& metrics, uint32_t workers) {
  JobEvent event;
  Progress* progress = event.mutable_progress();
  progress->set_step(step);
  progress->set_total_steps(total_steps);
  progress->set_examples_per_second(examples_per_second);
  progress->set_workers(workers);
  progress->mutable_metrics()->insert(metrics.begin(), metrics.end());
  return event;
}

JobEvent EvaluatedEvent(uint64_t step, const std::map<std::string, double>& metrics,
                        uint64_t examples) {
  JobEvent event;
  Evaluated* evaluated = event.mutable_evaluated();
  evaluated->set_step(step);
  evaluated->set_examples(examples);
  evaluated->mutable_metrics()->insert(metrics.begin(), metrics.end());
  return event;
}

JobEvent NoticeEvent(const std::string& message) {
  JobEvent event;
  event.mutable_notice()->set_message(message);
  return event;
}

FakeJobs::FakeJobs() {
  server_ = Serve("127.0.0.1:0", this);
  address_ = server_->address();
}

FakeJobs::~FakeJobs() { Stop(); }

void FakeJobs::Stop() {
  if (server_ != nullptr) server_->Shutdown(absl::ZeroDuration());
  server_.reset();
}

void FakeJobs::Restart() { server_ = Serve(address_, this); }

void FakeJobs::FailNextCalls(std::vector<grpc::Status> statuses) {
  MutexLock lock(&mutex_);
  failures_.insert(failures_.end(), statuses.begin(), statuses.end());
}

void FakeJobs::LoseNextReplies(int count) {
  MutexLock lock(&mutex_);
  lost_replies_ = count;
}

void FakeJobs::BreakNextWatches(std::vector<std::pair<int, grpc::Status>> breaks) {
  MutexLock lock(&mutex_);
  breaks_.insert(breaks_.end(), breaks.begin(), breaks.end());
}

void FakeJobs::SetJob(const JobStatus& status) {
  MutexLock lock(&mutex_);
  jobs_[status.job_id()].status = status;
}

void FakeJobs::AddEvent(const std::string& job_id, JobEvent event) {
  MutexLock lock(&mutex_);
  AddEventLocked(&jobs_[job_id], std::move(event));
}

void FakeJobs::SetEventsOfNewJobs(std::vector<JobEvent> events) {
  MutexLock lock(&mutex_);
  events_of_new_jobs_ = std::move(events);
}

void FakeJobs::ForgetEventsAfter(const std::string& job_id, uint64_t sequence) {
  MutexLock lock(&mutex_);
  jobs_[job_id].events.resize(sequence);
}

void FakeJobs::SetMembers(const ListMembersResponse& members) {
  MutexLock lock(&mutex_);
  members_ = members;
}

void FakeJobs::SetBalance(const RebalanceJobResponse& answer) {
  MutexLock lock(&mutex_);
  balance_ = answer;
}

void FakeJobs::SetEvacuation(std::deque<EvacuatePsResponse> answers) {
  MutexLock lock(&mutex_);
  evacuation_ = std::move(answers);
}

std::vector<EvacuatePsRequest> FakeJobs::evacuations() const {
  MutexLock lock(&mutex_);
  return evacuations_;
}

void FakeJobs::SetExplanation(const std::string& job_id, const JobExplanation& explanation) {
  MutexLock lock(&mutex_);
  jobs_[job_id].explanation = explanation;
}

void FakeJobs::SetVariables(const std::string& job_id, const GetVariablesResponse& variables) {
  MutexLock lock(&mutex_);
  jobs_[job_id].variables = variables;
}

std::vector<SubmitJobRequest> FakeJobs::submissions() const {
  MutexLock lock(&mutex_);
  return submissions_;
}

std::vector<WatchJobRequest> FakeJobs::watches() const {
  MutexLock lock(&mutex_);
  return watches_;
}

std::vector<CheckpointJobRequest> FakeJobs::checkpoints() const {
  MutexLock lock(&mutex_);
  return checkpoints_;
}

void FakeJobs::HoldSubmissions() {
  MutexLock lock(&mutex_);
  hold_submissions_ = true;
}

void FakeJobs::ReleaseSubmissions() {
  MutexLock lock(&mutex_);
  hold_submissions_ = false;
  changed_.SignalAll();
}

void FakeJobs::HoldCheckpoints() {
  MutexLock lock(&mutex_);
  hold_checkpoints_ = true;
}

void FakeJobs::HoldCancellations() {
  MutexLock lock(&mutex_);
  hold_cancellations_ = true;
}

bool FakeJobs::WaitUntil(const std::function<bool()>& happened) const {
  MutexLock lock(&mutex_);
  const absl::Time deadline = Clock::Real()->Now() + absl::Seconds(30);
  while (!happened()) {
    if (Clock::Real()->WaitUntil(&changed_, &mutex_, deadline)) break;
  }
  return happened();
}

bool FakeJobs::WaitForWatches(size_t count) const {
  return WaitUntil([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return watches_.size() >= count; });
}

bool FakeJobs::WaitForCall(const std::string& method, size_t count) const {
  return WaitUntil([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return called_.count(method) >= count; });
}

void FakeJobs::NoteCall(const std::string& method) {
  MutexLock lock(&mutex_);
  called_.insert(method);
  changed_.SignalAll();
}

grpc::Status FakeJobs::Scripted(const std::function<grpc::Status()>& handler) {
  MutexLock lock(&mutex_);
  if (!failures_.empty()) {
    const grpc::Status failure = failures_.front();
    failures_.pop_front();
    return failure;
  }
  const grpc::Status status = handler();
  if (lost_replies_ == 0) return status;
  --lost_replies_;
  return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the reply is lost");
}

grpc::Status FakeJobs::FindJob(const std::string& job_id, Job** job) {
  const auto found = jobs_.find(job_id);
  if (found == jobs_.end()) {
    return grpc::Status(grpc::StatusCode::NOT_FOUND, absl::StrCat("no job '", job_id, "'"));
  }
  *job = &found->second;
  return grpc::Status::OK;
}

void FakeJobs::AddEventLocked(Job* job, JobEvent event) {
  event.set_sequence(job->events.size() + 1);
  event.mutable_time()->set_seconds(kFirstEventSeconds + static_cast<int64_t>(job->events.size()));
  if (event.has_state_changed()) {
    const StateChanged& change = event.state_changed();
    JobState state = JOB_STATE_UNSPECIFIED;
    CHECK(JobState_Parse(change.state(), &state));
    job->status.set_state(state);
    job->status.set_message(change.message());
    job->status.set_step(change.step());
    *job->status.mutable_metrics() = change.metrics();
  }
  if (event.has_progress()) {
    job->status.set_step(event.progress().step());
    job->status.set_total_steps(event.progress().total_steps());
  }
  job->events.push_back(std::move(event));
  changed_.SignalAll();
}

grpc::Status FakeJobs::SubmitJob(grpc::ServerContext* context, const SubmitJobRequest* request,
                                 SubmitJobResponse* response) {
  NoteCall("SubmitJob");
  {
    MutexLock lock(&mutex_);
    while (hold_submissions_ && !context->IsCancelled()) {
      changed_.WaitWithTimeout(&mutex_, kPoll);
    }
  }
  return Scripted([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    submissions_.push_back(*request);
    std::string& id = job_of_request_[request->request_id()];
    if (id.empty()) {
      id = absl::StrCat("job-", job_of_request_.size());
      Job& job = jobs_[id];
      job.status.set_job_id(id);
      *job.status.mutable_spec() = request->spec();
      job.status.set_state(RUNNING);
      for (const JobEvent& event : events_of_new_jobs_) AddEventLocked(&job, event);
    }
    response->set_job_id(id);
    return grpc::Status::OK;
  });
}

grpc::Status FakeJobs::GetJob(grpc::ServerContext*, const GetJobRequest* request,
                              JobStatus* response) {
  return Scripted([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    Job* job = nullptr;
    const grpc::Status status = FindJob(request->job_id(), &job);
    if (status.ok()) *response = job->status;
    return status;
  });
}

grpc::Status FakeJobs::ExplainJob(grpc::ServerContext*, const ExplainJobRequest* request,
                                  JobExplanation* response) {
  return Scripted([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    Job* job = nullptr;
    const grpc::Status status = FindJob(request->job_id(), &job);
    if (!status.ok()) return status;
    *response = job->explanation;
    *response->mutable_status() = job->status;
    return status;
  });
}

grpc::Status FakeJobs::ListMembers(grpc::ServerContext*, const ListMembersRequest*,
                                   ListMembersResponse* response) {
  return Scripted([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    *response = members_;
    return grpc::Status::OK;
  });
}

grpc::Status FakeJobs::EvacuatePs(grpc::ServerContext*, const EvacuatePsRequest* request,
                                  EvacuatePsResponse* response) {
  return Scripted([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    evacuations_.push_back(*request);
    if (evacuation_.empty()) return grpc::Status(grpc::StatusCode::NOT_FOUND, "no such ps server");
    *response = evacuation_.front();
    if (evacuation_.size() > 1) evacuation_.pop_front();
    return grpc::Status::OK;
  });
}

grpc::Status FakeJobs::RebalanceJob(grpc::ServerContext*, const RebalanceJobRequest* request,
                                    RebalanceJobResponse* response) {
  return Scripted([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    Job* job = nullptr;
    const grpc::Status status = FindJob(request->job_id(), &job);
    if (status.ok()) *response = balance_;
    return status;
  });
}

// Two jobs to a page; a token is how many were listed.
grpc::Status FakeJobs::ListJobs(grpc::ServerContext*, const ListJobsRequest* request,
                                ListJobsResponse* response) {
  return Scripted([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    size_t listed = 0;
    if (!request->page_token().empty()) CHECK(absl::SimpleAtoi(request->page_token(), &listed));
    const size_t end = std::min(listed + 2, jobs_.size());
    for (auto job = std::next(jobs_.rbegin(), listed); listed < end; ++job, ++listed) {
      *response->add_jobs() = job->second.status;
    }
    if (end < jobs_.size()) response->set_next_page_token(absl::StrCat(end));
    return grpc::Status::OK;
  });
}

bool FakeJobs::NextEvent(const std::string& job_id, uint64_t sequence, JobEvent* event) {
  MutexLock lock(&mutex_);
  const std::vector<JobEvent>& events = jobs_[job_id].events;
  if (events.size() <= sequence) changed_.WaitWithTimeout(&mutex_, kPoll);
  if (events.size() <= sequence) return false;
  *event = events[sequence];
  return true;
}

grpc::Status FakeJobs::WatchJob(grpc::ServerContext* context, const WatchJobRequest* request,
                                grpc::ServerWriter<JobEvent>* writer) {
  absl::optional<std::pair<int, grpc::Status>> end;
  uint64_t sequence = request->after_sequence();
  {
    MutexLock lock(&mutex_);
    watches_.push_back(*request);
    changed_.SignalAll();
    if (!breaks_.empty()) {
      end = breaks_.front();
      breaks_.pop_front();
    }
    Job* job = nullptr;
    if (const grpc::Status status = FindJob(request->job_id(), &job); !status.ok()) return status;
    if (sequence > job->events.size()) {
      return grpc::Status(grpc::StatusCode::OUT_OF_RANGE, "after_sequence is in the future");
    }
  }
  while (!context->IsCancelled()) {
    if (end && end->first-- == 0) return end->second;
    JobEvent event;
    while (!NextEvent(request->job_id(), sequence, &event)) {
      if (context->IsCancelled()) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "stops");
    }
    writer->Write(event);
    if (client::IsLastEvent(event)) return grpc::Status::OK;
    ++sequence;
  }
  return grpc::Status(grpc::StatusCode::UNAVAILABLE, "stops");
}

grpc::Status FakeJobs::CancelJob(grpc::ServerContext*, const CancelJobRequest* request,
                                 JobStatus* response) {
  NoteCall("CancelJob");
  return Scripted([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    Job* job = nullptr;
    const grpc::Status status = FindJob(request->job_id(), &job);
    if (!status.ok()) return status;
    if (!HasEnded(job->status.state()) && !hold_cancellations_) {
      AddEventLocked(job, StateEvent(CANCELLED, job->status.step()));
    }
    *response = job->status;
    return status;
  });
}

grpc::Status FakeJobs::CheckpointJob(grpc::ServerContext* context,
                                     const CheckpointJobRequest* request,
                                     CheckpointJobResponse* response) {
  NoteCall("CheckpointJob");
  {
    MutexLock lock(&mutex_);
    while (hold_checkpoints_ && !context->IsCancelled()) {
      changed_.WaitWithTimeout(&mutex_, kPoll);
    }
  }
  return Scripted([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    checkpoints_.push_back(*request);
    Job* job = nullptr;
    const grpc::Status status = FindJob(request->job_id(), &job);
    if (!status.ok()) return status;
    if (job->status.spec().checkpoints().directory().empty()) {
      return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION,
                          "the job has no directory for checkpoints");
    }
    if (job->status.has_checkpoint()) *response->mutable_checkpoint() = job->status.checkpoint();
    return status;
  });
}

grpc::Status FakeJobs::GetVariables(grpc::ServerContext*, const GetVariablesRequest* request,
                                    GetVariablesResponse* response) {
  NoteCall("GetVariables");
  return Scripted([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    Job* job = nullptr;
    const grpc::Status status = FindJob(request->job_id(), &job);
    if (!status.ok()) return status;
    if (job->variables.variables().empty()) {
      return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "the job has not started");
    }
    *response = job->variables;
    return status;
  });
}

}  // namespace millrace::testing
