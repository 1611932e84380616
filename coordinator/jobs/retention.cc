// A job loses its variables before its record: first the record says that they are going, then each
// server that is there is told, and remembered in the record. So nobody is sent to shards of which
// some are gone, and a job is forgotten only when no server holds anything of it.
//
// A server that has not got a shard may have it later: a call to make it that was given up goes on
// there, and a server that comes back opens its shards one by one. So that is believed only when it
// has been so for as long as such a call may take.
#include "coordinator/jobs/retention.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/retry.h"
#include "common/status_macros.h"
#include "coordinator/job/shard_placement.h"
#include "glog/logging.h"

namespace millrace::coordinator {
namespace {

constexpr size_t kEventsOfOldJobs = 100;
constexpr absl::Duration kSettling = absl::Minutes(5);
// So long clients may ask for a job that has ended, be it by a submission that is tried again.
constexpr absl::Duration kAskedFor = absl::Minutes(5);
constexpr absl::Duration kLookAgain = absl::Seconds(10);
// Strays of a job that are dropped at a time from one directory.
constexpr size_t kStraysAtOnce = 256;

int CountDropped(const std::vector<ShardPlacement>& shards) {
  return static_cast<int>(std::count_if(shards.begin(), shards.end(),
                                        [](const auto& shard) { return shard.dropped(); }));
}

// The job with nothing but those of its strays in a directory that it does not place there; the
// other shards up to them are marked as dropped.
JobRecord WithStrays(const JobRecord& job, const std::string& directory_id,
                     const std::set<uint32_t>& strays) {
  JobRecord record = job;
  record.clear_shards();
  for (const uint32_t stray : strays) {
    if (IsPlacedOn(job, directory_id, stray)) continue;
    while (record.shards_size() < static_cast<int>(stray)) record.add_shards()->set_dropped(true);
    record.add_shards()->set_directory_id(directory_id);
  }
  return record;
}

}  // namespace

Retention::Retention(Options options)
    : options_(std::move(options)), thread_([this] { SweepInLoop(); }) {}

Retention::~Retention() { Stop(); }

void Retention::Wake() {
  MutexLock lock(&mutex_);
  woken_ = true;
  changed_.SignalAll();
}

void Retention::DropStrays(const std::vector<StrayShard>& strays) {
  if (strays.empty()) return;
  MutexLock lock(&mutex_);
  for (const StrayShard& stray : strays) {
    strays_[{stray.job_id, stray.directory_id}].insert(stray.shard);
  }
  woken_ = true;
  changed_.SignalAll();
}

void Retention::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
    if (under_way_ != nullptr) under_way_->Cancel();
  }
  thread_.Join();
}

bool Retention::stopping() const {
  MutexLock lock(&mutex_);
  return stopping_;
}

void Retention::SweepInLoop() {
  for (;;) {
    {
      MutexLock lock(&mutex_);
      while (!woken_ && !stopping_) {
        if (options_.clock->WaitUntil(&changed_, &mutex_, look_again_)) break;
      }
      if (stopping_) return;
      woken_ = false;
    }
    look_again_ = absl::InfiniteFuture();
    SweepStrays();
    Sweep();
  }
}

void Retention::Sweep() {
  std::vector<std::shared_ptr<Job>> jobs = options_.ended_jobs();
  std::sort(jobs.begin(), jobs.end(), [](const auto& a, const auto& b) {
    return std::make_pair(a->ended_at(), a->number()) > std::make_pair(b->ended_at(), b->number());
  });
  const RetentionLimits& limits = options_.limits;
  const size_t freed_before = retired_.size() + unsettled_since_.size();
  // First, since new jobs may wait for the memory.
  for (size_t i = 0; i < std::min(jobs.size(), limits.shards) && !stopping(); ++i) {
    const absl::Status status = FreeMemory(*jobs[i]);
    // A server that is away is asked again when it is back.
    const bool later = absl::IsCancelled(status) || absl::IsUnavailable(status);
    LOG_IF(WARNING, !status.ok() && !later) << jobs[i]->id() << ": " << status;
  }
  if (retired_.size() + unsettled_since_.size() > freed_before && options_.on_freed) {
    options_.on_freed();
  }
  const size_t kept = KeptRecords(jobs);
  for (size_t i = jobs.size(); i-- > 0 && !stopping();) {
    Job& job = *jobs[i];
    absl::Status status;
    if (i >= limits.events) job.events().Trim(kEventsOfOldJobs);
    if (i >= limits.shards && job.HasShards()) status = DropShards(job);
    if (!job.HasShards()) {
      retired_.erase(job.number());
      unsettled_since_.erase(job.number());
    }
    if (i >= kept && !job.HasShards()) status = options_.forget(job);
    LOG_IF(WARNING, !status.ok() && !absl::IsCancelled(status)) << job.id() << ": " << status;
  }
}

size_t Retention::KeptRecords(const std::vector<std::shared_ptr<Job>>& jobs) {
  const absl::Time now = options_.clock->Now();
  uint64_t bytes = 0;
  size_t kept = 0;
  for (; kept < std::min(jobs.size(), options_.limits.records); ++kept) {
    bytes += jobs[kept]->record_bytes();
    if (bytes <= options_.limits.record_bytes) continue;
    const absl::Time asked_until = jobs[kept]->ended_at() + kAskedFor;
    if (now >= asked_until) break;
    look_again_ = std::min(look_again_, asked_until);
  }
  return kept;
}

// Some of each job in each directory; the rest comes after the next sweep. A server that does not
// answer is asked once.
void Retention::SweepStrays() {
  Strays strays;
  {
    MutexLock lock(&mutex_);
    strays.swap(strays_);
  }
  std::set<std::string> silent;
  bool more = false;
  for (auto& [home, shards] : strays) {
    if (stopping()) return;
    if (silent.contains(home.second)) continue;
    const absl::Status status = DropSome(home, shards);
    LOG_IF(WARNING, !status.ok() && !absl::IsCancelled(status)) << home.first << ": " << status;
    if (Classify(status.code()) == Failure::kPassing) {
      silent.insert(home.second);
    } else {
      more |= !shards.empty();
    }
  }
  if (!silent.empty()) look_again_ = options_.clock->Now() + kLookAgain;
  MutexLock lock(&mutex_);
  for (auto& [home, shards] : strays) {
    if (!shards.empty()) strays_[home].merge(shards);
  }
  woken_ |= more;
}

// Takes those out that need not be looked at again. The job may be placed there again meanwhile;
// but it makes its shard under a newer generation than a record that does not say so, and that one
// is not dropped. A server that is away says what it has when it is back.
absl::Status Retention::DropSome(const StrayHome& home, std::set<uint32_t>& strays) {
  const auto& [job_id, directory_id] = home;
  const auto end = std::next(strays.begin(), std::min(strays.size(), kStraysAtOnce));
  absl::Status status;
  if (const std::shared_ptr<Job> job = options_.find_job(job_id)) {
    status = DropPlacements(WithStrays(job->record(), directory_id, {strays.begin(), end}));
  }
  if (Classify(status.code()) != Failure::kPassing) strays.erase(strays.begin(), end);
  return status;
}

absl::Status Retention::DropPlacements(const JobRecord& record) {
  if (record.shards_size() == 0) return absl::OkStatus();
  ShardGroup shards(record, options_.registry);
  shards.Locate();
  if (!SetUnderWay(&shards)) return absl::OkStatus();
  const absl::Status status = shards.Drop(record.generation());
  SetUnderWay(nullptr);
  const auto last = static_cast<uint32_t>(record.shards_size() - 1);
  LOG_IF(INFO, status.ok() && shards.IsLocated(last))
      << record.job_id() << ": dropped what is not placed there, the last of it "
      << shards.NameOf(last);
  return status;
}

absl::Status Retention::FreeMemory(Job& job) {
  if (retired_.contains(job.number()) || !job.HasShards()) return absl::OkStatus();
  const JobRecord record = job.record();
  return record.has_started() ? RetireShards(record) : DropShards(job);
}

// Whether what is not there will not come any more. Otherwise it is looked at again.
bool Retention::HasSettled(uint64_t job) {
  const absl::Time now = options_.clock->Now();
  const absl::Time since = unsettled_since_.try_emplace(job, now).first->second;
  if (now - since >= kSettling) return true;
  look_again_ = std::min(look_again_, now + kLookAgain);
  return false;
}

absl::Status Retention::RetireShards(const JobRecord& record) {
  ShardGroup shards(record, options_.registry);
  const bool all_there = shards.Locate().empty();
  if (!SetUnderWay(&shards)) return absl::OkStatus();
  // For servers that were away at the end. Where it fails, retiring says so as well.
  shards.Fence(record.generation()).IgnoreError();
  // A server may still be reading what was to be made; and a call to make it may arrive yet.
  absl::Status status = shards.Unmake(record.generation(), /*all=*/false);
  const std::vector<absl::Status> answers = shards.Retire(record.generation());
  bool found = true;
  for (size_t shard = 0; shard < answers.size(); ++shard) {
    if (absl::IsNotFound(answers[shard]) || IsToBeMade(shards.placements()[shard])) {
      found = false;
    } else {
      status.Update(answers[shard]);
    }
  }
  SetUnderWay(nullptr);
  if (status.ok() && (found || HasSettled(record.number())) && all_there) {
    retired_.insert(record.number());
  }
  return status;
}

absl::Status Retention::DropShards(Job& job) {
  if (!job.record().shards_dropped()) {
    MILLRACE_RETURN_IF_ERROR(
        job.Update([](JobRecord& record) { record.set_shards_dropped(true); }));
  }
  ShardGroup shards(job.record(), options_.registry);
  const int dropped_before = CountDropped(shards.placements());
  shards.Locate();
  if (!SetUnderWay(&shards)) return absl::OkStatus();
  absl::Status status = shards.Drop(job.record().generation());
  SetUnderWay(nullptr);
  const JobRecord record = job.record();
  if (!record.has_started() && !HasSettled(record.number())) return status;
  const std::vector<ShardPlacement>& placements = shards.placements();
  if (CountDropped(placements) > dropped_before) {
    status.Update(job.Update([&](JobRecord& changed) {
      changed.mutable_shards()->Assign(placements.begin(), placements.end());
    }));
  }
  return status;
}

bool Retention::SetUnderWay(ShardGroup* shards) {
  MutexLock lock(&mutex_);
  under_way_ = stopping_ ? nullptr : shards;
  return !stopping_;
}

}  // namespace millrace::coordinator
