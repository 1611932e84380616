#include "coordinator/job/training_stats.h"

#include <cmath>
#include <utility>

#include "common/metric_sum.h"
#include "coordinator/job/worker_metrics.h"

namespace millrace::coordinator {

namespace {

// Adds to a sum over so many examples, where that is still a number.
void AddTo(double* sum, double* examples, double more, uint64_t of_examples) {
  if (!std::isfinite(*sum + more)) return;
  *sum += more;
  *examples += static_cast<double>(of_examples);
}

}  // namespace

void TrainingStats::Add(const StepResult& result) {
  MutexLock lock(&mutex_);
  ++sums_.steps;
  sums_.examples += result.examples();
  AddTo(&sums_.loss, &sums_.loss_examples, result.loss_sum(), result.examples());
  AddMetricSums(result, &sums_.others);
  if (!result.has_accuracy_sum()) return;
  AddTo(&sums_.accuracy, &sums_.accuracy_examples, result.accuracy_sum(), result.examples());
}

absl::optional<Progress> TrainingStats::Take(absl::Time now) {
  Sums sums;
  {
    MutexLock lock(&mutex_);
    if (sums_.steps == 0) return absl::nullopt;
    sums = std::exchange(sums_, Sums{.since = now});
  }
  Progress progress;
  const double seconds = absl::ToDoubleSeconds(now - sums.since);
  if (seconds > 0) progress.set_examples_per_second(sums.examples / seconds);
  auto& metrics = *progress.mutable_metrics();
  if (sums.loss_examples > 0) metrics["loss"] = sums.loss / sums.loss_examples;
  for (const auto& [name, sum] : sums.others) metrics[name] = MetricValue(sum);
  if (sums.accuracy_examples > 0) metrics["accuracy"] = sums.accuracy / sums.accuracy_examples;
  return progress;
}

void TrainingStats::Restart(absl::Time now) {
  MutexLock lock(&mutex_);
  sums_ = Sums{.since = now};
}

}  // namespace millrace::coordinator
