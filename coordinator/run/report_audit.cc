#include "coordinator/run/report_audit.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace millrace::coordinator {
namespace {

// Reports that wait for a check; where shards do not answer for long, the oldest are let go.
constexpr size_t kMostReports = 100'000;

}  // namespace

void ReportAudit::Begin(uint64_t generation) {
  MutexLock lock(&mutex_);
  generation_ = generation;
  reports_.clear();
  checkable_ = 0;
}

void ReportAudit::Add(uint64_t generation, uint64_t step, const std::string& worker) {
  MutexLock lock(&mutex_);
  if (generation != generation_) return;
  reports_.push_back({step, worker});
  if (reports_.size() <= kMostReports) return;
  reports_.pop_front();
  if (checkable_ > 0) --checkable_;
}

void ReportAudit::BeginCheck() {
  MutexLock lock(&mutex_);
  checkable_ = reports_.size();
}

std::vector<ReportAudit::Offence> ReportAudit::Check(const AppliedSet& truth) {
  std::map<std::string, Offence> found;
  MutexLock lock(&mutex_);
  for (; checkable_ > 0; --checkable_) {
    const Report report = std::move(reports_.front());
    reports_.pop_front();
    if (truth.Contains(report.step)) continue;
    Offence& offence = found[report.worker];
    offence.step = offence.steps == 0 ? report.step : std::min(offence.step, report.step);
    ++offence.steps;
  }
  std::vector<Offence> offences;
  for (auto& [worker, offence] : found) {
    offence.worker = worker;
    offence.excluded = Count(worker, "steps that shards have not got");
    offences.push_back(std::move(offence));
  }
  return offences;
}

bool ReportAudit::Count(const std::string& worker, const std::string& what) {
  Standing& standing = standings_[worker];
  standing.last = what;
  return ++standing.offences >= kForgiven;
}

bool ReportAudit::AddOffence(const std::string& worker, const std::string& what) {
  MutexLock lock(&mutex_);
  return Count(worker, what);
}

bool ReportAudit::IsExcluded(absl::string_view worker) const {
  MutexLock lock(&mutex_);
  const auto found = standings_.find(worker);
  return found != standings_.end() && found->second.offences >= kForgiven;
}

std::string ReportAudit::WhyExcluded(absl::string_view worker) const {
  MutexLock lock(&mutex_);
  const auto found = standings_.find(worker);
  return found == standings_.end() ? "" : absl::StrCat("it reported ", found->second.last);
}

}  // namespace millrace::coordinator
