#include "coordinator/jobs/submissions.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/clock.h"
#include "common/job_spec.h"
#include "common/proto_fields.h"
#include "common/proto_time.h"
#include "common/status_macros.h"
#include "coordinator/checkpoint/checkpoint_files.h"
#include "coordinator/job/job.h"
#include "coordinator/job/plan_check.h"
#include "coordinator/run/job_beginning.h"
#include "glog/logging.h"
#include "google/protobuf/util/message_differencer.h"

namespace millrace::coordinator {
namespace {

using ::google::protobuf::util::MessageDifferencer;

constexpr size_t kMaxRequestIdLength = 200;

absl::Status CheckRequestId(const std::string& request_id) {
  if (request_id.size() <= kMaxRequestIdLength) return absl::OkStatus();
  return FieldError("request_id", absl::StrCat(request_id.size(), " bytes"),
                    absl::StrCat("at most ", kMaxRequestIdLength));
}

}  // namespace

absl::StatusOr<std::string> Submissions::Submit(const SubmitJobRequest& request,
                                                const std::function<bool()>& cancelled) {
  MILLRACE_RETURN_IF_ERROR(CheckRequestId(request.request_id()));
  MILLRACE_RETURN_IF_ERROR(CheckJobSpec(request.spec()));
  if (request.request_id().empty()) return Take(request, cancelled);
  MILLRACE_ASSIGN_OR_RETURN(std::string job_id, Claim(request));
  if (!job_id.empty()) return job_id;
  const absl::Cleanup release = [&] { Release(request.request_id()); };
  return Take(request, cancelled);
}

absl::StatusOr<std::string> Submissions::Claim(const SubmitJobRequest& request) {
  const std::string& request_id = request.request_id();
  const absl::Time deadline = Clock::Real()->Now() + environment_.plan_timeout;
  MutexLock lock(&mutex_);
  while (claimed_.contains(request_id)) {
    if (Clock::Real()->WaitUntil(&released_, &mutex_, deadline)) {
      return absl::DeadlineExceededError("an earlier request with this request_id is under way");
    }
  }
  if (const std::shared_ptr<Job> known = table_->FindRequest(request_id)) {
    if (MessageDifferencer::Equals(known->spec(), request.spec())) return known->id();
    return absl::AlreadyExistsError(
        absl::StrCat("request_id: '", absl::CHexEscape(request_id), "' was given with job '",
                     known->id(), "', of another spec; make up a new one for each submission"));
  }
  claimed_.insert(request_id);
  return "";
}

void Submissions::Release(const std::string& request_id) {
  MutexLock lock(&mutex_);
  claimed_.erase(request_id);
  released_.SignalAll();
}

absl::StatusOr<std::string> Submissions::Take(const SubmitJobRequest& request,
                                              const std::function<bool()>& cancelled) {
  const uint64_t bytes = request.spec().ByteSizeLong();
  MILLRACE_RETURN_IF_ERROR(table_->Reserve(bytes));
  absl::StatusOr<std::string> job_id = TakeReserved(request, cancelled);
  table_->Release(bytes);
  return job_id;
}

absl::StatusOr<std::string> Submissions::TakeReserved(const SubmitJobRequest& request,
                                                      const std::function<bool()>& cancelled) {
  // While the disk is full clients ask again and again: no worker plans for them in vain.
  MILLRACE_RETURN_IF_ERROR(journal_->CheckWritable());
  JobRecord record;
  record.set_request_id(request.request_id());
  *record.mutable_spec() = request.spec();
  record.set_state(PENDING);
  *record.mutable_submitted() = ToTimestamp(environment_.clock->Now());
  const std::string directory = NormalDirectory(record.spec().checkpoints().directory());
  MILLRACE_RETURN_IF_ERROR(ClaimDirectory(directory));
  const absl::Cleanup release = [&] { ReleaseDirectory(directory); };
  MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<CheckpointHold> hold,
                            HoldDirectory(record.spec(), cancelled));
  const absl::Cleanup let_go = [&] {
    if (hold != nullptr) ReleaseHolds({hold});
  };
  MILLRACE_ASSIGN_OR_RETURN(std::vector<std::string> notices,
                            ResolveRestore(environment_, cancelled, record));
  MILLRACE_RETURN_IF_ERROR(PlanInto(record, cancelled, notices));
  MILLRACE_ASSIGN_OR_RETURN(const std::string warm_start,
                            ResolveWarmStart(environment_, cancelled, record));
  if (!warm_start.empty()) notices.push_back(warm_start);
  if (cancelled()) return absl::CancelledError("the client has gone; nothing was taken");
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t number, table_->NextNumber());
  record.set_number(number);
  record.set_job_id(MakeJobId(record.spec().name(), record.number()));
  MILLRACE_RETURN_IF_ERROR(journal_->Write(record));
  const std::string job_id = record.job_id();
  LOG(INFO) << job_id << ": taken";
  auto job =
      std::make_shared<Job>(std::move(record), /*last_event=*/0, journal_, environment_.clock);
  job->AnnounceState();
  for (const std::string& notice : notices) job->AppendNotice(notice);
  // With its runner or its place in the queue, so that whoever finds it can cancel it.
  MILLRACE_RETURN_IF_ERROR(table_->Add(job, hold));
  job->AnnounceTurn();
  return job_id;
}

// A directory belongs to one run: here none takes that of another one that has not ended. Jobs of
// other coordinators are held off by the directory's lock (CheckpointHold), and told apart by what
// is in it (CheckpointFiles). What has the lock here and is neither a job nor a submission is a
// call that nobody waits for any more, since the disk does not answer it.
absl::Status Submissions::ClaimDirectory(const std::string& directory) {
  if (directory.empty()) return absl::OkStatus();
  const auto refuse = [&](const std::string& whose) {
    return absl::FailedPreconditionError(
        absl::StrCat("checkpoints.directory: '", directory, "' is that of ", whose,
                     ", which has not ended; name another directory, or cancel that job"));
  };
  MutexLock lock(&mutex_);
  if (const std::shared_ptr<Job> job = table_->FindUnended(directory)) {
    return refuse(absl::StrCat("job '", job->id(), "'"));
  }
  if (claimed_directories_.contains(directory)) return refuse("a job that is being submitted");
  if (table_->held_directories().HasHold(directory)) {
    return absl::UnavailableError(
        absl::StrCat("checkpoints.directory: '", directory,
                     "' does not answer; an earlier submission, or a job that has ended, still "
                     "holds it until it does"));
  }
  claimed_directories_.insert(directory);
  return absl::OkStatus();
}

void Submissions::ReleaseDirectory(const std::string& directory) {
  MutexLock lock(&mutex_);
  claimed_directories_.erase(directory);
}

// It may be a network's that does not answer.
absl::StatusOr<std::shared_ptr<CheckpointHold>> Submissions::HoldDirectory(
    const JobSpec& spec, const std::function<bool()>& cancelled) {
  const std::string& directory = spec.checkpoints().directory();
  if (directory.empty()) return nullptr;
  using Held = std::shared_ptr<CheckpointHold>;
  Held hold = table_->held_directories().MakeHold(directory);
  return environment_.file_caller->Call<Held>(
      absl::StrCat("checkpoints.directory: ", directory),
      [spec, files = environment_.file_system,
       hold = std::move(hold)]() mutable -> absl::StatusOr<Held> {
        // Only the call's: where it is refused it is released before that is told.
        Held held = std::move(hold);
        MILLRACE_RETURN_IF_ERROR(CheckNewOwner(files, spec, held.get()));
        return held;
      },
      cancelled);
}

// Where no worker is there, the job's runner asks for the plan later.
absl::Status Submissions::PlanInto(JobRecord& record, const std::function<bool()>& cancelled,
                                   std::vector<std::string>& notices) {
  std::vector<std::string> lost;
  const auto plan =
      environment_.planner->Plan(record.spec(), environment_.plan_timeout, cancelled, &lost);
  if (absl::IsUnavailable(plan.status())) return absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(plan.status());
  const std::string remark = RemarkOnPlan(record.spec(), *plan);
  if (!remark.empty()) notices.push_back(remark);
  return SetPlan(*plan, record);
}

}  // namespace millrace::coordinator
