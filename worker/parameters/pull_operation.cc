#include "worker/parameters/pull_operation.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/proto_duration.h"
#include "common/status_macros.h"
#include "common/wire/tensor_codec.h"
#include "glog/logging.h"

namespace millrace::worker {
namespace {

// How long a server is asked to wait for a version. Short, so that it soon forgets those who have
// given up, and other requests on the stream get their turn.
constexpr absl::Duration kServerWait = absl::Seconds(2);

// A stream for each block, as far as there are streams.
uint32_t PartsOf(const ShardLayout& shard, int connections) {
  const uint64_t blocks = (shard.elements + kBlockElements - 1) / kBlockElements;
  return static_cast<uint32_t>(std::min<uint64_t>(blocks, connections));
}

}  // namespace

PullOperation::PullOperation(std::shared_ptr<ClientCore> core, ParameterClient::PullOptions options,
                             absl::Span<const absl::Span<float>> values)
    : core_(std::move(core)),
      options_(std::move(options)),
      received_(core_->layout().shards.size()),
      groups_(core_->layout().shards.size()) {
  const Layout& layout = core_->layout();
  CHECK_EQ(values.size(), layout.variables.size());
  for (size_t i = 0; i < layout.shards.size(); ++i) {
    std::vector<absl::Span<float>> destinations;
    for (const Slice& slice : layout.shards[i].slices) {
      const absl::Span<float> variable = values[slice.variable()];
      CHECK_LE(slice.offset() + slice.length(), variable.size())
          << "of variable " << slice.variable();
      destinations.push_back(variable.subspan(slice.offset(), slice.length()));
    }
    destinations_.push_back(std::move(destinations));
  }
  MakeParts();
  for (Part& part : parts_) Send(&part);
}

void PullOperation::MakeParts() {
  const Layout& layout = core_->layout();
  for (size_t i = 0; i < layout.shards.size(); ++i) {
    const uint32_t parts = PartsOf(layout.shards[i], core_->connections(i)->connections());
    for (uint32_t part = 0; part < parts; ++part) {
      parts_.emplace_back();
      parts_.back().shard = i;
      parts_.back().part = part;
      parts_.back().parts = parts;
    }
    const bool newest = !options_.version.has_value() && options_.cut_id.empty();
    if (newest && parts > 1) groups_[i] = core_->NextId();
  }
}

PullOperation::~PullOperation() {
  for (Part& part : parts_) {
    if (part.attempt != nullptr) part.attempt->Abandon();
  }
}

absl::Status PullOperation::Wait(absl::Time deadline) {
  Clock* const clock = core_->clock();
  while (true) {
    Work work;
    absl::Status status;
    bool finished;
    {
      MutexLock lock(&core_->monitor()->mutex);
      const absl::Time now = clock->Now();
      status = LookAtParts(now, &work);
      finished = !status.ok() || work.all_done;
      if (!finished && now >= deadline) {
        status = DeadlineExceeded();
        finished = true;
      }
      if (!finished && work.to_abandon.empty() && work.to_send.empty()) {
        clock->WaitUntil(&core_->monitor()->changed, &core_->monitor()->mutex,
                         std::min(deadline, work.wake));
      }
    }
    for (const auto& attempt : work.to_abandon) attempt->Abandon();
    if (finished) return status.ok() ? CheckComplete() : status;
    for (Part* part : work.to_send) Send(part);
  }
}

void PullOperation::Cancel() {
  MutexLock lock(&core_->monitor()->mutex);
  cancelled_ = true;
  core_->monitor()->changed.SignalAll();
}

absl::Status PullOperation::LookAtParts(absl::Time now, Work* work) {
  if (core_->monitor()->cancelled) return core_->CancelledStatus();
  if (cancelled_) return absl::CancelledError("the pull is no longer wanted");
  for (Part& part : parts_) {
    MILLRACE_RETURN_IF_ERROR(LookAtPart(now, &part, work));
  }
  return absl::OkStatus();
}

absl::Status PullOperation::LookAtAttempt(absl::Time now, Part* part, Work* work) {
  part->attempt->AssertLocked();
  if (!part->attempt->ended()) return absl::OkStatus();
  work->to_abandon.push_back(part->attempt);
  const absl::Status& status = part->attempt->status();
  if (status.ok()) {
    part->done = true;
    received_[part->shard] += part->attempt->elements();
    return absl::OkStatus();
  }
  if (absl::IsAborted(status) && groups_[part->shard] != 0) {
    part->last_failure = status;
    StartAgain(part->shard, now + part->backoff.Next(), work);
    return absl::OkStatus();
  }
  if (!part->attempt->retriable()) return Failure(*part, status);
  part->last_failure = status;
  part->retry_at = part->attempt->waited() ? now : now + part->backoff.Next();
  part->attempt = nullptr;
  return absl::OkStatus();
}

void PullOperation::StartAgain(size_t shard, absl::Time when, Work* work) {
  groups_[shard] = core_->NextId();
  received_[shard] = 0;
  for (Part& part : parts_) {
    if (part.shard != shard) continue;
    if (part.attempt != nullptr) work->to_abandon.push_back(std::exchange(part.attempt, nullptr));
    part.done = false;
    part.retry_at = when;
  }
  // Those that were looked at before are not done any more.
  work->all_done = false;
  work->wake = std::min(work->wake, when);
}

absl::Status PullOperation::LookAtPart(absl::Time now, Part* part, Work* work) {
  if (part->attempt != nullptr && !part->done) {
    MILLRACE_RETURN_IF_ERROR(LookAtAttempt(now, part, work));
  }
  if (part->done) return absl::OkStatus();
  work->all_done = false;
  if (part->attempt != nullptr) return absl::OkStatus();
  if (part->retry_at <= now) {
    work->to_send.push_back(part);
  } else {
    work->wake = std::min(work->wake, part->retry_at);
  }
  return absl::OkStatus();
}

void PullOperation::Send(Part* part) {
  PullRequest request;
  request.set_job_id(core_->job_id());
  request.set_shard(core_->layout().shards[part->shard].shard);
  request.set_generation(core_->layout().generation);
  request.set_pull_id(core_->NextId());
  if (options_.version.has_value()) {
    request.set_version(*options_.version);
    *request.mutable_timeout() = ToProto(kServerWait);
  }
  request.set_cut_id(options_.cut_id);
  request.set_part(part->part);
  request.set_parts(part->parts);
  request.set_pull_group(groups_[part->shard]);
  part->attempt = std::make_shared<PullAttempt>(std::move(request), &destinations_[part->shard],
                                                core_->monitor());
  part->attempt->Send(core_->connections(part->shard));
}

absl::Status PullOperation::Failure(const Part& part, const absl::Status& status) const {
  return absl::Status(
      status.code(), absl::StrCat("pull from ", core_->layout().shards[part.shard].Describe(), ": ",
                                  status.message()));
}

absl::Status PullOperation::DeadlineExceeded() const {
  std::vector<std::string> waiting;
  for (const Part& part : parts_) {
    if (part.done) continue;
    std::string who = core_->layout().shards[part.shard].Describe();
    if (!part.last_failure.ok()) absl::StrAppend(&who, ": ", part.last_failure.message());
    if (waiting.empty() || waiting.back() != who) waiting.push_back(std::move(who));
  }
  const std::string what =
      options_.version.has_value() ? absl::StrCat("pull of version ", *options_.version) : "pull";
  return absl::DeadlineExceededError(
      absl::StrCat(what, ": no answer in time from ", absl::StrJoin(waiting, "; ")));
}

absl::Status PullOperation::CheckComplete() const {
  for (size_t i = 0; i < received_.size(); ++i) {
    const ShardLayout& shard = core_->layout().shards[i];
    if (received_[i] == shard.elements) continue;
    return absl::InternalError(absl::StrCat("pull from ", shard.Describe(),
                                            ": the server has sent ", received_[i], " of ",
                                            shard.elements, " elements"));
  }
  return absl::OkStatus();
}

}  // namespace millrace::worker
