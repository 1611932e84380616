// Gathers what the coordinator knows of a job, to explain it.
#ifndef MILLRACE_COORDINATOR_JOBS_JOB_FACTS_H_
#define MILLRACE_COORDINATOR_JOBS_JOB_FACTS_H_

#include "coordinator/explain/explain.h"
#include "coordinator/job/job.h"
#include "coordinator/run/runner_environment.h"

namespace millrace::coordinator {

// Each part is of its own moment. Does not block.
ExplainFacts GatherFacts(Job& job, const RunnerEnvironment& environment);

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_JOBS_JOB_FACTS_H_
