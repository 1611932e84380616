#include "worker/training/pushing_sink.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/exact_square_sum.h"
#include "common/finite.h"
#include "common/wire/tensor_codec.h"
#include "worker/model/shape.h"

namespace millrace::worker {

PushingSink::PushingSink(ParameterClient::Push* push, std::shared_ptr<GradientSet> gradients,
                         const std::vector<VariableSpec>& variables, Clock* clock,
                         std::function<void()> goes_on, absl::optional<double> global_clip_norm,
                         Encoding::Kind wire)
    : push_(push),
      variables_(variables),
      gradients_(std::move(gradients)),
      clock_(clock),
      goes_on_(std::move(goes_on)),
      global_clip_norm_(global_clip_norm),
      wire_(wire),
      backward_began_at_(clock->Now()),
      finished_(variables.size()),
      taken_(variables.size()),
      own_(variables.size()) {}

void PushingSink::BackwardBegins() {
  if (std::exchange(has_begun_, true)) return;
  backward_began_at_ = clock_->Now();
  if (goes_on_) goes_on_();
}

// A variable of which rows were expected has no place, and may be given as a whole all the same.
absl::Span<float> PushingSink::Buffer(size_t variable) {
  BackwardBegins();
  OwnGradient& own = own_[variable];
  if (own.values == nullptr && !IsFrozen(variable) && gradients_->variable(variable).empty()) {
    const auto& shape = variables_[variable].shape();
    const uint64_t elements = ElementCount({shape.begin(), shape.end()});
    own.values = std::make_shared_for_overwrite<float[]>(elements);
    own.size = elements;
  }
  return Written(variable);
}

absl::optional<absl::Span<float>> PushingSink::RowBuffer(size_t variable,
                                                         std::shared_ptr<const VariableRows> rows) {
  BackwardBegins();
  const size_t size = rows->rows.size() * rows->width;
  own_[variable] = {std::move(rows), std::make_shared_for_overwrite<float[]>(size), size};
  return Written(variable);
}

absl::Span<float> PushingSink::Written(size_t variable) {
  const OwnGradient& own = own_[variable];
  return own.values == nullptr ? gradients_->variable(variable)
                               : absl::MakeSpan(own.values.get(), own.size);
}

absl::Span<float> PushingSink::DeviceBuffer(size_t variable) {
  if (!gradients_->is_host_memory()) return {};
  return gradients_->variable(variable);
}

void PushingSink::FinishedFirst(size_t variable, size_t count) {
  const bool by_rows = own_[variable].rows != nullptr;  // They leave when all of it is finished.
  if (finished_[variable] == 0 && !IsFrozen(variable) && !by_rows) Take(variable, count);
}

void PushingSink::Finished(size_t variable) { Finish(variable, /*known_finite=*/false); }

void PushingSink::FinishedFinite(size_t variable) { Finish(variable, /*known_finite=*/true); }

void PushingSink::Finish(size_t variable, bool known_finite) {
  if (finished_[variable]++ > 0 || IsFrozen(variable)) return;  // Check tells of it.
  const size_t count = Written(variable).size();
  if (count == 0 && own_[variable].values == nullptr) {
    bad_.Update(
        absl::InternalError(absl::StrCat("the model has finished the gradient of variable ",
                                         variable, ", and has not asked where to write it")));
  }
  const bool leaves_as_it_is =
      !global_clip_norm_.has_value() && EncodingOf(variable) == Encoding::FLOAT32;
  if (!known_finite || !leaves_as_it_is) {
    Take(variable, count);
  } else if (bad_.ok()) {
    Add(variable, count);
  }
  if (goes_on_) goes_on_();
}

void PushingSink::Take(size_t variable, size_t count) {
  if (!bad_.ok()) return;  // Nobody will want the rest.
  const size_t begin = std::exchange(taken_[variable], count);
  if (!global_clip_norm_.has_value()) return Send(variable, begin, count);
  const absl::Span<const float> gradient = Written(variable);
  const size_t bad = begin + FirstNotFinite(gradient.subspan(begin, count - begin));
  if (bad < count) NoteBad(variable, bad);
}

size_t PushingSink::RoundFinite(size_t variable, absl::Span<const float> fresh, char* to) const {
  const Encoding::Kind encoding = EncodingOf(variable);
  return encoding == Encoding::FLOAT32 ? FirstNotFinite(fresh) : NarrowFinite(fresh, encoding, to);
}

// In parts, each of which leaves while the next one is looked at and rounded; rows all at once.
void PushingSink::Send(size_t variable, size_t begin, size_t end) {
  const absl::Span<float> gradient = Written(variable);
  const bool by_rows = own_[variable].rows != nullptr;
  char* const bytes = reinterpret_cast<char*>(gradient.data());
  const size_t width = WidthOf(EncodingOf(variable));
  for (size_t next = begin; begin < end; begin = next) {
    next = std::min(end, begin + kBlockElements);
    const absl::Span<const float> fresh = gradient.subspan(begin, next - begin);
    const size_t bad = begin + RoundFinite(variable, fresh, bytes + begin * width);
    if (bad < next) return NoteBad(variable, bad);
    if (!by_rows) Add(variable, next);
  }
  if (by_rows) Add(variable, end);
}

void PushingSink::Add(size_t variable, size_t count) {
  const absl::Span<const float> gradient = Written(variable);
  const char* const bytes = reinterpret_cast<const char*>(gradient.data());
  const EncodedNumbers encoded(EncodingOf(variable), bytes, gradient.size());
  const OwnGradient& own = own_[variable];
  if (own.rows != nullptr) {
    push_->AddRows(variable, own.rows, encoded, own.values);
  } else if (own.values != nullptr) {
    push_->AddFirst(variable, count, encoded, own.values);
  } else {
    push_->AddFirst(variable, count, encoded, gradients_);
  }
}

void PushingSink::NoteBad(size_t variable, size_t index) {
  const float value = Written(variable)[index];
  if (const auto& rows = own_[variable].rows; rows != nullptr) {
    index = rows->rows[index / rows->width] * rows->width + index % rows->width;
  }
  const std::string of =
      absl::StrCat(variables_[variable].update().has_moving_average() ? "statistic" : "gradient",
                   " of variable '", variables_[variable].name(), "'");
  bad_ = absl::OutOfRangeError(std::isfinite(value)
                                   ? absl::StrCat("element ", index, " of the ", of, " is ",
                                                  DoesNotFit(value, EncodingOf(variable)))
                                   : absl::StrCat("the loss is finite, but the ", of, " is ", value,
                                                  " at element ", index, "; ", kLossAdvice));
}

Encoding::Kind PushingSink::EncodingOf(size_t variable) const {
  return variables_[variable].update().has_moving_average() ? Encoding::FLOAT32 : wire_;
}

// The sum is exact, so that it does not matter in which order the variables come.
float PushingSink::FactorOfKept() {
  ExactSquareSum squares;
  for (size_t v = 0; v < variables_.size(); ++v) {
    if (!variables_[v].has_update()) squares.Add(Written(v));
  }
  return ClipFactor(std::sqrt(squares.ToDouble()), *global_clip_norm_);
}

absl::Status PushingSink::PushKept() {
  if (!global_clip_norm_.has_value()) return absl::OkStatus();
  const float factor = FactorOfKept();
  for (size_t v = 0; v < variables_.size(); ++v) {
    if (IsFrozen(v)) continue;
    const absl::Span<float> gradient = Written(v);
    if (factor != 1 && !variables_[v].has_update()) {
      for (float& each : gradient) each *= factor;
    }
    Send(v, 0, gradient.size());
    if (!bad_.ok()) return bad_;
  }
  return absl::OkStatus();
}

absl::Status PushingSink::Check() const {
  if (!bad_.ok()) return bad_;
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
