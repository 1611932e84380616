#include "worker/model/batch_metrics.h"

#include <algorithm>
#include <cmath>

#include "glog/logging.h"

namespace millrace::worker {
namespace {

// A ratio in the making.
struct Ratio {
  double sum = 0;
  double count = 0;
};

const float* ExampleOf(const OutputBatch& batch, size_t example) {
  return batch.values.data() + example * batch.width();
}

int64_t FirstLargest(const float* numbers, size_t count) {
  return std::max_element(numbers, numbers + count) - numbers;
}

// Whether number `index` of a binary output's labels is positive.
bool IsPositive(const OutputPlan& output, const OutputBatch& batch, size_t index) {
  return output.label_is_id ? batch.label->ids[index] == 1 : batch.label->floats[index] > 0.5f;
}

// The class that the output gives.
int64_t GivenClass(const OutputPlan& output, const OutputBatch& batch, size_t example) {
  if (output.loss == BINARY_CROSSENTROPY) return batch.values[example] > 0 ? 1 : 0;
  return FirstLargest(ExampleOf(batch, example), batch.width());
}

// Binary: the share of an example's logits that are right.
double CountRight(const OutputPlan& output, const OutputBatch& batch) {
  uint64_t right = 0;
  if (output.loss == BINARY_CROSSENTROPY) {
    for (size_t i = 0; i < batch.values.size(); ++i) {
      right += (batch.values[i] > 0) == IsPositive(output, batch, i) ? 1 : 0;
    }
    return static_cast<double>(right) / static_cast<double>(batch.width());
  }
  for (size_t i = 0; i < batch.size; ++i) {
    right += GivenClass(output, batch, i) == ClassOf(output, batch, i) ? 1 : 0;
  }
  return static_cast<double>(right);
}

bool IsAmongTheLargest(absl::Span<const float> logits, int64_t label, uint32_t k) {
  uint32_t larger = 0;
  for (const float logit : logits) {
    if (!std::isfinite(logit)) return false;
    larger += logit > logits[label] ? 1 : 0;
  }
  return larger < k;
}

double CountTopK(const OutputPlan& output, const OutputBatch& batch, uint32_t k) {
  uint64_t right = 0;
  for (size_t i = 0; i < batch.size; ++i) {
    const absl::Span<const float> logits(ExampleOf(batch, i), batch.width());
    right += IsAmongTheLargest(logits, ClassOf(output, batch, i), k) ? 1 : 0;
  }
  return static_cast<double>(right);
}

// Right ones among those with a logit above 0 (precision), or among the positive ones (recall).
Ratio CountPositives(const OutputPlan& output, const OutputBatch& batch, bool by_logit) {
  Ratio ratio;
  for (size_t i = 0; i < batch.values.size(); ++i) {
    const bool positive = IsPositive(output, batch, i);
    const bool given = batch.values[i] > 0;
    if (!(by_logit ? given : positive)) continue;
    ++ratio.count;
    if (positive && given) ++ratio.sum;
  }
  return ratio;
}

// Over the examples: the means of what `error` makes of the differences.
template <typename Error>
double SumErrors(const OutputBatch& batch, const Error& error) {
  double sum = 0;
  for (size_t i = 0; i < batch.values.size(); ++i) {
    sum += error(static_cast<double>(batch.values[i]) - batch.label->floats[i]);
  }
  return sum / static_cast<double>(batch.width());
}

Ratio RatioOf(const OutputPlan& output, const MetricPlan& metric, const OutputBatch& batch) {
  const double examples = static_cast<double>(batch.size);
  switch (metric.metric) {
    case ACCURACY:
      return {CountRight(output, batch), examples};
    case TOP_K_ACCURACY:
      return {CountTopK(output, batch, metric.k), examples};
    case PRECISION:
      return CountPositives(output, batch, /*by_logit=*/true);
    case RECALL:
      return CountPositives(output, batch, /*by_logit=*/false);
    case MAE:
      return {SumErrors(batch, [](double error) { return std::abs(error); }), examples};
    case MSE:
    case RMSE:
      return {SumErrors(batch, [](double error) { return error * error; }), examples};
    default:
      LOG(FATAL) << "No sum over batches: " << Metric_Name(metric.metric);
      return {};
  }
}

// Not of training batches.
bool IsOfEvaluationsAlone(Metric metric) { return metric == AUC || metric == CONFUSION_MATRIX; }

void AddScores(const OutputPlan& output, const MetricPlan& metric, const OutputBatch& batch,
               EvaluationSums* sums) {
  const RocSums empty = metric.num_thresholds == 0 ? RocSums() : RocSums(metric.num_thresholds);
  RocSums& curve = sums->curves.try_emplace(metric.name, empty).first->second;
  for (size_t i = 0; i < batch.values.size(); ++i) {
    curve.Add(batch.values[i], IsPositive(output, batch, i));
  }
}

void AddConfusions(const OutputPlan& output, const OutputBatch& batch, EvaluationSums* sums) {
  const uint64_t classes = output.classes();
  ConfusionMatrix& matrix = sums->confusion_matrices[output.name];
  if (matrix.counts().empty()) {
    matrix.set_output(output.name);
    matrix.set_classes(static_cast<uint32_t>(classes));
    matrix.mutable_counts()->Resize(static_cast<int>(classes * classes), 0);
  }
  for (size_t i = 0; i < batch.size; ++i) {
    const uint64_t cell = static_cast<uint64_t>(ClassOf(output, batch, i)) * classes +
                          static_cast<uint64_t>(GivenClass(output, batch, i));
    ++*matrix.mutable_counts()->Mutable(static_cast<int>(cell));
  }
}

}  // namespace

int64_t ClassOf(const OutputPlan& output, const OutputBatch& batch, size_t example) {
  if (output.label_is_id) return batch.label->ids[example];
  if (output.loss == BINARY_CROSSENTROPY) return IsPositive(output, batch, example) ? 1 : 0;
  return FirstLargest(batch.label->floats.data() + example * output.width, output.width);
}

void AddMetrics(const OutputPlan& output, const OutputBatch& batch,
                absl::optional<double>* accuracy_sum, MetricSums* sums) {
  for (const MetricPlan& metric : output.metrics) {
    if (IsOfEvaluationsAlone(metric.metric)) continue;
    const Ratio ratio = RatioOf(output, metric, batch);
    if (metric.metric == ACCURACY && output.name.empty()) {
      *accuracy_sum = accuracy_sum->value_or(0) + ratio.sum;
      continue;
    }
    AddTo(metric.name, ratio.sum, ratio.count, /*root=*/metric.metric == RMSE, sums);
  }
}

void AddEvaluationMetrics(const OutputPlan& output, const OutputBatch& batch,
                          EvaluationSums* sums) {
  for (const MetricPlan& metric : output.metrics) {
    if (metric.metric == AUC) AddScores(output, metric, batch, sums);
    if (metric.metric == CONFUSION_MATRIX) AddConfusions(output, batch, sums);
  }
}

}  // namespace millrace::worker
