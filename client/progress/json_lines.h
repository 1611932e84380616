// JSON for programs: one object on a line for each event.
#ifndef MILLRACE_CLIENT_PROGRESS_JSON_LINES_H_
#define MILLRACE_CLIENT_PROGRESS_JSON_LINES_H_

#include <ostream>
#include <string>

#include "client/progress/progress_view.h"
#include "nlohmann/json_fwd.hpp"
#include "protos/job.pb.h"

namespace millrace::client {

// Every object has "event" ("begin", "state", "progress", "evaluated", "recovered", "checkpoint",
// "notice" or "final") and "job_id"; those of the job also "sequence" and "time" (RFC 3339). The
// last line is the final state: "event": "final", "state", "message", "step", "total_steps",
// "seconds", "metrics", "time_spent" (TimeSpentJson), "warnings" where there are any, such as that
// the last checkpoint is missing, "best" and "stopped_early" where evaluations decide, and, where
// the variables were exported, "export", or, where they could not be, "export_error". Metrics are
// numbers, or null where they are not finite.
class JsonLines final : public ProgressView {
 public:
  // JSON goes to `out`, what is for people to `people`. Not owned.
  JsonLines(std::ostream* out, std::ostream* people) : out_(out), people_(people) {}

  void Begin(const std::string& job_id) override;
  void OnEvent(const JobEvent& event) override;
  void Note(const std::string& sentence) override;
  void Finish(const JobOutcome& outcome) override;

 private:
  std::ostream* const out_;
  std::ostream* const people_;
  std::string job_id_;
};

// The object on a line, with its end. Text of others may hold bytes that are not UTF-8, which JSON
// cannot: they are replaced.
std::string JsonLine(const nlohmann::ordered_json& json);

// Seconds: "wall", "training", "running_again", "recovering", "evaluating", "checkpointing",
// "waiting" by whom it waited for; and "goodput", from 0 to 1.
nlohmann::ordered_json TimeSpentJson(const TimeSpent& spent);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_PROGRESS_JSON_LINES_H_
