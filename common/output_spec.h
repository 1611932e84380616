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

// The outputs that a model has: those that it names, or the one that its loss and metrics are in
// short.
std::vector<OutputSpec> ModelOutputs(const ModelSpec& model);

// Where the fields of an output of ModelOutputs stand: "model.outputs[1]", in short "model".
std::string OutputPath(const ModelSpec& model, size_t output);

// Whether labels are classes, or probabilities of classes.
bool HasClasses(Loss loss);

// Whether the metric can be computed where the loss is that one.
bool MetricFits(Metric metric, Loss loss);

// What a metric is reported as, but for the name of its output: "accuracy", "top_5_accuracy".
std::string MetricName(const MetricSpec& metric);

double HuberDelta(const OutputSpec& output);
double OutputWeight(const OutputSpec& output);
uint32_t TopK(const MetricSpec& metric);

}  // namespace millrace

#endif  // MILLRACE_COMMON_OUTPUT_SPEC_H_
