#include "ps/store/flusher.h"

#include <algorithm>
#include <utility>

#include "common/status_macros.h"
#include "glog/logging.h"

namespace millrace::ps {

absl::Status FlushShard(CutStore* store, Shard* shard) {
  const ShardContents contents = shard->Contents();
  if (contents.state->version == shard->Status().flushed_version()) return absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(store->WriteCut(shard->plan(), *contents.state, /*held=*/{}));
  shard->SetFlushedVersion(contents.state->version);
  return absl::OkStatus();
}

absl::Status FlushShardForStop(CutStore* store, Shard* shard) {
  const ShardContents contents = shard->Contents();
  if (contents.previous == nullptr && contents.held.empty()) return FlushShard(store, shard);
  const uint64_t version = contents.state->version;
  const std::string& job_id = shard->plan().spec.job_id();
  const std::vector<uint64_t> stored = store->Versions(job_id, shard->plan().spec.shard());
  const bool both_stored = contents.previous != nullptr && stored.size() == 2 &&
                           stored[0] == contents.previous->version && stored[1] == version;
  if (both_stored && contents.held.empty()) return absl::OkStatus();
  const bool previous_newest = contents.previous == nullptr ||
                               (!stored.empty() && stored.back() == contents.previous->version);
  if (!previous_newest) {
    MILLRACE_RETURN_IF_ERROR(store->WriteCut(shard->plan(), *contents.previous, /*held=*/{}));
  }
  MILLRACE_RETURN_IF_ERROR(store->WriteCut(shard->plan(), *contents.state, contents.held));
  shard->SetFlushedVersion(version);
  return absl::OkStatus();
}

Flusher::Flusher(CutStore* store, Clock* clock)
    : store_(store), clock_(clock), thread_([this] { Loop(); }) {}

Flusher::~Flusher() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.SignalAll();
  thread_.join();
}

void Flusher::Watch(const std::shared_ptr<Shard>& shard) {
  const absl::Duration period = shard->plan().cut_period;
  {
    MutexLock lock(&mutex_);
    watched_.push_back({shard, shard.get(), period, clock_->Now() + period});
  }
  changed_.SignalAll();
}

void Flusher::Forget(const Shard* shard) {
  MutexLock lock(&mutex_);
  watched_.erase(std::remove_if(watched_.begin(), watched_.end(),
                                [shard](const Watched& watched) { return watched.key == shard; }),
                 watched_.end());
}

absl::Status Flusher::Call(std::function<absl::Status()> call) {
  struct Result {
    Mutex mutex;
    CondVar changed;
    bool done ABSL_GUARDED_BY(mutex) = false;
    absl::Status status ABSL_GUARDED_BY(mutex);
  };
  const auto result = std::make_shared<Result>();
  {
    MutexLock lock(&mutex_);
    if (stopping_) return absl::UnavailableError("the server stops");
    calls_.push_back([call = std::move(call), result] {
      absl::Status status = call();
      MutexLock result_lock(&result->mutex);
      result->status = std::move(status);
      result->done = true;
      result->changed.SignalAll();
    });
  }
  changed_.SignalAll();
  MutexLock lock(&result->mutex);
  while (!result->done) result->changed.Wait(&result->mutex);
  return result->status;
}

absl::Time Flusher::NextDue() const {
  absl::Time due = absl::InfiniteFuture();
  for (const Watched& watched : watched_) due = std::min(due, watched.due);
  return due;
}

std::shared_ptr<Shard> Flusher::TakeDue() {
  const absl::Time now = clock_->Now();
  for (Watched& watched : watched_) {
    if (watched.due > now) continue;
    watched.due = now + watched.period;
    if (std::shared_ptr<Shard> shard = watched.shard.lock()) return shard;
  }
  return nullptr;
}

void Flusher::Loop() {
  while (true) {
    std::function<void()> call;
    std::shared_ptr<Shard> due;
    {
      MutexLock lock(&mutex_);
      if (!calls_.empty()) {
        call = std::move(calls_.front());
        calls_.pop_front();
      } else if (stopping_) {
        return;
      } else if ((due = TakeDue()) == nullptr) {
        clock_->WaitUntil(&changed_, &mutex_, NextDue());
        continue;
      }
    }
    if (call != nullptr) {
      call();
    } else if (const absl::Status status = FlushShard(store_, due.get()); !status.ok()) {
      LOG(ERROR) << due->name() << " could not write a cut, and will try again in "
                 << due->plan().cut_period << ": " << status;
    }
  }
}

}  // namespace millrace::ps
