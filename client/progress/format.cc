#include "client/progress/format.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/jobs_client.h"
#include "client/progress/step_times.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/printable.h"
#include "common/proto_duration.h"

namespace millrace::client {
namespace {

// Where a metric stands among others.
int Rank(const std::string& name) {
  for (const auto& [rank, known] : {std::pair(0, "loss"), std::pair(1, "accuracy"),
                                    std::pair(2, "eval_loss"), std::pair(3, "eval_accuracy")}) {
    if (name == known) return rank;
  }
  return 4;
}

std::string DescribeState(const StateChanged& change) {
  std::string line = PrintableName(change.state());
  if (change.step() > 0) absl::StrAppend(&line, " at step ", FormatCount(change.step()));
  if (!change.message().empty()) absl::StrAppend(&line, ": ", Printable(change.message()));
  return line;
}

std::string DescribeLoss(const Recovered& recovered) {
  const uint64_t lost = recovered.steps_lost();
  if (lost == 0) {
    return recovered.more_may_be_lost()
               ? absl::StrCat("steps after the first ", FormatCount(recovered.step()),
                              " may have been done and lost, nobody knows how many")
               : "no step was lost";
  }
  return absl::StrCat(recovered.more_may_be_lost() ? "at least " : "", FormatCount(lost),
                      lost == 1 ? " step is" : " steps are", " to be run again");
}

std::string DescribeRecovery(const Recovered& recovered) {
  return absl::StrCat(recovered.cause(), ": ", DescribeLoss(recovered), "; goes on from step ",
                      FormatCount(recovered.step()),
                      recovered.how().empty() ? "" : absl::StrCat(" (", recovered.how(), ")"),
                      recovered.has_load()
                          ? absl::StrCat("; read from the checkpoint in ",
                                         FormatShortTime(FromProto(recovered.load())))
                          : "");
}

std::string DescribeCheckpoint(const CheckpointEnded& checkpoint) {
  const std::string cause =
      checkpoint.cause().empty() ? "" : absl::StrCat(" (", checkpoint.cause(), ")");
  if (!checkpoint.error().empty()) {
    const std::string which =
        checkpoint.number() == 0
            ? "a checkpoint"
            : absl::StrCat("checkpoint ", CheckpointFolder(checkpoint.number()));
    return absl::StrCat(which, cause, " was given up: ", checkpoint.error());
  }
  return absl::StrCat(
      "checkpoint ", CheckpointFolder(checkpoint.number()), " at step ",
      FormatCount(checkpoint.step()), cause, ": ", FormatBytes(checkpoint.bytes()), " (",
      FormatBytes(checkpoint.bytes_written()), " written) in ",
      FormatShortTime(FromProto(checkpoint.took())), ", held up ",
      FormatShortTime(FromProto(checkpoint.held_up())),
      checkpoint.extra_memory() == 0
          ? ""
          : absl::StrCat(", ", FormatBytes(checkpoint.extra_memory()), " of extra memory"));
}

}  // namespace

std::string FormatCount(uint64_t count) {
  const std::string digits = absl::StrCat(count);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string FormatRate(double per_second) {
  if (!(per_second >= 999.5)) return absl::StrFormat("%.0f", per_second);
  if (per_second < 999'500) return absl::StrFormat("%.1fk", per_second / 1e3);
  return absl::StrFormat("%.2fM", per_second / 1e6);
}

std::string FormatElapsed(absl::Duration duration) {
  const int64_t seconds = std::max<int64_t>(0, absl::ToInt64Seconds(duration));
  if (seconds < 3600) return absl::StrFormat("%d:%02d", seconds / 60, seconds % 60);
  return absl::StrFormat("%d:%02d:%02d", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

std::string FormatBytes(uint64_t bytes) {
  if (bytes < 1024) return absl::StrCat(bytes, bytes == 1 ? " byte" : " bytes");
  double value = static_cast<double>(bytes);
  for (const char* unit : {"KiB", "MiB", "GiB"}) {
    value /= 1024;
    if (value < 99.95) return absl::StrFormat("%.1f %s", value, unit);
    if (value < 1023.5) return absl::StrFormat("%.0f %s", value, unit);
  }
  return absl::StrFormat("%.1f TiB", value / 1024);
}

std::string FormatShortTime(absl::Duration duration) {
  if (duration < absl::Microseconds(500)) return "0 s";
  if (duration < absl::Milliseconds(999.5)) {
    return absl::StrFormat("%.0f ms", absl::ToDoubleMilliseconds(duration));
  }
  if (duration < absl::Seconds(9.95)) {
    return absl::StrFormat("%.1f s", absl::ToDoubleSeconds(duration));
  }
  if (duration < absl::Seconds(100)) return absl::StrCat(absl::ToInt64Seconds(duration), " s");
  return FormatElapsed(duration);
}

std::string FormatAge(absl::Duration age) {
  if (age < absl::Minutes(2)) {
    return absl::StrCat(std::max<int64_t>(0, absl::ToInt64Seconds(age)), " s");
  }
  if (age < absl::Hours(2)) return absl::StrCat(absl::ToInt64Minutes(age), " min");
  if (age < absl::Hours(48)) return absl::StrCat(absl::ToInt64Hours(age), " h");
  return absl::StrCat(absl::ToInt64Hours(age) / 24, " days");
}

double SecondsOf(const google::protobuf::Duration& duration) {
  return absl::ToDoubleSeconds(FromProto(duration));
}

std::string FormatMetric(double value) {
  if (std::isnan(value)) return "nan";
  return absl::StrFormat("%.4g", value);
}

Metrics ToMetrics(const google::protobuf::Map<std::string, double>& metrics) {
  return Metrics(metrics.begin(), metrics.end());
}

std::vector<std::string> FormatMetrics(const Metrics& metrics) {
  std::vector<std::pair<std::string, double>> ordered(metrics.begin(), metrics.end());
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const auto& a, const auto& b) { return Rank(a.first) < Rank(b.first); });
  std::vector<std::string> texts;
  for (const auto& [name, value] : ordered) {
    texts.push_back(absl::StrCat(PrintableName(name), " ", FormatMetric(value)));
  }
  return texts;
}

std::string DescribeEvent(const JobEvent& event) {
  if (event.has_notice()) return Printable(event.notice().message());
  if (event.has_recovered()) return Printable(DescribeRecovery(event.recovered()));
  if (event.has_checkpoint_ended()) {
    return Printable(DescribeCheckpoint(event.checkpoint_ended()));
  }
  if (event.has_evaluated()) {
    const Evaluated& evaluated = event.evaluated();
    return absl::StrCat("step ", FormatCount(evaluated.step()), ": ",
                        absl::StrJoin(FormatMetrics(ToMetrics(evaluated.metrics())), "  "), " (",
                        FormatCount(evaluated.examples()), " examples",
                        evaluated.best() ? "; the best so far" : "", ")");
  }
  if (event.has_state_changed() && !IsLastEvent(event)) {
    return DescribeState(event.state_changed());
  }
  return "";
}

std::string FormatTimeSpent(const TimeSpent& spent) {
  const double wall = SecondsOf(spent.wall());
  if (!(wall > 0)) return "";
  std::vector<std::pair<double, std::string>> parts = {
      {SecondsOf(spent.training()), "training"},
      {SecondsOf(spent.running_again()), "running steps again"},
      {SecondsOf(spent.recovering()), "recovering"},
      {SecondsOf(spent.evaluating()), "evaluating"},
      {SecondsOf(spent.checkpointing()), "checkpointing"}};
  for (const WaitedFor& waited : spent.waiting()) {
    parts.emplace_back(SecondsOf(waited.time()),
                       absl::StrCat("waiting for ", PrintableName(waited.whom())));
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> texts;
  for (const auto& [seconds, what] : parts) {
    const int percent = static_cast<int>(std::lround(100 * seconds / wall));
    if (percent > 0) texts.push_back(absl::StrCat(percent, "% ", what));
  }
  const absl::Duration unit = wall < 1    ? absl::Milliseconds(1)
                              : wall < 10 ? absl::Milliseconds(100)
                                          : absl::Seconds(1);
  return absl::StrFormat("%s: %s; goodput %.2f",
                         absl::FormatDuration(absl::Trunc(FromProto(spent.wall()), unit)),
                         absl::StrJoin(texts, ", "), spent.goodput());
}

std::string DescribeBest(const BestEvaluation& best) {
  return absl::StrCat(PrintableName(best.metric()), " ", FormatMetric(best.value()), " at step ",
                      FormatCount(best.step()));
}

std::string FormatOutcome(const JobOutcome& outcome) {
  std::string text =
      absl::StrCat(JobState_Name(outcome.state), ": job ", PrintableName(outcome.job_id));
  if (!outcome.message.empty()) absl::StrAppend(&text, ": ", Printable(outcome.message));
  absl::StrAppend(&text, "\n  steps      ", FormatCount(outcome.step));
  if (outcome.total_steps > 0) {
    absl::StrAppend(&text, " of ", FormatCount(outcome.total_steps));
  }
  absl::StrAppend(&text, "\n  time       ", FormatElapsed(outcome.running), "\n");
  if (const std::string spent = FormatTimeSpent(outcome.time_spent); !spent.empty()) {
    absl::StrAppend(&text, "  spent      ", spent, "\n");
  }
  if (const std::string step = FormatStepTimes(outcome.step_times); !step.empty()) {
    absl::StrAppend(&text, "  a step     ", step, "\n");
  }
  const std::vector<std::string> metrics = FormatMetrics(outcome.metrics);
  if (!metrics.empty()) {
    absl::StrAppend(&text, "  metrics    ", absl::StrJoin(metrics, "  "), "\n");
  }
  if (!outcome.best.metric().empty()) {
    absl::StrAppend(&text, "  best       ", DescribeBest(outcome.best), "\n");
  }
  if (const std::string advice = StepAdvice(outcome.step_times); !advice.empty()) {
    absl::StrAppend(&text, "  advice     ", advice, "\n");
  }
  for (const std::string& warning : outcome.warnings) {
    absl::StrAppend(&text, "  warning    ", Printable(warning), "\n");
  }
  if (!outcome.export_file.empty()) {
    absl::StrAppend(&text, "  variables  ", outcome.export_file, "\n");
  }
  if (!outcome.export_error.empty()) {
    absl::StrAppend(&text, "  variables  not exported: ", Printable(outcome.export_error), "\n");
  }
  return text;
}

}  // namespace millrace::client
