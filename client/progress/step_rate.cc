#include "client/progress/step_rate.h"

namespace millrace::client {
namespace {

constexpr absl::Duration kWindow = absl::Seconds(30);

}  // namespace

void StepRate::Add(absl::Time time, uint64_t step) {
  if (!samples_.empty() && step < samples_.back().second) samples_.clear();
  samples_.emplace_back(time, step);
  // The first sample in the window or the last before it: the mean covers the window.
  while (samples_.size() > 2 && samples_[1].first <= time - kWindow) samples_.pop_front();
}

absl::optional<absl::Duration> StepRate::TimeLeft(uint64_t total_steps) const {
  if (samples_.size() < 2) return absl::nullopt;
  const auto& [begin_time, begin_step] = samples_.front();
  const auto& [end_time, end_step] = samples_.back();
  if (end_step >= total_steps) return absl::ZeroDuration();
  if (end_step == begin_step || end_time <= begin_time) return absl::nullopt;
  const double windows =
      static_cast<double>(total_steps - end_step) / static_cast<double>(end_step - begin_step);
  return (end_time - begin_time) * windows;
}

}  // namespace millrace::client
