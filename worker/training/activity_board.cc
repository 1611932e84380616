#include "worker/training/activity_board.h"

#include <utility>

#include "common/proto_duration.h"

namespace millrace::worker {

ActivityBoard::ActivityBoard(std::string job_id, Clock* clock)
    : job_id_(std::move(job_id)), clock_(clock) {}

void ActivityBoard::Begin(Activity::Kind kind, uint64_t step, uint64_t version,
                          const ParameterClient::StartedPull* pull) {
  Entry entry;
  entry.kind = kind;
  entry.step = step;
  entry.version = version;
  entry.since = clock_->Now();
  entry.pull = pull;
  MutexLock lock(&mutex_);
  main_ = entry;
}

void ActivityBoard::BeginNothing() {
  MutexLock lock(&mutex_);
  main_.reset();
}

void ActivityBoard::BeginPush(uint64_t step, const ParameterClient::Push* push) {
  Entry entry;
  entry.kind = Activity::PUSHING;
  entry.step = step;
  entry.since = clock_->Now();
  entry.push = push;
  MutexLock lock(&mutex_);
  push_ = entry;
}

void ActivityBoard::EndPush() {
  MutexLock lock(&mutex_);
  push_.reset();
}

std::vector<Activity> ActivityBoard::Read() const {
  MutexLock lock(&mutex_);
  std::vector<Activity> activities;
  if (push_) activities.push_back(Describe(*push_));
  if (main_) activities.push_back(Describe(*main_));
  return activities;
}

Activity ActivityBoard::Describe(const Entry& entry) const {
  Activity activity;
  activity.set_job_id(job_id_);
  activity.set_kind(entry.kind);
  activity.set_step(entry.step);
  activity.set_version(entry.version);
  absl::optional<uint32_t> shard;
  if (entry.pull != nullptr) shard = entry.pull->FirstUnanswered();
  if (entry.push != nullptr) shard = entry.push->FirstUnanswered();
  if (shard) activity.set_shard(*shard);
  *activity.mutable_since() = ToProto(clock_->Now() - entry.since);
  return activity;
}

}  // namespace millrace::worker
