// What workers say of a job's metrics, as far as it can be shown. It goes into the job's record and
// into events; nobody here knows what the metrics mean.
#ifndef MILLRACE_COORDINATOR_JOB_WORKER_METRICS_H_
#define MILLRACE_COORDINATOR_JOB_WORKER_METRICS_H_

#include <map>
#include <string>
#include <vector>

#include "protos/cluster.pb.h"
#include "protos/events.pb.h"
#include "protos/output.pb.h"

namespace millrace::coordinator {

// Of an evaluation, those with names that can be read: the first ones in the order of their names,
// the same each time.
std::map<std::string, double> UsableMetrics(const EvaluationResult& result);

// Of an evaluation, unless they are too large or not square.
std::vector<ConfusionMatrix> UsableMatrices(const EvaluationResult& result);

// Adds a step's to the sums of other steps by their names, which are then at most
// kMostReportedMetrics. Those without a name that can be read are left out, and those whose names
// have a meaning of their own: "loss", "accuracy" and what begins with "eval_".
void AddMetricSums(const StepResult& result, std::map<std::string, MetricSum>* sums);

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_JOB_WORKER_METRICS_H_
