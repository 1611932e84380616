// Why a job does not get on, or that it does: from what the coordinator knows. A pure function.
#ifndef MILLRACE_COORDINATOR_EXPLAIN_EXPLAIN_H_
#define MILLRACE_COORDINATOR_EXPLAIN_EXPLAIN_H_

#include "coordinator/explain/explain_facts.h"
#include "protos/job.pb.h"

namespace millrace::coordinator {

JobExplanation Explain(const ExplainFacts& facts);

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_EXPLAIN_EXPLAIN_H_
