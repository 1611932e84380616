// Evaluations are of states that the job had, each at a barrier, one after the other. What they
// come to is journaled together with the barrier's number, before anybody hears of it, so none
// counts twice: where the job steps back behind one that has counted, it is not evaluated there
// again, and its standing stays. A synchronous job would come to the same number there; the one of
// an asynchronous job was a state of its run as good as another. Only the end is evaluated again,
// since the job must tell of the state that it leaves: that can make it the best, and stops
// nothing.
#include "coordinator/job/evaluation_verdict.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/evaluation_spec.h"
#include "common/job_spec.h"
#include "common/printable.h"
#include "common/proto_fields.h"
#include "common/status_macros.h"

namespace millrace::coordinator {
namespace {

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

bool IsLarger(const std::string& metric, MetricGoal goal) {
  return LargerIsBetter(metric, goal).value_or(false);
}

// By more than `delta`; any number is better than none.
bool IsBetter(double value, double than, bool larger, double delta) {
  if (std::isnan(than)) return !std::isnan(value);
  return larger ? value > than + delta : value < than - delta;
}

// NaN: it has no such number, as where a model has one that not all evaluations have.
absl::StatusOr<double> ValueOf(const JobSpec& spec, const Evaluated& evaluated,
                               const std::string& path, const std::string& metric,
                               bool was_reported) {
  const auto found = evaluated.metrics().find(metric);
  if (found != evaluated.metrics().end()) return found->second;
  if (was_reported || !spec.model().has_custom()) return kNoNumber;
  std::vector<std::string> known;
  for (const auto& [name, value] : evaluated.metrics()) known.push_back(name);
  const std::string at = absl::StrCat("the evaluation at step ", evaluated.step());
  return FieldError(
      absl::StrCat("evaluation.", path, ".metric"), absl::StrCat("'", PrintableName(metric), "'"),
      known.empty()
          ? absl::StrCat("one that is reported, and ", at, " has no metrics")
          : absl::StrCat("one of ", absl::StrJoin(known, ", "), ", which ", at, " reports"));
}

// Not before the first that is to, nor once more of the state that the job goes on from.
bool Counts(const JobRecord& record, uint64_t step) {
  return step >= record.spec().evaluation().early_stopping().start_from_step() &&
         step > record.restored_from().evaluated();
}

// `value` is the last evaluation's, at `step`.
std::string WhyNoBetter(const MetricStanding& standing, const EarlyStopping& spec, double value,
                        uint64_t step) {
  const bool larger = IsLarger(standing.metric(), spec.goal());
  if (std::isnan(standing.best())) {
    return absl::StrCat(standing.metric(), " has had no number since step ", standing.step());
  }
  return absl::StrCat(
      standing.metric(), " has not been ", larger ? "above " : "below ", standing.best(),
      spec.min_delta() > 0 ? absl::StrCat(" by more than ", spec.min_delta()) : "", " since step ",
      standing.step(), std::isnan(value) ? absl::StrCat(", and has no number at step ", step) : "");
}

// The standing with one more evaluation. `before` is of another metric, or empty, where there is
// none.
MetricStanding Advance(const MetricStanding& before, const EarlyStopping& spec, double value,
                       uint64_t step) {
  MetricStanding now = before;
  const std::string metric = MetricOf(spec);
  const bool is_first = before.metric() != metric;
  if (is_first || IsBetter(value, before.best(), IsLarger(metric, spec.goal()), spec.min_delta())) {
    now.set_metric(metric);
    now.set_best(value);
    now.set_step(step);
    now.set_evaluations_since(0);
  } else {
    now.set_evaluations_since(before.evaluations_since() + 1);
  }
  return now;
}

absl::Status JudgeStopping(const JobRecord& record, const Evaluated& evaluated,
                           EvaluationVerdict& verdict) {
  const EarlyStopping& spec = record.spec().evaluation().early_stopping();
  // The end, evaluated again: it has counted.
  if (evaluated.step() <= record.evaluated()) return absl::OkStatus();
  if (record.has_stopped_early() || !Counts(record, evaluated.step())) return absl::OkStatus();
  const std::string metric = MetricOf(spec);
  MILLRACE_ASSIGN_OR_RETURN(const double value,
                            ValueOf(record.spec(), evaluated, "early_stopping", metric,
                                    record.stopping().metric() == metric));
  verdict.stopping = Advance(record.stopping(), spec, value, evaluated.step());
  const bool is_last = evaluated.step() >= record.total_steps();
  if (is_last || verdict.stopping->evaluations_since() < StoppingPatience(spec)) {
    return absl::OkStatus();
  }
  verdict.stop.emplace();
  verdict.stop->set_step(evaluated.step());
  verdict.stop->set_total_steps(record.total_steps());
  verdict.stop->set_reason(WhyNoBetter(*verdict.stopping, spec, value, evaluated.step()));
  return absl::OkStatus();
}

absl::Status JudgeBest(const JobRecord& record, const Evaluated& evaluated,
                       EvaluationVerdict& verdict) {
  const KeepBest& spec = record.spec().evaluation().keep_best();
  const std::string metric = MetricOf(spec);
  MILLRACE_ASSIGN_OR_RETURN(const double value, ValueOf(record.spec(), evaluated, "keep_best",
                                                        metric, record.best().metric() == metric));
  const double best = record.has_best() ? record.best().value() : kNoNumber;
  if (!IsBetter(value, best, IsLarger(metric, spec.goal()), /*delta=*/0)) return absl::OkStatus();
  verdict.best.emplace();
  verdict.best->set_metric(metric);
  verdict.best->set_value(value);
  verdict.best->set_step(evaluated.step());
  return absl::OkStatus();
}

EvaluationStanding LastStanding(const JobRecord& record) {
  EvaluationStanding standing;
  *standing.mutable_stopping() = record.stopping();
  standing.set_evaluated(std::max(record.evaluated(), record.restored_from().evaluated()));
  return standing;
}

}  // namespace

uint64_t EndStep(const JobRecord& record) {
  return record.has_stopped_early() ? record.stopped_early().step() : record.total_steps();
}

std::string WhyStoppedEarly(const JobRecord& record) {
  return record.has_stopped_early() ? DescribeStop(record.stopped_early()) : "";
}

bool IsWatched(const JobSpec& spec) {
  return spec.evaluation().has_early_stopping() || spec.evaluation().has_keep_best();
}

bool IsWaitedFor(const JobRecord& record, uint64_t step) {
  const EvaluationSpec& evaluation = record.spec().evaluation();
  if (!evaluation.has_early_stopping() || record.has_stopped_early()) return false;
  const EarlyStopping& spec = evaluation.early_stopping();
  if (!Counts(record, step) || step >= record.total_steps()) return false;
  if (Replicas(record.spec()) > 0) return true;
  // The first one to count is the best.
  return record.has_stopping() &&
         record.stopping().evaluations_since() + 1 >= StoppingPatience(spec);
}

absl::StatusOr<EvaluationVerdict> JudgeEvaluation(const JobRecord& record,
                                                  const Evaluated& evaluated) {
  EvaluationVerdict verdict;
  const EvaluationSpec& spec = record.spec().evaluation();
  if (spec.has_early_stopping()) {
    MILLRACE_RETURN_IF_ERROR(JudgeStopping(record, evaluated, verdict));
  }
  if (spec.has_keep_best()) MILLRACE_RETURN_IF_ERROR(JudgeBest(record, evaluated, verdict));
  return verdict;
}

void RecordVerdict(const EvaluationVerdict& verdict, uint64_t step, JobRecord& record) {
  if (verdict.stopping) {
    auto& earlier = *record.mutable_earlier_standings();
    if (record.has_stopping()) *earlier.Add() = LastStanding(record);
    if (earlier.size() > kStandingsKept) earlier.erase(earlier.begin());
    *record.mutable_stopping() = *verdict.stopping;
  }
  record.set_evaluated(step);
  if (verdict.stop) *record.mutable_stopped_early() = *verdict.stop;
  if (verdict.best) *record.mutable_best() = *verdict.best;
}

absl::optional<EvaluationStanding> StandingAt(const JobRecord& record, uint64_t step) {
  if (!record.has_stopping()) return absl::nullopt;
  if (record.evaluated() <= step) return LastStanding(record);
  const auto& earlier = record.earlier_standings();
  const auto found = std::find_if(
      earlier.rbegin(), earlier.rend(),
      [step](const EvaluationStanding& standing) { return standing.evaluated() <= step; });
  if (found == earlier.rend()) return absl::nullopt;
  return *found;
}

}  // namespace millrace::coordinator
