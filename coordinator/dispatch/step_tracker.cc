// Why no step is lost and none goes too early.
//
// Each step below next_ is done, or in freed_, or pending in an unexpired lease; each step from
// next_ on was never handed out, and is done only if it was when the generation began. Take moves
// steps from freed_ or from next_ into a lease, and next_ past those that are done; giving back and
// expiry move them to freed_; Done takes them out of wherever they are. A step may be pending in an
// expired lease as well, while another worker has it: shards ignore the second push, and Done
// counts the first report only.
//
// So a generation begins with the gaps of what is done still to come, and none of them is written
// down: a shard may have a step that is far above all others, since a worker can push any.
//
// For the same reason a step that is late may be handed out again while its lease lasts. Then it is
// pending in two unexpired leases, and in twice_. When the first of them ends without it, it only
// leaves twice_; when the second one does, it is free. So it is never free while somebody has it,
// and no third worker gets it.
//
// Both dispatch rules only ask how far the steps are done without a gap: with watermark w,
// asynchronous steps may go up to w + staleness_bound, synchronous ones to the end of the version
// that w is in. A barrier is a third limit. It stands until it is moved, rather than until it is
// reached: whoever set it does something at the barrier that no later step may precede. So there is
// one limit, and it is computed, not stored.
//
// A report says that every shard has the step, so it counts after its lease has ended too: a worker
// whose stream broke has lost its leases, and is another one when it reports what it did. For the
// same reason nobody can tell whose such a lease was; a worker that abuses that is found out, since
// shards are asked. Of a lease that there is, only its worker is heard. But a shard that lost its
// newest steps invalidates the reports made before, and such a report may still be under way when
// the new generation starts from what the shards say. So the upper half of a lease's id is its
// generation, and what is said of leases of another one is ignored; the worker does the same with
// leases, by their generation.
#include "coordinator/dispatch/step_tracker.h"

#include <algorithm>

#include "glog/logging.h"

namespace millrace::coordinator {
namespace {

constexpr uint64_t kMaxLeaseSteps = 32;
constexpr int kGenerationShift = 32;

}  // namespace

StepTracker::StepTracker(const StepRules& rules) : rules_(rules), barrier_(rules.total_steps) {}

void StepTracker::Reset(uint64_t generation, const AppliedSet& done) {
  CHECK_GT(generation, generation_);
  CHECK_LT(generation, uint64_t{1} << kGenerationShift);
  generation_ = generation;
  leases_made_ = 0;
  leases_.clear();
  leases_of_.clear();
  done_ = done;
  twice_.clear();
  next_ = done.watermark();
  freed_.clear();
}

void StepTracker::PassNext() {
  do {
    ++next_;
  } while (done_.Contains(next_));
}

uint64_t StepTracker::Limit() const {
  const uint64_t watermark = done_.watermark();
  const uint64_t limit = std::min(rules_.total_steps, barrier_);
  const uint64_t window = rules_.replicas > 0 ? (watermark / rules_.replicas + 1) * rules_.replicas
                                              : watermark + rules_.staleness_bound + 1;
  return std::min(limit, window);
}

bool StepTracker::CanTake() const { return generation_ > 0 && NextToTake() < Limit(); }

absl::optional<StepTracker::Lease> StepTracker::Take(uint64_t worker, uint64_t max_steps,
                                                     absl::Time now, absl::Time deadline) {
  CHECK_GE(max_steps, uint64_t{1});
  if (!CanTake()) return absl::nullopt;
  const uint64_t limit = Limit();
  const uint64_t begin = NextToTake();
  LeaseState lease;
  lease.worker = worker;
  lease.taken = now;
  lease.deadline = deadline;
  uint64_t end = begin;
  while (end < limit && end - begin < max_steps) {
    if (freed_.erase(end) == 0) {
      if (end != next_) break;
      PassNext();
    }
    lease.pending.insert(lease.pending.end(), end++);
  }
  return AddLease(std::move(lease), begin, end);
}

StepTracker::Lease StepTracker::AddLease(LeaseState lease, uint64_t begin, uint64_t end) {
  const uint64_t id = generation_ << kGenerationShift | ++leases_made_;
  ++leases_of_[lease.worker];
  leases_.emplace(id, std::move(lease));
  return {id, begin, end};
}

std::vector<StepTracker::Pending> StepTracker::OutOnce() const {
  std::vector<Pending> once;
  for (const auto& [id, lease] : leases_) {
    if (lease.expired) continue;
    for (uint64_t step : lease.pending) {
      if (done_.Contains(step) || twice_.contains(step)) continue;
      once.push_back({step, lease.worker, lease.taken, id});
      break;
    }
  }
  return once;
}

StepTracker::Lease StepTracker::TakeAgain(const Pending& once, uint64_t worker, uint64_t max_steps,
                                          absl::Time now, absl::Time deadline) {
  CHECK_GE(max_steps, uint64_t{1});
  const LeaseState& first = leases_.at(once.lease_id);
  LeaseState lease;
  lease.worker = worker;
  lease.taken = now;
  lease.deadline = deadline;
  uint64_t end = once.step;
  while (end - once.step < max_steps && first.pending.contains(end) && !done_.Contains(end) &&
         twice_.insert(end).second) {
    lease.pending.insert(lease.pending.end(), end++);
  }
  return AddLease(std::move(lease), once.step, end);
}

StepTracker::Claim StepTracker::ClaimOf(uint64_t worker, uint64_t lease_id) const {
  const uint64_t number = lease_id & ((uint64_t{1} << kGenerationShift) - 1);
  const bool made = lease_id >> kGenerationShift == generation_ && number <= leases_made_;
  if (!made || number == 0) return Claim::kNone;
  const auto lease = leases_.find(lease_id);
  if (lease == leases_.end()) return Claim::kEnded;
  return lease->second.worker == worker ? Claim::kOwn : Claim::kNone;
}

bool StepTracker::Done(uint64_t lease_id, uint64_t step, absl::Time deadline) {
  if (lease_id >> kGenerationShift != generation_ || step >= next_) return false;
  const auto lease = leases_.find(lease_id);
  if (lease != leases_.end() && !lease->second.pending.contains(step)) return false;
  freed_.erase(step);
  twice_.erase(step);
  const bool first = done_.Insert(step);
  if (lease == leases_.end()) return first;
  lease->second.pending.erase(step);
  lease->second.deadline = deadline;
  if (lease->second.pending.empty()) EndLease(lease);
  return first;
}

void StepTracker::FreePending(const LeaseState& lease) {
  if (lease.expired) return;  // That was done then.
  for (uint64_t step : lease.pending) {
    if (done_.Contains(step) || twice_.erase(step) > 0) continue;  // Another lease has it.
    freed_.insert(step);
  }
}

StepTracker::Leases::iterator StepTracker::EndLease(Leases::iterator lease) {
  const auto count = leases_of_.find(lease->second.worker);
  if (--count->second == 0) leases_of_.erase(count);
  return leases_.erase(lease);
}

bool StepTracker::IsDoneByOthers(uint64_t lease_id) const {
  const auto lease = leases_.find(lease_id);
  return lease != leases_.end() && !LowestOf(lease->second);
}

bool StepTracker::GiveBack(uint64_t lease_id) {
  const auto lease = leases_.find(lease_id);
  if (lease == leases_.end()) return false;
  FreePending(lease->second);
  EndLease(lease);
  return true;
}

void StepTracker::GiveBackAll(uint64_t worker) {
  for (auto lease = leases_.begin(); lease != leases_.end();) {
    if (lease->second.worker != worker) {
      ++lease;
      continue;
    }
    FreePending(lease->second);
    lease = EndLease(lease);
  }
}

// Steps of a lease may have been done by another worker.
absl::optional<uint64_t> StepTracker::LowestOf(const LeaseState& lease) const {
  for (uint64_t step : lease.pending) {
    if (!done_.Contains(step)) return step;
  }
  return absl::nullopt;
}

absl::Time StepTracker::Heard::OfWhatWasTaken(absl::Time taken) const {
  const absl::Time last = std::max(taken, here);
  return std::max(last, std::min(anywhere, last + patience));
}

void StepTracker::Renew(uint64_t worker, const Heard& heard, absl::Duration duration) {
  for (auto& [id, lease] : leases_) {
    if (lease.worker == worker) lease.deadline = heard.OfWhatWasTaken(lease.taken) + duration;
  }
}

std::vector<StepTracker::Pending> StepTracker::Expire(absl::Time now) {
  std::vector<Pending> expired;
  for (auto& [id, lease] : leases_) {
    if (lease.expired || lease.deadline > now) continue;
    FreePending(lease);
    lease.expired = true;
    if (const auto step = LowestOf(lease)) {
      expired.push_back({*step, lease.worker, lease.taken, id});
    }
  }
  return expired;
}

absl::optional<StepTracker::Pending> StepTracker::LowestPending() const {
  return LowestOut(/*expired=*/false);
}

absl::optional<StepTracker::Pending> StepTracker::LowestExpired() const {
  return LowestOut(/*expired=*/true);
}

absl::optional<StepTracker::Pending> StepTracker::LowestOut(bool expired) const {
  absl::optional<Pending> lowest;
  for (const auto& [id, lease] : leases_) {
    if (lease.expired != expired) continue;
    const auto step = LowestOf(lease);
    if (!step || (lowest && lowest->step <= *step)) continue;
    lowest = Pending{*step, lease.worker, lease.taken, id};
  }
  return lowest;
}

std::vector<std::pair<StepTracker::Pending, bool>> StepTracker::OutTo(uint64_t worker) const {
  std::vector<std::pair<Pending, bool>> out;
  for (const auto& [id, lease] : leases_) {
    if (lease.worker != worker) continue;
    if (const auto step = LowestOf(lease)) {
      out.emplace_back(Pending{*step, worker, lease.taken, id}, lease.expired);
    }
  }
  return out;
}

absl::optional<absl::Time> StepTracker::TakenAt(uint64_t worker, uint64_t lease_id,
                                                uint64_t step) const {
  if (ClaimOf(worker, lease_id) != Claim::kOwn) return absl::nullopt;
  const LeaseState& lease = leases_.at(lease_id);
  if (!lease.pending.contains(step)) return absl::nullopt;
  return lease.taken;
}

absl::Time StepTracker::NextExpiry() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [id, lease] : leases_) {
    if (!lease.expired) next = std::min(next, lease.deadline);
  }
  return next;
}

uint32_t StepTracker::LeasesOf(uint64_t worker) const {
  const auto count = leases_of_.find(worker);
  return count == leases_of_.end() ? 0 : count->second;
}

uint64_t StepTracker::LeaseSize(uint64_t slots) const {
  const uint64_t window =
      rules_.replicas > 0 ? rules_.replicas : uint64_t{rules_.staleness_bound} + 1;
  return std::clamp(window / (2 * std::max<uint64_t>(slots, 1)), uint64_t{1}, kMaxLeaseSteps);
}

}  // namespace millrace::coordinator
