// Lines for a log.
#ifndef MILLRACE_CLIENT_PROGRESS_PLAIN_LINES_H_
#define MILLRACE_CLIENT_PROGRESS_PLAIN_LINES_H_

#include <ostream>
#include <string>

#include "absl/time/time.h"
#include "client/progress/progress_view.h"
#include "client/progress/step_rate.h"

namespace millrace::client {

// A line for each evaluation, notice and change of state, and for the progress whenever 5 s have
// gone by or 5% of the job (by the times of the events, not by when they arrive).
class PlainLines final : public ProgressView {
 public:
  // Not owned.
  explicit PlainLines(std::ostream* out) : out_(out) {}

  void Begin(const std::string& job_id) override;
  void OnEvent(const JobEvent& event) override;
  void Note(const std::string& sentence) override;
  void Finish(const JobOutcome& outcome) override;

 private:
  void OnProgress(const Progress& progress, absl::Time time);

  std::ostream* const out_;
  StepRate rate_;
  absl::Time last_time_ = absl::InfinitePast();
  uint64_t last_step_ = 0;
};

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_PROGRESS_PLAIN_LINES_H_
