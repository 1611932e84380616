// Metrics as sums that can be added up over batches.
#ifndef MILLRACE_COMMON_METRIC_SUM_H_
#define MILLRACE_COMMON_METRIC_SUM_H_

#include "protos/output.pb.h"

namespace millrace {

// Adds `more` to `sum`, which is another batch's of the same name, or empty.
void AddMetricSum(const MetricSum& more, MetricSum* sum);

// What a metric is over the examples of its sum; nan where they have been.
double MetricValue(const MetricSum& sum);

}  // namespace millrace

#endif  // MILLRACE_COMMON_METRIC_SUM_H_
