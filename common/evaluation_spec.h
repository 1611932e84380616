// What evaluations of a job report, and what users ask of them: the defaults of their fields.
#ifndef MILLRACE_COMMON_EVALUATION_SPEC_H_
#define MILLRACE_COMMON_EVALUATION_SPEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "protos/job.pb.h"
#include "protos/model.pb.h"

namespace millrace {

// "eval_loss", "eval_accuracy": the numbers that evaluations of a model of layers report, in the
// order of its outputs. Of a custom model nobody knows; it gives none. REQUIRES: each layer has a
// name or a kind.
std::vector<std::string> EvaluationMetrics(const ModelSpec& model);

// Whether a metric is to be large. Nothing: neither the goal nor the name says.
absl::optional<bool> LargerIsBetter(const std::string& metric, MetricGoal goal);

// The metric that decides; "eval_loss" unless one is named.
std::string MetricOf(const EarlyStopping& spec);
std::string MetricOf(const KeepBest& spec);

// "stopped early at step 400 of 1000: eval_loss has not been below 0.31 since step 100".
std::string DescribeStop(const StoppedEarly& stopped);

uint32_t StoppingPatience(const EarlyStopping& spec);

}  // namespace millrace

#endif  // MILLRACE_COMMON_EVALUATION_SPEC_H_
