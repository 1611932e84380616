#include "client/progress/json_lines.h"

#include "client/jobs_client.h"
#include "client/progress/confusion_table.h"
#include "client/progress/format.h"
#include "client/progress/step_times.h"
#include "common/proto_duration.h"
#include "common/proto_time.h"
#include "nlohmann/json.hpp"

namespace millrace::client {
namespace {

using Json = nlohmann::ordered_json;

void AddState(const StateChanged& change, Json* json) {
  (*json)["event"] = "state";
  (*json)["state"] = change.state();
  (*json)["message"] = change.message();
  (*json)["step"] = change.step();
  (*json)["metrics"] = ToMetrics(change.metrics());
}

void AddProgress(const Progress& progress, Json* json) {
  (*json)["event"] = "progress";
  (*json)["step"] = progress.step();
  (*json)["total_steps"] = progress.total_steps();
  (*json)["examples_per_second"] = progress.examples_per_second();
  (*json)["workers"] = progress.workers();
  if (progress.has_step_times()) (*json)["step_times"] = StepTimesJson(progress.step_times());
  (*json)["metrics"] = ToMetrics(progress.metrics());
}

void AddEvaluated(const Evaluated& evaluated, Json* json) {
  (*json)["event"] = "evaluated";
  (*json)["step"] = evaluated.step();
  (*json)["examples"] = evaluated.examples();
  (*json)["metrics"] = ToMetrics(evaluated.metrics());
  if (evaluated.best()) (*json)["best"] = true;
  for (const ConfusionMatrix& matrix : evaluated.confusion_matrices()) {
    (*json)["confusion_matrices"].push_back(ConfusionJson(matrix));
  }
}

void AddRecovered(const Recovered& recovered, Json* json) {
  (*json)["event"] = "recovered";
  (*json)["cause"] = recovered.cause();
  (*json)["how"] = recovered.how();
  (*json)["step"] = recovered.step();
  (*json)["steps_lost"] = recovered.steps_lost();
  (*json)["more_may_be_lost"] = recovered.more_may_be_lost();
  (*json)["seconds"] = SecondsOf(recovered.took());
  if (recovered.has_load()) {
    (*json)["load_seconds"] = SecondsOf(recovered.load());
  }
}

void AddCheckpoint(const CheckpointEnded& checkpoint, Json* json) {
  (*json)["event"] = "checkpoint";
  (*json)["number"] = checkpoint.number();
  (*json)["cause"] = checkpoint.cause();
  (*json)["step"] = checkpoint.step();
  (*json)["exact"] = checkpoint.exact();
  (*json)["error"] = checkpoint.error();
  (*json)["path"] = checkpoint.path();
  (*json)["bytes"] = checkpoint.bytes();
  (*json)["bytes_written"] = checkpoint.bytes_written();
  (*json)["seconds"] = SecondsOf(checkpoint.took());
  (*json)["held_up_seconds"] = SecondsOf(checkpoint.held_up());
  (*json)["extra_memory"] = checkpoint.extra_memory();
}

// False: an event of a kind that this version does not know.
bool AddKind(const JobEvent& event, Json* json) {
  switch (event.kind_case()) {
    case JobEvent::kStateChanged:
      AddState(event.state_changed(), json);
      return true;
    case JobEvent::kProgress:
      AddProgress(event.progress(), json);
      return true;
    case JobEvent::kEvaluated:
      AddEvaluated(event.evaluated(), json);
      return true;
    case JobEvent::kNotice:
      (*json)["event"] = "notice";
      (*json)["message"] = event.notice().message();
      return true;
    case JobEvent::kRecovered:
      AddRecovered(event.recovered(), json);
      return true;
    case JobEvent::kCheckpointEnded:
      AddCheckpoint(event.checkpoint_ended(), json);
      return true;
    case JobEvent::KIND_NOT_SET:
      return false;
  }
  return false;
}

}  // namespace

std::string JsonLine(const nlohmann::ordered_json& json) {
  return json.dump(/*indent=*/-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) +
         "\n";
}

nlohmann::ordered_json TimeSpentJson(const TimeSpent& spent) {
  Json json = {{"wall", SecondsOf(spent.wall())},
               {"training", SecondsOf(spent.training())},
               {"running_again", SecondsOf(spent.running_again())},
               {"recovering", SecondsOf(spent.recovering())},
               {"evaluating", SecondsOf(spent.evaluating())},
               {"checkpointing", SecondsOf(spent.checkpointing())},
               {"waiting", Json::object()},
               {"goodput", spent.goodput()}};
  for (const WaitedFor& waited : spent.waiting()) {
    json["waiting"][waited.whom()] = SecondsOf(waited.time());
  }
  return json;
}

void JsonLines::Begin(const std::string& job_id) {
  job_id_ = job_id;
  *out_ << JsonLine({{"event", "begin"}, {"job_id", job_id}}) << std::flush;
}

void JsonLines::OnEvent(const JobEvent& event) {
  // The last line says it, with all that there is to say.
  if (IsLastEvent(event)) return;
  Json json = {{"event", nullptr}, {"job_id", job_id_}, {"sequence", event.sequence()}};
  json["time"] =
      absl::FormatTime(absl::RFC3339_full, FromTimestamp(event.time()), absl::UTCTimeZone());
  if (AddKind(event, &json)) *out_ << JsonLine(json) << std::flush;
}

void JsonLines::Note(const std::string& sentence) { *people_ << sentence << std::endl; }

void JsonLines::Finish(const JobOutcome& outcome) {
  Json json = {{"event", "final"},
               {"job_id", outcome.job_id},
               {"state", JobState_Name(outcome.state)},
               {"message", outcome.message},
               {"step", outcome.step},
               {"total_steps", outcome.total_steps},
               {"seconds", absl::ToDoubleSeconds(outcome.running)},
               {"metrics", outcome.metrics}};
  if (!outcome.best.metric().empty()) {
    json["best"] = {{"metric", outcome.best.metric()},
                    {"value", outcome.best.value()},
                    {"step", outcome.best.step()}};
  }
  if (outcome.stopped_early.step() > 0) {
    json["stopped_early"] = {{"step", outcome.stopped_early.step()},
                             {"total_steps", outcome.stopped_early.total_steps()},
                             {"reason", outcome.stopped_early.reason()}};
  }
  if (outcome.time_spent.has_wall()) json["time_spent"] = TimeSpentJson(outcome.time_spent);
  if (outcome.step_times.ByteSizeLong() > 0) json["step_times"] = StepTimesJson(outcome.step_times);
  if (!outcome.warnings.empty()) json["warnings"] = outcome.warnings;
  if (!outcome.export_file.empty()) json["export"] = outcome.export_file;
  if (!outcome.export_error.empty()) json["export_error"] = outcome.export_error;
  *out_ << JsonLine(json) << std::flush;
  *people_ << FormatOutcome(outcome) << std::flush;
}

}  // namespace millrace::client
