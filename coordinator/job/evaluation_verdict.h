// What an evaluation means for its job: whether it is the best, and whether it ends the job.
#ifndef MILLRACE_COORDINATOR_JOB_EVALUATION_VERDICT_H_
#define MILLRACE_COORDINATOR_JOB_EVALUATION_VERDICT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "coordinator/journal/job_record.pb.h"
#include "protos/events.pb.h"
#include "protos/job.pb.h"

namespace millrace::coordinator {

// Pure functions, but for RecordVerdict.

// Where the job ends: its last step, unless it was stopped early.
uint64_t EndStep(const JobRecord& record);

// See DescribeStop. Empty: it was not.
std::string WhyStoppedEarly(const JobRecord& record);

// Whether something depends on what evaluations report.
bool IsWatched(const JobSpec& spec);

// Whether no step is handed out until the evaluation at `step` has ended, if it is the next one to
// count: it may end the job; or the job is synchronous, and comes to the same end whatever is
// killed. One that training goes on beside is lost with a server, since its state is gone then.
bool IsWaitedFor(const JobRecord& record, uint64_t step);

struct EvaluationVerdict {
  absl::optional<MetricStanding> stopping;  // As evaluations stand now.
  absl::optional<StoppedEarly> stop;        // The job ends here.
  absl::optional<BestEvaluation> best;      // It is the best, and its state is to be kept.
};
// Where the job has been stopped already, an evaluation changes no more than which is the best.
// INVALID_ARGUMENT: it lacks the metric that decides, of a custom model that never reported it.
absl::StatusOr<EvaluationVerdict> JudgeEvaluation(const JobRecord& record,
                                                  const Evaluated& evaluated);

// Puts into the record what the evaluation at `step` came to.
void RecordVerdict(const EvaluationVerdict& verdict, uint64_t step, JobRecord& record);

// So many standings before the last one are kept in the record.
inline constexpr int kStandingsKept = 64;

// How evaluations stood in the state of this step; nothing where none had counted by then, or it is
// forgotten: more than kStandingsKept of them have counted since.
absl::optional<EvaluationStanding> StandingAt(const JobRecord& record, uint64_t step);

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_JOB_EVALUATION_VERDICT_H_
