// Numbers, durations and events as people read them. What others have written (names, messages) is
// made printable: a worker's message must not move a reader's cursor.
#ifndef MILLRACE_CLIENT_PROGRESS_FORMAT_H_
#define MILLRACE_CLIENT_PROGRESS_FORMAT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/job_outcome.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/map.h"
#include "protos/events.pb.h"
#include "protos/job.pb.h"

namespace millrace::client {

// "60,000".
std::string FormatCount(uint64_t count);

// Three or four digits: "875", "12.3k", "1.25M".
std::string FormatRate(double per_second);

// "0:07", "12:34", "3:07:12". Negative ones are 0:00.
std::string FormatElapsed(absl::Duration duration);

// Four significant digits: "0.09214", "12.35"; "nan" and "inf" where it is not finite.
std::string FormatMetric(double value);

// "875 bytes", "12.5 KiB", "1.2 GiB".
std::string FormatBytes(uint64_t bytes);

// "0 s", "12 ms", "4.1 s", "57 s"; from 100 s on as FormatElapsed.
std::string FormatShortTime(absl::Duration duration);

// In one unit: "12 s", "5 min", "3 h", "2 days". Negative ones are 0 s.
std::string FormatAge(absl::Duration age);

double SecondsOf(const google::protobuf::Duration& duration);

using Metrics = std::map<std::string, double>;

Metrics ToMetrics(const google::protobuf::Map<std::string, double>& metrics);

// "loss 0.2513", "accuracy 0.9229", ...: the loss first, then the accuracy, then by name.
std::vector<std::string> FormatMetrics(const Metrics& metrics);

// A line for an evaluation, a checkpoint, a notice or a change of state, such as "step 600:
// eval_loss 0.1032 eval_accuracy 0.9691 (10,000 examples)"; empty for a Progress and for the job's
// last event.
std::string DescribeEvent(const JobEvent& event);

// What a job's time went into: "1m12s: 93% training, 4% waiting for worker-1, 2% evaluating;
// goodput 0.93". What is less than half a percent is left out. Empty where no time was spent.
std::string FormatTimeSpent(const TimeSpent& spent);

// "eval_loss 0.3121 at step 400".
std::string DescribeBest(const BestEvaluation& best);

// What a job has come to: a few lines, each with its end.
std::string FormatOutcome(const JobOutcome& outcome);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_PROGRESS_FORMAT_H_
