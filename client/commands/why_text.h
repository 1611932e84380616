// Why a job does not get on, for people and for programs.
#ifndef MILLRACE_CLIENT_COMMANDS_WHY_TEXT_H_
#define MILLRACE_CLIENT_COMMANDS_WHY_TEXT_H_

#include <string>

#include "absl/time/time.h"
#include "protos/job.pb.h"

namespace millrace::client {

// The verdict, and below it tables of waits, workers, shards and events, as far as there are any.
std::string WhyText(const JobExplanation& explanation, absl::TimeZone zone);

// One JSON object on a line: "job_id", "state", "step", "total_steps", "verdict", and lists "waits"
// ("whom", "what", "seconds"), "workers" ("name", "trouble", "activity", "steps_done", "share",
// "step_seconds", "slowness"), "shards" ("shard", "server", "trouble", "version", "behind",
// "missing") and "recent" ("sequence", "time", "text"); and "time_spent" (TimeSpentJson) of a job
// that has begun.
std::string WhyJson(const JobExplanation& explanation);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_WHY_TEXT_H_
