#include "coordinator/service/jobs_service.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/clock.h"
#include "common/grpc_status.h"
#include "common/job_state.h"
#include "common/net/checked_request.h"
#include "common/printable.h"
#include "common/proto_fields.h"
#include "common/status_macros.h"
#include "coordinator/checkpoint/checkpoint_requests.h"
#include "coordinator/job/evaluation_verdict.h"
#include "coordinator/job/shard_placement.h"
#include "coordinator/jobs/evacuation.h"
#include "coordinator/shards/attach_decision.h"
#include "coordinator/shards/shard_group.h"

namespace millrace::coordinator {
namespace {

// How soon a call that waits notices that its client is gone or the coordinator stops.
constexpr absl::Duration kPoll = absl::Milliseconds(200);
// How long a cancellation waits for the job's end before it returns the status as it is.
constexpr absl::Duration kCancelWait = absl::Seconds(10);

// Of requests that name a job, and of one that brings a spec.
constexpr size_t kMaxRequestBytes = 64 << 10;
constexpr size_t kMaxSubmissionBytes = 2 << 20;

// After which a list of jobs is continued on another page: well below what a message may have.
constexpr size_t kPageBytes = 4 << 20;
constexpr uint32_t kMostJobsOfAPage = 10'000;

// "", or which checkpoint can be had instead of variables.
std::string OfferCheckpoint(const JobRecord& record) {
  if (!record.has_checkpoint()) return "";
  return absl::StrCat(", or export checkpoint ", record.checkpoint().directory(), "/",
                      CheckpointFolder(record.checkpoint().number()), " of step ",
                      record.checkpoint().step(), " (millrace checkpoints export)");
}

// A shard that is not there, since it has not been made yet. Empty: all are.
std::string ToBeMade(const ShardGroup& shards) {
  const auto& placements = shards.placements();
  const auto found = std::find_if(placements.begin(), placements.end(), IsToBeMade);
  if (found == placements.end()) return "";
  return shards.NameOf(static_cast<uint32_t>(found - placements.begin()));
}

// DATA_LOSS: a shard of a job that has succeeded has not got all of its steps. Its disk was damaged
// since, or is an older copy of itself.
absl::Status CheckEnd(const JobRecord& record, const ShardGroup& shards,
                      const ShardGroup::Statuses& statuses) {
  if (record.state() != SUCCEEDED) return absl::OkStatus();
  const uint64_t end = EndStep(record);
  const BarrierCheck check = CheckBarrier(statuses, end);
  if (check.state == BarrierState::kReached) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "variables of job '", record.job_id(), "': ", shards.NameOf(check.shard),
      " is not as it was after the job's ", end,
      " steps: its data directory was damaged since then, or is an older copy; start the server on "
      "the right one",
      OfferCheckpoint(record)));
}

}  // namespace

// The indices are the methods' places in the service: generated code counts them so too.
JobsService::JobsService(JobTable* table, Submissions* submissions, const MemberRegistry* registry,
                         EvacuatedServers* evacuated)
    : table_(table), submissions_(submissions), registry_(registry), evacuated_(evacuated) {
  MarkMethodStreamed(0, NewCheckedHandler<kMaxSubmissionBytes>(this, &JobsService::SubmitJob));
  MarkMethodStreamed(1, NewCheckedHandler<kMaxRequestBytes>(this, &JobsService::GetJob));
  MarkMethodStreamed(2, NewCheckedHandler<kMaxRequestBytes>(this, &JobsService::ListJobs));
  MarkMethodStreamed(3, NewCheckedStreamHandler<kMaxRequestBytes, WatchJobRequest, JobEvent>(
                            [this](grpc::ServerContext* context, const WatchJobRequest& request,
                                   const auto& write) { return Watch(context, request, write); }));
  MarkMethodStreamed(4, NewCheckedHandler<kMaxRequestBytes>(this, &JobsService::CancelJob));
  MarkMethodStreamed(6, NewCheckedHandler<kMaxRequestBytes>(this, &JobsService::ExplainJob));
  MarkMethodStreamed(5, NewCheckedHandler<kMaxRequestBytes>(this, &JobsService::CheckpointJob));
  MarkMethodStreamed(7, NewCheckedHandler<kMaxRequestBytes>(this, &JobsService::GetVariables));
  MarkMethodStreamed(8, NewCheckedHandler<kMaxRequestBytes>(this, &JobsService::ListMembers));
  MarkMethodStreamed(9, NewCheckedHandler<kMaxRequestBytes>(this, &JobsService::EvacuatePs));
  MarkMethodStreamed(10, NewCheckedHandler<kMaxRequestBytes>(this, &JobsService::RebalanceJob));
}

absl::Status JobsService::CheckOpen() const {
  switch (phase_.load()) {
    case Phase::kStarting:
      return absl::UnavailableError("the coordinator is still starting; try again");
    case Phase::kOpen:
      return absl::OkStatus();
    case Phase::kStopping:
      break;
  }
  return absl::UnavailableError("the coordinator stops; try again when it is back");
}

absl::StatusOr<std::shared_ptr<Job>> JobsService::Find(const std::string& job_id) const {
  MILLRACE_RETURN_IF_ERROR(CheckOpen());
  return table_->Find(job_id);
}

grpc::Status JobsService::SubmitJob(grpc::ServerContext* context, const SubmitJobRequest* request,
                                    SubmitJobResponse* response) {
  const absl::Status open = CheckOpen();
  if (!open.ok()) return ToGrpcStatus(open);
  const absl::StatusOr<std::string> job_id =
      submissions_->Submit(*request, [context] { return context->IsCancelled(); });
  if (!job_id.ok()) return ToGrpcStatus(job_id.status());
  response->set_job_id(*job_id);
  return grpc::Status::OK;
}

grpc::Status JobsService::GetJob(grpc::ServerContext* /*context*/, const GetJobRequest* request,
                                 JobStatus* response) {
  const auto job = Find(request->job_id());
  if (!job.ok()) return ToGrpcStatus(job.status());
  *response = (*job)->Status();
  return grpc::Status::OK;
}

grpc::Status JobsService::ListJobs(grpc::ServerContext* /*context*/, const ListJobsRequest* request,
                                   ListJobsResponse* response) {
  const absl::Status open = CheckOpen();
  if (!open.ok()) return ToGrpcStatus(open);
  // A token is the number of the last job that was listed.
  uint64_t before = std::numeric_limits<uint64_t>::max();
  if (!request->page_token().empty() && !absl::SimpleAtoi(request->page_token(), &before)) {
    return ToGrpcStatus(FieldError("page_token", Printable(request->page_token()),
                                   "the next_page_token of an answer"));
  }
  const uint32_t most = request->page_size() > 0 ? request->page_size() : kMostJobsOfAPage;
  size_t bytes = 0;
  for (const std::shared_ptr<Job>& job : table_->Jobs()) {
    if (job->number() >= before) continue;
    if (bytes >= kPageBytes || static_cast<uint32_t>(response->jobs_size()) >= most) {
      response->set_next_page_token(absl::StrCat(before));
      break;
    }
    before = job->number();
    *response->add_jobs() = job->Summary();
    bytes += response->jobs().rbegin()->ByteSizeLong();
  }
  return grpc::Status::OK;
}

grpc::Status JobsService::WatchJob(grpc::ServerContext* context, const WatchJobRequest* request,
                                   grpc::ServerWriter<JobEvent>* writer) {
  return Watch(context, *request, [writer](const JobEvent& event) { return writer->Write(event); });
}

grpc::Status JobsService::Watch(grpc::ServerContext* context, const WatchJobRequest& request,
                                const std::function<bool(const JobEvent&)>& write) {
  const auto job = Find(request.job_id());
  if (!job.ok()) return ToGrpcStatus(job.status());
  uint64_t sequence = request.after_sequence();
  while (!context->IsCancelled()) {
    const absl::Status open = CheckOpen();
    if (!open.ok()) return ToGrpcStatus(open);
    const auto read = (*job)->events().ReadAfter(sequence, kPoll);
    if (!read.ok()) return ToGrpcStatus(read.status());
    if (read->end) return grpc::Status::OK;
    if (!read->event) continue;
    sequence = read->event->sequence();
    if (!write(*read->event)) break;
  }
  return ToGrpcStatus(absl::CancelledError("the client has gone"));
}

grpc::Status JobsService::CancelJob(grpc::ServerContext* context, const CancelJobRequest* request,
                                    JobStatus* response) {
  const auto job = Find(request->job_id());
  if (!job.ok()) return ToGrpcStatus(job.status());
  table_->Cancel(**job);
  // Half of what the client gives the call is left for the answer.
  const absl::Duration given = TimeLeftUntil(context->deadline());
  const absl::Time deadline = Clock::Real()->Now() + std::min(kCancelWait, given / 2);
  while (!(*job)->WaitUntilEnded(kPoll) && Clock::Real()->Now() < deadline) {
    const absl::Status open = CheckOpen();
    if (!open.ok()) return ToGrpcStatus(open);
    if (context->IsCancelled()) break;
  }
  *response = (*job)->Status();
  return grpc::Status::OK;
}

grpc::Status JobsService::ExplainJob(grpc::ServerContext* /*context*/,
                                     const ExplainJobRequest* request, JobExplanation* response) {
  const auto job = Find(request->job_id());
  if (!job.ok()) return ToGrpcStatus(job.status());
  *response = table_->Explain(**job);
  return grpc::Status::OK;
}

grpc::Status JobsService::CheckpointJob(grpc::ServerContext* context,
                                        const CheckpointJobRequest* request,
                                        CheckpointJobResponse* response) {
  return ToGrpcStatus(Checkpoint(context, *request, response));
}

absl::Status JobsService::Checkpoint(grpc::ServerContext* context,
                                     const CheckpointJobRequest& request,
                                     CheckpointJobResponse* response) {
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<Job> job, Find(request.job_id()));
  const JobStatus before = job->Status();
  const bool has_its_end = before.state() == SUCCEEDED && before.has_checkpoint() &&
                           before.checkpoint().step() == before.total_steps();
  if (has_its_end || (before.has_checkpoint() && !request.wait())) {
    *response->mutable_checkpoint() = before.checkpoint();
  }
  if (has_its_end) return absl::OkStatus();
  const auto outcome = std::make_shared<CheckpointOutcome>();
  CheckpointRequest asked{.cause = "a client asked for it", .done = nullptr};
  if (request.wait()) asked.done = [outcome](const auto& result) { outcome->Set(result); };
  MILLRACE_RETURN_IF_ERROR(table_->RequestCheckpoint(*job, std::move(asked)));
  while (request.wait()) {
    if (const auto result = outcome->AwaitFor(kPoll)) {
      MILLRACE_RETURN_IF_ERROR(result->status());
      *response->mutable_checkpoint() = **result;
      return absl::OkStatus();
    }
    MILLRACE_RETURN_IF_ERROR(CheckOpen());
    if (context->IsCancelled()) return absl::CancelledError("the client has gone");
  }
  return absl::OkStatus();
}

grpc::Status JobsService::GetVariables(grpc::ServerContext* /*context*/,
                                       const GetVariablesRequest* request,
                                       GetVariablesResponse* response) {
  const auto job = Find(request->job_id());
  if (!job.ok()) return ToGrpcStatus(job.status());
  const JobRecord record = (*job)->record();
  if (!record.has_started() || record.shards_dropped()) {
    return ToGrpcStatus(absl::FailedPreconditionError(absl::StrCat(
        "job '", record.job_id(), "' has no variables: ",
        record.has_started() ? "its shards were dropped when newer jobs ended; train it again"
                             : "it has not started")));
  }
  ShardGroup shards(record, registry_);
  if (const std::string missing = shards.Locate(); !missing.empty()) {
    return ToGrpcStatus(absl::UnavailableError(absl::StrCat(
        "variables of job '", record.job_id(), "' are on servers that are away: ", missing)));
  }
  if (const std::string made = ToBeMade(shards); !made.empty()) {
    return ToGrpcStatus(
        HasEnded(record.state())
            ? absl::FailedPreconditionError(
                  absl::StrCat("job '", record.job_id(), "' ended before ", made,
                               " was made again; train it again", OfferCheckpoint(record)))
            : absl::UnavailableError(absl::StrCat("variables of job '", record.job_id(),
                                                  "' are being made again: ", made)));
  }
  if (HasEnded(record.state())) {
    // A server that was away when the job ended still has the generation before.
    const auto fenced = shards.SetGeneration(record.generation());
    if (absl::IsDataLoss(fenced.status())) {
      return ToGrpcStatus(absl::DataLossError(absl::StrCat("variables of job '", record.job_id(),
                                                           "': ", fenced.status().message(),
                                                           OfferCheckpoint(record))));
    }
    if (!fenced.ok()) return ToGrpcStatus(fenced.status());
    if (const absl::Status whole = CheckEnd(record, shards, *fenced); !whole.ok()) {
      return ToGrpcStatus(whole);
    }
  }
  *response->mutable_variables() = record.plan().variables();
  *response->mutable_routing() = shards.RoutingAt(record.generation());
  return grpc::Status::OK;
}

grpc::Status JobsService::ListMembers(grpc::ServerContext* /*context*/,
                                      const ListMembersRequest* /*request*/,
                                      ListMembersResponse* response) {
  const absl::Status open = CheckOpen();
  if (!open.ok()) return ToGrpcStatus(open);
  *response = table_->Members();
  return grpc::Status::OK;
}

grpc::Status JobsService::EvacuatePs(grpc::ServerContext* /*context*/,
                                     const EvacuatePsRequest* request,
                                     EvacuatePsResponse* response) {
  const absl::Status open = CheckOpen();
  if (!open.ok()) return ToGrpcStatus(open);
  const auto evacuated = coordinator::EvacuatePs(*request, *registry_, evacuated_, table_);
  if (!evacuated.ok()) return ToGrpcStatus(evacuated.status());
  *response = *evacuated;
  return grpc::Status::OK;
}

grpc::Status JobsService::RebalanceJob(grpc::ServerContext* /*context*/,
                                       const RebalanceJobRequest* request,
                                       RebalanceJobResponse* response) {
  const auto job = Find(request->job_id());
  if (!job.ok()) return ToGrpcStatus(job.status());
  const auto moves = table_->Rebalance(**job);
  if (!moves.ok()) return ToGrpcStatus(moves.status());
  *response = *moves;
  return grpc::Status::OK;
}

}  // namespace millrace::coordinator
