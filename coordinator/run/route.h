// What workers are told of a job before they have steps of it.
#ifndef MILLRACE_COORDINATOR_RUN_ROUTE_H_
#define MILLRACE_COORDINATOR_RUN_ROUTE_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "coordinator/journal/job_record.pb.h"
#include "protos/cluster.pb.h"
#include "protos/job.pb.h"

namespace millrace::coordinator {

// Of a job with this plan.
SetRoute MakeRoute(const JobRecord& record, const JobPlan& plan, Routing routing);

// Whether there is room for the job's route in a message, with this plan and `shards`, where it has
// some, and for servers that its shards go to later, whose names and addresses may be longer: with
// a route that is too large the streams of all workers would break, again and again.
// INVALID_ARGUMENT: there is not; the message says what takes how much.
absl::Status CheckRoute(const JobRecord& record, const JobPlan& plan,
                        absl::Span<const ShardPlacement> shards);

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_RUN_ROUTE_H_
