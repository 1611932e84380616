#include "worker/device/cpu/gradient_sums.h"

#include <algorithm>

#include "worker/model/penalty.h"

namespace millrace::worker {

GradientSums::GradientSums(const ModelPlan& plan, const Walk& walk,
                           const std::vector<CpuBuffer>& values)
    : regularizers_(plan.regularizers),
      values_(values),
      uses_(walk.variable_uses),
      parts_(uses_.size()),
      finished_(uses_.size()) {
  for (size_t i = 0; i < uses_.size(); ++i) {
    const auto& shape = plan.variables[i].shape();
    is_statistic_.push_back(plan.variables[i].update().has_moving_average());
    if (uses_[i] > 1) parts_[i] = CpuBuffer(ElementCount({shape.begin(), shape.end()}));
  }
}

void GradientSums::Begin(GradientSink* sink) {
  sink_ = sink;
  std::fill(finished_.begin(), finished_.end(), 0);
}

absl::Span<float> GradientSums::Buffer(size_t variable) {
  if (finished_[variable] == 0) return sink_->Buffer(variable);
  return absl::MakeSpan(parts_[variable].data(), sink_->Buffer(variable).size());
}

void GradientSums::FinishedFirst(size_t variable, size_t count) {
  if (uses_[variable] == 1 && !IsRegularized(regularizers_[variable]))
    sink_->FinishedFirst(variable, count);
}

void GradientSums::Finished(size_t variable) {
  if (finished_[variable] > 0) {
    const absl::Span<float> sum = sink_->Buffer(variable);
    const float* const part = parts_[variable].data();
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
  }
  if (++finished_[variable] < uses_[variable]) return;
  if (is_statistic_[variable] && uses_[variable] > 1) Divide(variable);
  AddRegularizer(variable);
  sink_->Finished(variable);
}

void GradientSums::Divide(size_t variable) {
  const float uses = static_cast<float>(uses_[variable]);
  for (float& sum : sink_->Buffer(variable)) sum /= uses;
}

void GradientSums::AddRegularizer(size_t variable) {
  if (!IsRegularized(regularizers_[variable])) return;
  const float l1 = static_cast<float>(regularizers_[variable].l1());
  const float l2 = static_cast<float>(2 * regularizers_[variable].l2());
  const absl::Span<float> gradient = sink_->Buffer(variable);
  const float* const values = values_[variable].data();
  for (size_t i = 0; i < gradient.size(); ++i) {
    const float w = values[i];
    const float sign = static_cast<float>(w > 0) - static_cast<float>(w < 0);
    gradient[i] += l1 * sign + l2 * w;
  }
}

double GradientSums::Penalty() const {
  double sum = 0;
  for (size_t i = 0; i < values_.size(); ++i) {
    sum += worker::Penalty(regularizers_[i], {values_[i].data(), values_[i].size()});
  }
  return sum;
}

size_t GradientSums::floats() const {
  size_t sum = 0;
  for (const CpuBuffer& part : parts_) sum += part.size();
  return sum;
}

}  // namespace millrace::worker
