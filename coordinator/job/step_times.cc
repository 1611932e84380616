#include "coordinator/job/step_times.h"

#include <utility>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace millrace::coordinator {
namespace {

// In seconds. No step of any sense takes longer.
constexpr double kLongestPart = 1e7;

// Sets each field of `result` to what `make` returns for its values in `a` and in `b`.
template <typename Make>
void ForEachPart(const StepTimes& a, const StepTimes& b, StepTimes* result, const Make& make) {
  const google::protobuf::Descriptor& fields = *StepTimes::descriptor();
  const google::protobuf::Reflection& reflection = *StepTimes::GetReflection();
  for (int i = 0; i < fields.field_count(); ++i) {
    const auto* const field = fields.field(i);
    const double value = make(reflection.GetDouble(a, field), reflection.GetDouble(b, field));
    reflection.SetDouble(result, field, value);
  }
}

}  // namespace

void StepTimeSum::Add(const StepTimes& step) {
  bool are_times = step.ByteSizeLong() > 0;
  StepTimes sum;
  ForEachPart(times, step, &sum, [&are_times](double so_far, double part) {
    are_times &= part >= 0 && part < kLongestPart;
    return so_far + part;
  });
  if (!are_times) return;
  times = sum;
  ++steps;
}

void StepTimeSum::Add(const StepTimeSum& other) {
  ForEachPart(times, other.times, &times, [](double a, double b) { return a + b; });
  steps += other.steps;
}

StepTimes StepTimeSum::Mean() const {
  StepTimes mean;
  ForEachPart(times, times, &mean,
              [this](double sum, double /*same*/) { return sum / static_cast<double>(steps); });
  return mean;
}

void StepTimeGatherer::Add(const StepTimes& step) {
  MutexLock lock(&mutex_);
  sum_.Add(step);
}

StepTimeSum StepTimeGatherer::Take() {
  MutexLock lock(&mutex_);
  return std::exchange(sum_, StepTimeSum());
}

}  // namespace millrace::coordinator
