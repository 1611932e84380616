#include "coordinator/dispatch/worker_pace.h"

#include <algorithm>
#include <cmath>

namespace millrace::coordinator {
namespace {

// How much of the mean a step changes.
constexpr double kNews = 0.1;
// One step that takes long is no slow worker: more than this, as a multiple of the mean, does not
// count.
constexpr double kMostNews = 3;
// In seconds. No step of any sense takes longer.
constexpr double kLongestStep = 1e7;

bool IsTime(double seconds) { return seconds >= 0 && seconds < kLongestStep; }

}  // namespace

absl::optional<absl::Duration> OwnTime(const StepTimes& times, bool synchronous) {
  const double pull = synchronous ? 0 : times.pull();
  const double all[] = {times.read(), pull, times.compute(), times.push()};
  double sum = 0;
  for (const double part : all) {
    if (!IsTime(part)) return absl::nullopt;
    sum += part;
  }
  if (sum <= 0) return absl::nullopt;
  return absl::Seconds(sum);
}

void WorkerPace::Add(absl::Duration step) {
  if (known()) {
    mean_ = (1 - kNews) * mean_ + kNews * std::min(step, kMostNews * mean_);
  } else {
    // Of the first ones the fastest counts.
    mean_ = steps_ == 0 ? step : std::min(step, mean_);
  }
  ++steps_;
  spent_ += step;
}

std::vector<double> SlownessOf(const std::vector<WorkerPace>& paces) {
  std::vector<absl::Duration> known;
  for (const WorkerPace& pace : paces) {
    if (pace.known()) known.push_back(pace.mean());
  }
  std::vector<double> slowness(paces.size(), 0);
  if (known.empty()) return slowness;
  const auto middle = known.begin() + (known.size() - 1) / 2;
  std::nth_element(known.begin(), middle, known.end());
  if (*middle <= absl::ZeroDuration()) return slowness;
  for (size_t i = 0; i < paces.size(); ++i) {
    if (paces[i].known()) slowness[i] = absl::FDivDuration(paces[i].mean(), *middle);
  }
  return slowness;
}

uint64_t StepsForSlowness(uint64_t steps, double slowness) {
  if (!(slowness > kSlow)) return std::max<uint64_t>(steps, 1);
  return std::max<uint64_t>(static_cast<uint64_t>(std::floor(steps / slowness)), 1);
}

}  // namespace millrace::coordinator
