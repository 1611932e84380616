#include "worker/training/plan_check.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/status_macros.h"
#include "worker/training/job_numerics.h"

namespace millrace::worker {
namespace {

using Variables = google::protobuf::RepeatedPtrField<VariableSpec>;

std::string Describe(const VariableSpec& variable) {
  std::string text =
      absl::StrCat("'", variable.name(), "' [", absl::StrJoin(variable.shape(), ", "), "]");
  if (!variable.has_update()) return text;
  // Every digit of a number is there: what reads the same is the same.
  return absl::StrCat(text, " (", variable.update().ShortDebugString(), ")");
}

std::string List(const Variables& variables) {
  return absl::StrJoin(variables, ", ", [](std::string* out, const VariableSpec& variable) {
    absl::StrAppend(out, Describe(variable));
  });
}

absl::Status CheckSameVariables(const Variables& own, const Variables& planned) {
  const auto same = [](const VariableSpec& a, const VariableSpec& b) {
    return Describe(a) == Describe(b);
  };
  if (std::equal(own.begin(), own.end(), planned.begin(), planned.end(), same)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "this worker's model has the variables ", List(own), "; the job was planned with ",
      List(planned), ". All workers of a cluster must run the same binary on the same data."));
}

absl::Status CheckSameSize(absl::string_view field, uint64_t own, uint64_t planned) {
  if (own == planned) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": this worker's has ", own, " examples; the job was planned with ",
                   planned, ". All workers of a cluster must have the same files."));
}

absl::Status CheckSameFingerprint(uint64_t own, uint64_t planned) {
  if (own == planned || own == 0 || planned == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "data: this worker's examples have the fingerprint ", absl::Hex(own, absl::kZeroPad16),
      ", those that the job was planned with ", absl::Hex(planned, absl::kZeroPad16),
      ": the files differ. All workers of a cluster must have the same ones."));
}

std::string Quoted(const std::string& numerics) {
  return numerics.empty() ? "what it did not say" : absl::StrCat("'", numerics, "'");
}

}  // namespace

std::string MixedNumerics(const JobSpec& spec, const JobPlan& own, const JobPlan& planned) {
  if (!spec.synchronous().allow_mixed_workers()) return "";
  if (CheckSameNumerics(own.numerics(), planned.numerics()).ok()) return "";
  return absl::StrCat("computes on ", Quoted(own.numerics()), ", and the job was planned on ",
                      Quoted(planned.numerics()),
                      ": its bits depend on which worker has a step "
                      "(synchronous.allow_mixed_workers)");
}

absl::Status CheckSamePlan(const JobSpec& spec, const JobPlan& own, const JobPlan& planned) {
  MILLRACE_RETURN_IF_ERROR(CheckSameVariables(own.variables(), planned.variables()));
  MILLRACE_RETURN_IF_ERROR(
      CheckSameSize("data.train", own.train_examples(), planned.train_examples()));
  MILLRACE_RETURN_IF_ERROR(
      CheckSameSize("data.evaluate", own.evaluate_examples(), planned.evaluate_examples()));
  MILLRACE_RETURN_IF_ERROR(
      CheckSameFingerprint(own.data_fingerprint(), planned.data_fingerprint()));
  if (!spec.has_synchronous() || spec.synchronous().allow_mixed_workers()) return absl::OkStatus();
  if (planned.numerics().empty()) return absl::OkStatus();
  return CheckSameNumerics(own.numerics(), planned.numerics());
}

}  // namespace millrace::worker
