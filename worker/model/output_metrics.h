// Which metrics an output reports.
#ifndef MILLRACE_WORKER_MODEL_OUTPUT_METRICS_H_
#define MILLRACE_WORKER_MODEL_OUTPUT_METRICS_H_

#include <vector>

#include "absl/status/status.h"
#include "protos/output.pb.h"
#include "worker/model/output_plan.h"

namespace millrace::worker {

// Fills in `output->metrics` of an output that is planned but for them. INVALID_ARGUMENT:
// "model.outputs[0].metrics[1]: ...".
absl::Status PlanMetrics(const OutputSpec& spec, OutputPlan* output);

// Whether all that the outputs report has its place: names differ and are not too long, and there
// are not too many. INVALID_ARGUMENT: "model.outputs...".
absl::Status CheckReported(const std::vector<OutputPlan>& outputs);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_MODEL_OUTPUT_METRICS_H_
