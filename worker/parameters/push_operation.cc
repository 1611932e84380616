#include "worker/parameters/push_operation.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "glog/logging.h"

namespace millrace::worker {
namespace {

// A shard of up to this many elements (256 KiB) is pushed in one message, when all of it is there.
constexpr uint64_t kOneMessageElements = kBlockElements / 4;

// Otherwise this many (64 KiB) are worth a message of their own.
constexpr size_t kMinMessageElements = kBlockElements / 16;

}  // namespace

PushOperation::PushOperation(std::shared_ptr<ClientCore> core, uint64_t step, uint32_t examples)
    : core_(std::move(core)),
      step_(step),
      examples_(examples),
      shards_(core_->layout().shards.size()) {
  for (size_t i = 0; i < shards_.size(); ++i)
    shards_[i].unadded = core_->layout().shards[i].elements;
}

PushOperation::~PushOperation() {
  std::vector<Shard> shards;
  {
    MutexLock lock(&core_->monitor()->mutex);
    shards.swap(shards_);
  }
  for (const Shard& shard : shards) {
    if (shard.attempt != nullptr) shard.attempt->Close();
  }
}

void PushOperation::Add(size_t variable, absl::Span<const float> gradient,
                        std::shared_ptr<const void> owner) {
  const Layout& layout = core_->layout();
  CHECK_LT(variable, layout.variables.size());
  for (const SliceLocation& location : layout.variables[variable]) {
    const Slice& slice = layout.shards[location.shard].slices[location.slice];
    CHECK_LE(slice.offset() + slice.length(), gradient.size()) << "of variable " << variable;
    {
      MutexLock lock(&core_->monitor()->mutex);
      Shard& shard = shards_[location.shard];
      CHECK_LE(slice.length(), shard.unadded) << "variable " << variable << " was added twice";
      for (uint64_t offset = 0; offset < slice.length(); offset += kBlockElements) {
        const size_t count = std::min<uint64_t>(kBlockElements, slice.length() - offset);
        shard.pieces.push_back({static_cast<uint32_t>(location.slice), offset,
                                gradient.subspan(slice.offset() + offset, count), owner});
      }
      shard.unadded -= slice.length();
      shard.unsent_elements += slice.length();
    }
    Flush(location.shard);
  }
}

void PushOperation::Commit() {
  for (size_t i = 0; i < core_->layout().shards.size(); ++i) {
    {
      MutexLock lock(&core_->monitor()->mutex);
      CHECK_EQ(shards_[i].unadded, 0u) << "a variable was not added to the push of step " << step_;
      shards_[i].committed = true;
    }
    Flush(i);
  }
}

size_t PushOperation::Sendable(const Shard& shard) {
  const bool complete = shard.unadded == 0;
  return shard.pieces.size() - (complete && !shard.committed ? 1 : 0);
}

bool PushOperation::FlushIsDue(const ShardLayout& layout, const Shard& shard) const {
  if (shard.sent >= Sendable(shard)) return false;
  if (shard.committed) return true;
  return layout.elements > kOneMessageElements && shard.unsent_elements >= kMinMessageElements;
}

void PushOperation::Flush(size_t index) {
  std::vector<OutgoingPiece> pieces;
  std::shared_ptr<PushAttempt> attempt;
  {
    MutexLock lock(&core_->monitor()->mutex);
    Shard& shard = shards_[index];
    if (core_->monitor()->cancelled || !FlushIsDue(core_->layout().shards[index], shard)) return;
    if (shard.attempt == nullptr) {
      shard.attempt = std::make_shared<PushAttempt>(MakeHeader(index), core_->connections(index),
                                                    core_->monitor());
    }
    shard.attempt->AssertLocked();
    if (shard.attempt->ended()) return;  // Broken: Wait sends all of it again.
    const size_t end = Sendable(shard);
    pieces.assign(shard.pieces.begin() + shard.sent, shard.pieces.begin() + end);
    for (const OutgoingPiece& piece : pieces) shard.unsent_elements -= piece.values.size();
    shard.sent = end;
    attempt = shard.attempt;
  }
  attempt->Send(pieces);
}

PushRequest PushOperation::MakeHeader(size_t shard) {
  PushRequest header;
  header.set_job_id(core_->job_id());
  header.set_shard(core_->layout().shards[shard].shard);
  header.set_generation(core_->layout().generation);
  header.set_step(step_);
  header.set_push_id(core_->NextId());
  header.set_examples(examples_);
  return header;
}

absl::Status PushOperation::LookAtAttempt(size_t index, absl::Time now, Work* work) {
  Shard& shard = shards_[index];
  shard.attempt->AssertLocked();
  if (!shard.attempt->ended()) return absl::OkStatus();
  work->to_close.push_back(shard.attempt);
  const absl::Status& status = shard.attempt->status();
  if (status.ok()) {
    shard.done = true;
    return absl::OkStatus();
  }
  if (!shard.attempt->retriable()) {
    return absl::Status(status.code(), absl::StrCat("push of step ", step_, " to ",
                                                    core_->layout().shards[index].Describe(), ": ",
                                                    status.message()));
  }
  shard.last_failure = status;
  shard.attempt = nullptr;
  shard.sent = 0;
  shard.unsent_elements = core_->layout().shards[index].elements;
  shard.retry_at = now + shard.backoff.Next();
  return absl::OkStatus();
}

absl::Status PushOperation::LookAtShard(size_t index, absl::Time now, Work* work) {
  Shard& shard = shards_[index];
  if (shard.attempt != nullptr && !shard.done) {
    MILLRACE_RETURN_IF_ERROR(LookAtAttempt(index, now, work));
  }
  if (shard.done) return absl::OkStatus();
  work->all_done = false;
  if (shard.attempt != nullptr) return absl::OkStatus();
  if (shard.retry_at <= now) {
    work->to_send.push_back(index);
  } else {
    work->wake = std::min(work->wake, shard.retry_at);
  }
  return absl::OkStatus();
}

absl::Status PushOperation::LookAtShards(absl::Time now, Work* work) {
  if (core_->monitor()->cancelled) return core_->CancelledStatus();
  for (size_t i = 0; i < shards_.size(); ++i) {
    CHECK(shards_[i].committed) << "the push of step " << step_ << " was not committed";
    MILLRACE_RETURN_IF_ERROR(LookAtShard(i, now, work));
  }
  return absl::OkStatus();
}

absl::Status PushOperation::Wait(absl::Time deadline) {
  Clock* const clock = core_->clock();
  while (true) {
    Work work;
    absl::Status status;
    bool finished;
    {
      MutexLock lock(&core_->monitor()->mutex);
      const absl::Time now = clock->Now();
      status = LookAtShards(now, &work);
      finished = !status.ok() || work.all_done;
      if (!finished && now >= deadline) {
        status = DeadlineExceeded();
        finished = true;
      }
      if (!finished && work.to_close.empty() && work.to_send.empty()) {
        clock->WaitUntil(&core_->monitor()->changed, &core_->monitor()->mutex,
                         std::min(deadline, work.wake));
      }
    }
    for (const auto& attempt : work.to_close) attempt->Close();
    if (finished) return status;
    for (size_t shard : work.to_send) Flush(shard);
  }
}

absl::Status PushOperation::DeadlineExceeded() const {
  std::vector<std::string> waiting;
  for (size_t i = 0; i < shards_.size(); ++i) {
    if (shards_[i].done) continue;
    waiting.push_back(core_->layout().shards[i].Describe());
    if (!shards_[i].last_failure.ok()) {
      absl::StrAppend(&waiting.back(), ": ", shards_[i].last_failure.message());
    }
  }
  return absl::DeadlineExceededError(absl::StrCat(
      "push of step ", step_, ": no answer in time from ", absl::StrJoin(waiting, "; ")));
}

}  // namespace millrace::worker
