// The part of CheckJobSpec for evaluations, field by field in the order of protos/job.proto.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/evaluation_spec.h"
#include "common/field_checks.h"
#include "common/job_spec.h"
#include "common/output_spec.h"
#include "common/proto_fields.h"
#include "common/spec_checks.h"
#include "common/status_macros.h"

namespace millrace {
namespace {

std::string Quoted(const std::string& text) {
  return absl::StrCat("'", absl::CHexEscape(text.substr(0, kMaxMetricNameBytes)), "'");
}

// Of a custom model: what its workers report is seen with the first evaluation.
absl::Status CheckOwnMetric(const std::string& path, const std::string& metric) {
  constexpr size_t kMost = kMaxMetricNameBytes + 5;  // With "eval_".
  constexpr size_t kLeast = 6;
  const bool is_printable = std::all_of(metric.begin(), metric.end(),
                                        [](char byte) { return absl::ascii_isprint(byte); });
  if (absl::StartsWith(metric, "eval_") && metric.size() >= kLeast && metric.size() <= kMost &&
      is_printable) {
    return absl::OkStatus();
  }
  return FieldError(path, Quoted(metric),
                    absl::StrCat("'eval_' and the name of what workers report, of 1 to ",
                                 kMaxMetricNameBytes, " printable bytes"));
}

absl::Status CheckEvaluationMetric(const ModelSpec& model, const std::string& path,
                                   const std::string& metric) {
  const std::vector<std::string> known = EvaluationMetrics(model);
  if (known.empty()) return CheckOwnMetric(path, metric);
  if (std::find(known.begin(), known.end(), metric) != known.end()) return absl::OkStatus();
  return FieldError(path, Quoted(metric),
                    absl::StrCat(known.size() == 1 ? "" : "one of ", absl::StrJoin(known, ", "),
                                 ", which evaluations of this model report"));
}

// Of a message with `metric` and `goal`, at `path`.
template <typename Spec>
absl::Status CheckMetricAndGoal(const JobSpec& job, const Spec& spec, const std::string& path) {
  const std::string metric = MetricOf(spec);
  MILLRACE_RETURN_IF_ERROR(
      CheckEvaluationMetric(job.model(), absl::StrCat(path, ".metric"), metric));
  if (!job.data().has_evaluate()) {
    return NotSet("data.evaluate",
                  absl::StrCat("the examples to evaluate on, where ", path, " is set"));
  }
  if (LargerIsBetter(metric, spec.goal()).has_value()) return absl::OkStatus();
  return FieldError(absl::StrCat(path, ".goal"), MetricGoal_Name(spec.goal()),
                    absl::StrCat("SMALLER_IS_BETTER or LARGER_IS_BETTER: the name ", Quoted(metric),
                                 " does not say"));
}

absl::Status CheckEarlyStopping(const JobSpec& job) {
  const std::string path = "evaluation.early_stopping";
  const EarlyStopping& spec = job.evaluation().early_stopping();
  MILLRACE_RETURN_IF_ERROR(CheckMetricAndGoal(job, spec, path));
  if (!(spec.min_delta() >= 0) || std::isinf(spec.min_delta())) {
    return FieldError(absl::StrCat(path, ".min_delta"), absl::StrCat(spec.min_delta()),
                      "a finite number, at least 0");
  }
  if (job.evaluation().every_steps() > 0) return absl::OkStatus();
  return FieldError("evaluation.every_steps", "0",
                    absl::StrCat("at least 1 where ", path, " is set"));
}

absl::Status CheckKeepBest(const JobSpec& job) {
  const std::string path = "evaluation.keep_best";
  MILLRACE_RETURN_IF_ERROR(CheckMetricAndGoal(job, job.evaluation().keep_best(), path));
  if (!job.checkpoints().directory().empty()) return absl::OkStatus();
  return NotSet("checkpoints.directory",
                absl::StrCat("an absolute path where ", path,
                             " is set: the best state is kept as a checkpoint (--checkpoints=DIR; "
                             "or `millrace train --export=FILE --best` for that alone)"));
}

}  // namespace

absl::Status CheckEvaluationSpec(const JobSpec& job) {
  const EvaluationSpec& spec = job.evaluation();
  MILLRACE_RETURN_IF_ERROR(
      CheckNumber("evaluation.batch_size", spec.batch_size(), 0, kMaxBatchSize));
  if (spec.has_early_stopping()) MILLRACE_RETURN_IF_ERROR(CheckEarlyStopping(job));
  return spec.has_keep_best() ? CheckKeepBest(job) : absl::OkStatus();
}

}  // namespace millrace
