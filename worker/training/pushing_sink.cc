#include "worker/training/pushing_sink.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/exact_square_sum.h"
#include "common/finite.h"

namespace millrace::worker {

PushingSink::PushingSink(ParameterClient::Push* push, std::shared_ptr<GradientSet> gradients,
                         const std::vector<VariableSpec>& variables, Clock* clock,
                         absl::optional<double> global_clip_norm)
    : push_(push),
      variables_(variables),
      gradients_(std::move(gradients)),
      clock_(clock),
      global_clip_norm_(global_clip_norm),
      begun_at_(clock->Now()),
      finished_(variables.size()),
      taken_(variables.size()) {}

absl::Span<float> PushingSink::Buffer(size_t variable) {
  if (!std::exchange(has_begun_, true)) begun_at_ = clock_->Now();
  return gradients_->variable(variable);
}

absl::Span<float> PushingSink::DeviceBuffer(size_t variable) {
  if (!gradients_->is_host_memory()) return {};
  return gradients_->variable(variable);
}

void PushingSink::FinishedFirst(size_t variable, size_t count) {
  if (finished_[variable] == 0 && !IsFrozen(variable)) Take(variable, count);
}

void PushingSink::Finished(size_t variable) {
  if (finished_[variable]++ > 0 || IsFrozen(variable)) return;  // Check tells of it.
  Take(variable, gradients_->variable(variable).size());
}

void PushingSink::Take(size_t variable, size_t count) {
  if (!not_finite_.ok()) return;  // Nobody will want the rest.
  const absl::Span<const float> gradient = gradients_->variable(variable);
  const size_t begin = std::exchange(taken_[variable], count);
  const size_t bad = begin + FirstNotFinite(gradient.subspan(begin, count - begin));
  if (bad < count) {
    not_finite_ = absl::OutOfRangeError(
        absl::StrCat("the loss is finite, but the ",
                     variables_[variable].update().has_moving_average() ? "statistic" : "gradient",
                     " of variable '", variables_[variable].name(), "' is ", gradient[bad],
                     " at element ", bad));
    return;
  }
  if (!global_clip_norm_.has_value()) push_->AddFirst(variable, count, gradient, gradients_);
}

// The sum is exact, so that it does not matter in which order the variables come.
float PushingSink::FactorOfKept() const {
  ExactSquareSum squares;
  for (size_t v = 0; v < variables_.size(); ++v) {
    if (!variables_[v].has_update()) squares.Add(gradients_->variable(v));
  }
  return ClipFactor(std::sqrt(squares.ToDouble()), *global_clip_norm_);
}

void PushingSink::PushKept() {
  if (!global_clip_norm_.has_value()) return;
  const float factor = FactorOfKept();
  for (size_t v = 0; v < variables_.size(); ++v) {
    if (IsFrozen(v)) continue;
    const absl::Span<float> gradient = gradients_->variable(v);
    if (factor != 1 && !variables_[v].has_update()) {
      for (float& each : gradient) each *= factor;
    }
    push_->Add(v, gradient, gradients_);
  }
}

absl::Status PushingSink::Check() const {
  if (!not_finite_.ok()) return not_finite_;
  for (size_t v = 0; v < finished_.size(); ++v) {
    const int expected = IsFrozen(v) ? 0 : 1;
    if (finished_[v] == expected) continue;
    return absl::InternalError(
        absl::StrCat("the model has finished the gradient of variable ", v, " ", finished_[v],
                     " times in one step; it must do so ",
                     expected == 1 ? "once" : "not at all, since the variable is frozen"));
  }
  return absl::OkStatus();
}

}  // namespace millrace::worker
