// A model's outputs as users write them, and the defaults of their fields.
#ifndef MILLRACE_COMMON_OUTPUT_SPEC_H_
#define MILLRACE_COMMON_OUTPUT_SPEC_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "protos/model.pb.h"
#include "protos/output.pb.h"

namespace millrace {

// What workers may report of an evaluation, and of training batches: so many numbers, with names of
// so many bytes, and confusion matrices of so many counts in all.
inline constexpr size_t kMostReportedMetrics = 50;
inline constexpr size_t kMaxMetricNameBytes = 100;
inline constexpr uint64_t kMostConfusionCounts = 10'000;

// The outputs that a model has: those that it names, or the one that its loss and metrics are in
// short.
std::vector<OutputSpec> ModelOutputs(const ModelSpec& model);

// Where the fields of an output of ModelOutputs stand: "model.outputs[1]", in short "model".
std::string OutputPath(const ModelSpec& model, size_t output);

// Whether labels are classes, or probabilities of classes.
bool HasClasses(Loss loss);

// Whether the metric can be computed where the loss is that one.
bool MetricFits(Metric metric, Loss loss);

// With which losses it can be computed: "MEAN_SQUARED_ERROR or HUBER".
std::string LossesOf(Metric metric);

// What a metric is reported as, but for the name of its output: "accuracy", "top_5_accuracy".
std::string MetricName(const MetricSpec& metric);

double HuberDelta(const OutputSpec& output);
double OutputWeight(const OutputSpec& output);
uint32_t TopK(const MetricSpec& metric);

}  // namespace millrace

#endif  // MILLRACE_COMMON_OUTPUT_SPEC_H_
