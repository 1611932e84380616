#include "ps/cut/flusher.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
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
  const std::vector<uint64_t> stored =
      store->Versions(shard->plan().spec.job_id(), shard->plan().spec.shard());
  const auto has = [&stored](const ShardState& state) {
    return std::count(stored.begin(), stored.end(), state.version) > 0;
  };
  // The two cuts that were written last are kept: writing one must not push out the other.
  const auto stays = [&stored](const ShardState& state) {
    return !stored.empty() && stored.back() == state.version;
  };
  bool write_state = !has(*contents.state) || !contents.held.empty();
  if (contents.previous != nullptr) {
    const bool write_previous =
        !has(*contents.previous) || (write_state && !stays(*contents.previous));
    if (write_previous) {
      MILLRACE_RETURN_IF_ERROR(store->WriteCut(shard->plan(), *contents.previous, /*held=*/{}));
      write_state = write_state || !stays(*contents.state);
    }
  }
  if (write_state) {
    MILLRACE_RETURN_IF_ERROR(store->WriteCut(shard->plan(), *contents.state, contents.held));
  }
  shard->SetFlushedVersion(contents.state->version);
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

absl::Status Flusher::Call(std::string what, absl::Time deadline,
                           std::function<absl::Status()> call) {
  struct Result {
    Mutex mutex;
    CondVar changed;
    bool done ABSL_GUARDED_BY(mutex) = false;
    absl::Status status ABSL_GUARDED_BY(mutex);
  };
  const auto result = std::make_shared<Result>();
  const auto run = [call = std::move(call), result] {
    absl::Status status = call();
    MutexLock lock(&result->mutex);
    result->status = std::move(status);
    result->done = true;
    result->changed.SignalAll();
  };
  uint64_t number;
  {
    MutexLock lock(&mutex_);
    if (stopping_) return absl::UnavailableError("the ps server stops");
    number = ++last_job_;
    jobs_.push_back({number, what, run});
  }
  changed_.SignalAll();
  {
    MutexLock lock(&result->mutex);
    bool late = false;
    while (!result->done && !late) {
      late = clock_->WaitUntil(&result->changed, &result->mutex, deadline);
    }
    if (result->done) return result->status;
  }
  return absl::DeadlineExceededError(
      absl::StrCat(what, " took too long: the disk is busy with ", GiveUp(number), "; try again"));
}

void Flusher::Post(std::string what, std::function<absl::Status()> call) {
  auto run = [what, call = std::move(call)] {
    const absl::Status status = call();
    LOG_IF(ERROR, !status.ok()) << what << ": " << status;
  };
  {
    MutexLock lock(&mutex_);
    if (stopping_) return;
    jobs_.push_back({++last_job_, std::move(what), std::move(run)});
  }
  changed_.SignalAll();
}

std::string Flusher::GiveUp(uint64_t number) {
  Job forgotten;  // Destroyed without the lock.
  MutexLock lock(&mutex_);
  const auto it = std::find_if(jobs_.begin(), jobs_.end(),
                               [number](const Job& job) { return job.number == number; });
  if (it != jobs_.end()) {
    forgotten = std::move(*it);
    jobs_.erase(it);
  }
  return busy_.empty() ? "other work" : busy_;
}

absl::Time Flusher::NextDue() const {
  absl::Time due = absl::InfiniteFuture();
  for (const Watched& watched : watched_) due = std::min(due, watched.due);
  return due;
}

std::shared_ptr<Shard> Flusher::TakeDue() {
  while (!watched_.empty()) {
    const auto first =
        std::min_element(watched_.begin(), watched_.end(),
                         [](const Watched& a, const Watched& b) { return a.due < b.due; });
    const absl::Time now = clock_->Now();
    if (first->due > now) return nullptr;
    first->due = now + first->period;
    if (std::shared_ptr<Shard> shard = first->shard.lock()) return shard;
    watched_.erase(first);
  }
  return nullptr;
}

bool Flusher::TakeJob(Job* job) {
  MutexLock lock(&mutex_);
  busy_.clear();
  while (true) {
    if (!jobs_.empty()) {
      *job = std::move(jobs_.front());
      jobs_.pop_front();
      break;
    }
    if (stopping_) return false;
    if (const std::shared_ptr<Shard> due = TakeDue()) {
      *job = {0, absl::StrCat("writing a cut of ", due->name()),
              [this, due] { WriteCut(due.get()); }};
      break;
    }
    clock_->WaitUntil(&changed_, &mutex_, NextDue());
  }
  busy_ = job->what;
  return true;
}

void Flusher::WriteCut(Shard* shard) {
  const absl::Time begin = clock_->Now();
  const absl::Status status = FlushShard(store_, shard);
  const absl::Duration took = clock_->Now() - begin;
  const absl::Duration period = shard->plan().cut_period;
  LOG_IF(ERROR, !status.ok()) << shard->name() << " could not write a cut, and will try again in "
                              << period << ": " << status;
  LOG_IF(WARNING, status.ok() && took > period)
      << "writing a cut of " << shard->name() << " took " << took << ", and its period is "
      << period << ": after a crash more steps run again than wanted; use a longer cut_period, a "
      << "faster disk or more ps servers";
}

void Flusher::Loop() {
  Job job;
  while (TakeJob(&job)) {
    job.run();
    job = Job();  // What it holds may be a shard's memory.
  }
}

}  // namespace millrace::ps
