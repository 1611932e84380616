#include "worker/parameters/retried_calls.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"

namespace millrace::worker {
namespace {

// A network that is slower than this is asked again and again, less and less often.
constexpr uint64_t kSlowestBytesPerSecond = 1 << 20;

// The limit of a part that was given up is doubled so often at most; and from the start, where
// answers are slow.
constexpr int kMaxDoublings = 6;
constexpr int kMaxPatience = 3;

// What people are told of times.
constexpr absl::Duration kShownTime = absl::Milliseconds(10);

// A network may lose messages and damage them, and another server may answer at the address for a
// moment; a server with which that goes on, for some seconds, is wrong.
constexpr int kMaxFaultyAttempts = 5;

// What is at most a message leaves nothing at the server that would not be used up at once.
constexpr uint64_t kLittleBytes = 256 << 10;

absl::Duration TimeOfBytes(uint64_t bytes) {
  return absl::Seconds(static_cast<double>(bytes) / kSlowestBytesPerSecond);
}

}  // namespace

RetriedCalls::RetriedCalls(std::shared_ptr<ClientCore> core, ClientCore::Call call,
                           std::string what)
    : core_(std::move(core)), call_(call), what_(std::move(what)) {}

void RetriedCalls::AddPart(size_t shard, uint64_t bytes) {
  parts_.emplace_back();
  parts_.back().shard = shard;
  parts_.back().bytes = bytes;
}

void RetriedCalls::CloseAll() {
  std::vector<std::shared_ptr<Attempt>> attempts;
  {
    MutexLock lock(&core_->monitor()->mutex);
    for (Part& part : parts_) {
      if (part.attempt != nullptr) attempts.push_back(std::move(part.attempt));
    }
  }
  for (const auto& attempt : attempts) attempt->Close(Attempt::Rest::kDropped);
}

void RetriedCalls::Cancel() {
  MutexLock lock(&core_->monitor()->mutex);
  cancelled_ = true;
  core_->monitor()->changed.SignalAll();
}

// Wait sees soon that an attempt has ended; until then it is a part that is done, or fails.
absl::optional<uint32_t> RetriedCalls::FirstUnanswered() const {
  MutexLock lock(&core_->monitor()->mutex);
  for (const Part& part : parts_) {
    if (part.done) continue;
    if (part.attempt != nullptr) {
      part.attempt->AssertLocked();
      if (part.attempt->ended()) continue;
    }
    return layout_of(part.shard).shard;
  }
  return absl::nullopt;
}

absl::Status RetriedCalls::Wait(absl::Time deadline) {
  Clock* const clock = core_->clock();
  while (true) {
    Findings findings;
    absl::Status status;
    bool finished;
    {
      MutexLock lock(&core_->monitor()->mutex);
      const absl::Time now = clock->Now();
      status = LookAtParts(now, &findings);
      finished = !status.ok() || findings.all_done;
      if (!finished && now >= deadline) {
        status = DeadlineExceeded();
        finished = true;
      }
      if (!finished && findings.to_close.empty() && findings.to_send.empty()) {
        clock->WaitUntil(&core_->monitor()->changed, &core_->monitor()->mutex,
                         std::min(deadline, findings.wake));
      }
    }
    for (const auto& [attempt, rest] : findings.to_close) attempt->Close(rest);
    if (finished) return status;
    for (const size_t part : findings.to_send) Send(part);
  }
}

absl::Status RetriedCalls::LookAtParts(absl::Time now, Findings* findings) {
  if (core_->monitor()->cancelled) return core_->CancelledStatus();
  if (cancelled_) return absl::CancelledError(absl::StrCat("the ", what_, " is no longer wanted"));
  for (size_t i = 0; i < parts_.size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(LookAtPart(i, now, findings));
  }
  if (findings->all_done && !learned_) LearnPatience();
  return absl::OkStatus();
}

absl::Status RetriedCalls::LookAtPart(size_t index, absl::Time now, Findings* findings) {
  Part& part = parts_[index];
  if (part.attempt != nullptr && !part.done) {
    MILLRACE_RETURN_IF_ERROR(LookAtAttempt(index, now, findings));
  }
  if (part.done) return absl::OkStatus();
  findings->all_done = false;
  if (part.attempt != nullptr) return absl::OkStatus();
  if (part.retry_at <= now) {
    findings->to_send.push_back(index);
  } else {
    findings->wake = std::min(findings->wake, part.retry_at);
  }
  return absl::OkStatus();
}

absl::Status RetriedCalls::LookAtAttempt(size_t index, absl::Time now, Findings* findings) {
  Part& part = parts_[index];
  Attempt& attempt = *part.attempt;
  attempt.AssertLocked();
  if (attempt.ended()) {
    findings->to_close.emplace_back(part.attempt, Attempt::Rest::kDropped);
    if (!attempt.status().ok()) {
      return Fail(index, attempt.status(), attempt.again(), attempt.fault(), now, findings);
    }
    part.done = true;
    part.answered = attempt.longest_silence();
    return absl::OkStatus();
  }
  if (part.patience < 0) part.patience = core_->patience(call_, part.shard);
  const absl::Duration limit = LimitOf(part);
  if (now >= attempt.progress() + limit) {
    GiveUp(index, limit, now, findings);
  } else {
    findings->wake = std::min(findings->wake, attempt.progress() + limit);
  }
  return absl::OkStatus();
}

absl::Duration RetriedCalls::LimitOf(const Part& part) const {
  const int doublings = std::min(part.patience + part.silences, kMaxDoublings);
  return core_->call_timeout() * (1 << doublings) + TimeOfBytes(part.bytes);
}

// What was asked for again once may have been about to be answered; a server that was asked more
// often was away.
int RetriedCalls::NeededPatience(const Part& part) const {
  absl::Duration silence = part.answered;
  if (part.silences == 1) silence += part.given_up;
  const absl::Duration needed = 2 * silence - TimeOfBytes(part.bytes);
  int doublings = 0;
  while (doublings < kMaxPatience && core_->call_timeout() * (1 << doublings) < needed) ++doublings;
  return doublings;
}

void RetriedCalls::LearnPatience() {
  learned_ = true;
  absl::flat_hash_map<size_t, int> needed;  // By shard.
  for (const Part& part : parts_) {
    int& most = needed[part.shard];
    most = std::max(most, NeededPatience(part));
  }
  for (const auto& [shard, doublings] : needed) {
    int& patience = core_->patience(call_, shard);
    patience = std::max(doublings, patience - 1);
  }
}

void RetriedCalls::GiveUp(size_t index, absl::Duration limit, absl::Time now, Findings* findings) {
  Part& part = parts_[index];
  // What is small is asked for again on whatever stream comes first; should that be of no use
  // either, the connection itself may be to blame.
  const bool harmless = part.bytes <= kLittleBytes && part.silences == 0;
  findings->to_close.emplace_back(part.attempt,
                                  harmless ? Attempt::Rest::kIgnored : Attempt::Rest::kSilent);
  ++part.silences;
  part.given_up = limit;
  part.last_failure = absl::DeadlineExceededError(absl::StrCat(
      "nothing came for ", absl::FormatDuration(absl::Trunc(limit, kShownTime)), "; asked again"));
  DoAgain(index, AfterSilence(index), now, findings);
}

absl::Status RetriedCalls::Fail(size_t index, const absl::Status& status, Attempt::Again again,
                                Attempt::Fault fault, absl::Time now, Findings* findings) {
  Part& part = parts_[index];
  const bool hopeless = fault == Attempt::Fault::kServer && ++part.faults >= kMaxFaultyAttempts;
  if (again == Attempt::Again::kNever || hopeless) {
    return absl::Status(status.code(), absl::StrCat(layout_of(part.shard).Describe(), ": ", what_,
                                                    ": ", status.message()));
  }
  part.last_failure = status;
  Backoff& backoff = fault == Attempt::Fault::kServer ? part.fault_backoff : part.backoff;
  DoAgain(index, again, again == Attempt::Again::kAtOnce ? now : now + backoff.Next(), findings);
  return absl::OkStatus();
}

void RetriedCalls::DoAgain(size_t index, Attempt::Again again, absl::Time at, Findings* findings) {
  Part& part = parts_[index];
  part.retry_at = at;
  part.attempt = nullptr;
  OnFailed(index, again);
  if (again == Attempt::Again::kWithItsShard) StartOver(part.shard, at, findings);
}

// Streams are shared: were those of the other parts broken, other shards would start over in turn.
void RetriedCalls::StartOver(size_t shard, absl::Time at, Findings* findings) {
  for (size_t i = 0; i < parts_.size(); ++i) {
    Part& part = parts_[i];
    if (part.shard != shard) continue;
    part.done = false;
    part.retry_at = std::max(part.retry_at, at);
    if (part.attempt == nullptr) continue;
    findings->to_close.emplace_back(std::move(part.attempt), Attempt::Rest::kIgnored);
    part.attempt = nullptr;
    OnFailed(i, Attempt::Again::kWithItsShard);
  }
}

absl::Status RetriedCalls::DeadlineExceeded() const {
  std::vector<std::string> waiting;
  for (const Part& part : parts_) {
    if (part.done) continue;
    std::string who = layout_of(part.shard).Describe();
    if (!part.last_failure.ok()) absl::StrAppend(&who, ": ", part.last_failure.message());
    if (waiting.empty() || waiting.back() != who) waiting.push_back(std::move(who));
  }
  return absl::DeadlineExceededError(
      absl::StrCat(what_, ": no answer in time from ", absl::StrJoin(waiting, "; ")));
}

}  // namespace millrace::worker
