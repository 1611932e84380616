#include "worker/training/work_queue.h"

#include <algorithm>

#include "common/proto_duration.h"

namespace millrace::worker {

void WorkQueue::Add(const Lease& lease, absl::Time now) {
  if (lease.begin() >= lease.end()) return;
  LeaseEntry& entry = leases_[lease.lease_id()];
  entry.generation = lease.generation();
  entry.next = entry.begun = lease.begin();
  entry.end = lease.end();
  entry.arrival = arrivals_++;
  entry.duration = lease.has_duration() ? FromProto(lease.duration()) : absl::InfiniteDuration();
  entry.deadline = now + entry.duration;
}

void WorkQueue::Add(const Evaluate& evaluate) {
  if (!Contains(evaluate)) evaluation_ = EvaluationEntry{evaluate, arrivals_++};
}

absl::btree_map<uint64_t, WorkQueue::LeaseEntry>::const_iterator WorkQueue::Lowest() const {
  auto lowest = leases_.end();
  for (auto lease = leases_.begin(); lease != leases_.end(); ++lease) {
    if (lease->second.begun == lease->second.end) continue;
    if (lowest == leases_.end() || lease->second.begun < lowest->second.begun) lowest = lease;
  }
  return lowest;
}

bool WorkQueue::EvaluationIsNext() const {
  if (!evaluation_) return false;
  const uint64_t arrival = evaluation_->arrival;
  return std::none_of(leases_.begin(), leases_.end(), [arrival](const auto& entry) {
    const LeaseEntry& lease = entry.second;
    return lease.begun < lease.end && lease.arrival < arrival;
  });
}

absl::optional<QueuedWork> WorkQueue::Next() const {
  if (EvaluationIsNext()) return QueuedWork(evaluation_->evaluate);
  const auto lowest = Lowest();
  if (lowest == leases_.end()) return absl::nullopt;
  return QueuedWork(StepWork{lowest->first, lowest->second.generation, lowest->second.begun});
}

void WorkQueue::Begin(const StepWork& work) {
  if (Contains(work)) leases_.at(work.lease_id).begun = work.step + 1;
}

void WorkQueue::BeginAgain(const StepWork& work) {
  if (Contains(work)) leases_.at(work.lease_id).begun = work.step;
}

void WorkQueue::BeginNoMore(uint64_t lease_id) {
  const auto found = leases_.find(lease_id);
  if (found != leases_.end()) found->second.begun = found->second.end;
}

std::vector<uint64_t> WorkQueue::Upcoming(size_t limit) const {
  std::vector<uint64_t> steps;
  for (const auto& [id, lease] : leases_) {
    for (uint64_t step = lease.begun; step < lease.end && step - lease.begun < limit; ++step)
      steps.push_back(step);
  }
  std::sort(steps.begin(), steps.end());
  if (steps.size() > limit) steps.resize(limit);
  return steps;
}

bool WorkQueue::Contains(const StepWork& work) const {
  const auto found = leases_.find(work.lease_id);
  return found != leases_.end() && found->second.generation == work.generation &&
         found->second.next <= work.step && work.step < found->second.end;
}

bool WorkQueue::Contains(const Evaluate& evaluate) const {
  return evaluation_ && evaluation_->evaluate.evaluation_id() == evaluate.evaluation_id() &&
         evaluation_->evaluate.generation() == evaluate.generation();
}

bool WorkQueue::Finish(const StepWork& work) {
  if (!Contains(work)) return false;
  LeaseEntry& lease = leases_.at(work.lease_id);
  if (lease.next != work.step) return false;
  lease.next = work.step + 1;
  lease.begun = std::max(lease.begun, lease.next);
  if (lease.next == lease.end) leases_.erase(work.lease_id);
  return true;
}

void WorkQueue::Finish(const Evaluate& evaluate) {
  if (evaluation_ && evaluation_->evaluate.evaluation_id() == evaluate.evaluation_id()) {
    evaluation_.reset();
  }
}

void WorkQueue::KeepOnly(uint64_t generation) {
  for (auto lease = leases_.begin(); lease != leases_.end();) {
    lease = lease->second.generation == generation ? std::next(lease) : leases_.erase(lease);
  }
  if (evaluation_ && evaluation_->evaluate.generation() != generation) evaluation_.reset();
}

void WorkQueue::Clear() {
  leases_.clear();
  evaluation_.reset();
}

std::vector<StepWork> WorkQueue::Leases() const {
  std::vector<StepWork> leases;
  for (const auto& [id, lease] : leases_) leases.push_back({id, lease.generation, lease.next});
  return leases;
}

std::vector<StepWork> WorkQueue::IdleLeases() const {
  std::vector<StepWork> leases;
  for (const auto& [id, lease] : leases_) {
    if (lease.begun == lease.next) leases.push_back({id, lease.generation, lease.next});
  }
  return leases;
}

void WorkQueue::Renew(absl::Time now) {
  for (auto& [id, lease] : leases_) lease.deadline = now + lease.duration;
}

std::vector<StepWork> WorkQueue::TakeExpired(absl::Time now) {
  std::vector<StepWork> expired;
  for (const StepWork& idle : IdleLeases()) {
    if (leases_.at(idle.lease_id).deadline > now) continue;
    leases_.erase(idle.lease_id);
    expired.push_back(idle);
  }
  return expired;
}

}  // namespace millrace::worker
