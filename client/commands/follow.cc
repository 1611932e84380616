#include "client/commands/follow.h"

#include "absl/strings/str_cat.h"
#include "client/progress/format.h"
#include "common/job_state.h"
#include "common/proto_time.h"
#include "common/status_macros.h"
#include "protos/events.pb.h"

namespace millrace::client {
namespace {

// Gathers the outcome from the events.
class OutcomeGatherer {
 public:
  explicit OutcomeGatherer(const std::string& job_id) { outcome_.job_id = job_id; }

  void Add(const JobEvent& event) {
    const absl::Time time = FromTimestamp(event.time());
    if (event.has_progress()) outcome_.total_steps = event.progress().total_steps();
    if (!event.has_state_changed()) return;
    const StateChanged& change = event.state_changed();
    JobState_Parse(change.state(), &outcome_.state);
    outcome_.message = change.message();
    outcome_.step = change.step();
    outcome_.metrics = ToMetrics(change.metrics());
    if (outcome_.state == RUNNING && started_ == absl::InfiniteFuture()) started_ = time;
    if (time > started_) outcome_.running = time - started_;
  }

  const JobOutcome& outcome() const { return outcome_; }

 private:
  JobOutcome outcome_;
  absl::Time started_ = absl::InfiniteFuture();
};

// The events of a long job, or of one that went on after a restart, do not go back to its
// beginning: its status does. Not worth an error if it cannot be had.
JobOutcome WithStatus(JobsClient* client, JobOutcome outcome) {
  const auto status = client->Get(outcome.job_id);
  if (!status.ok()) return outcome;
  if (status->total_steps() > 0) outcome.total_steps = status->total_steps();
  outcome.best = status->best();
  outcome.stopped_early = status->stopped_early();
  outcome.time_spent = status->time_spent();
  outcome.step_times = status->step_times();
  outcome.warnings.assign(status->warnings().begin(), status->warnings().end());
  if (status->has_started() && status->has_ended()) {
    outcome.running = FromTimestamp(status->ended()) - FromTimestamp(status->started());
  }
  return outcome;
}

// What does not work now was told by events that may be gone. Not worth an error either.
void NoteWarnings(JobsClient* client, const std::string& job_id, ProgressView* view) {
  const auto status = client->Get(job_id);
  if (!status.ok() || HasEnded(status->state())) return;
  for (const std::string& warning : status->warnings()) {
    view->Note(absl::StrCat("warning: ", warning));
  }
}

}  // namespace

absl::StatusOr<JobOutcome> FollowJob(JobsClient* client, const std::string& job_id,
                                     ProgressView* view) {
  view->Begin(job_id);
  NoteWarnings(client, job_id, view);
  OutcomeGatherer gatherer(job_id);
  MILLRACE_RETURN_IF_ERROR(
      client->Watch(job_id, /*after_sequence=*/0, [&gatherer, view](const JobEvent& event) {
        gatherer.Add(event);
        view->OnEvent(event);
      }));
  return WithStatus(client, gatherer.outcome());
}

std::string DetachedNote(const std::string& job_id, const std::string& cluster) {
  return absl::StrCat("Job ", job_id,
                      " goes on without being watched. Watch it again with `millrace watch ",
                      job_id, " --cluster=", cluster, "`; end it with `millrace cancel ", job_id,
                      " --cluster=", cluster, "`.");
}

std::string MaybeTakenNote(const std::string& cluster) {
  return absl::StrCat(
      "Interrupted before the cluster had answered: the job may have been taken. See `millrace "
      "list --cluster=",
      cluster, "`.");
}

ExitCode ExitCodeOf(const JobOutcome& outcome) {
  return outcome.state == SUCCEEDED ? ExitCode::kSucceeded : ExitCode::kFailed;
}

}  // namespace millrace::client
