#include "worker/training/plan_check.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/status_macros.h"

namespace millrace::worker {
namespace {

using Variables = google::protobuf::RepeatedPtrField<VariableSpec>;

std::string Describe(const VariableSpec& variable) {
  return absl::StrCat("'", variable.name(), "' [", absl::StrJoin(variable.shape(), ", "), "]");
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

}  // namespace

absl::Status CheckSamePlan(const JobPlan& own, const JobPlan& planned) {
  MILLRACE_RETURN_IF_ERROR(CheckSameVariables(own.variables(), planned.variables()));
  MILLRACE_RETURN_IF_ERROR(
      CheckSameSize("data.train", own.train_examples(), planned.train_examples()));
  MILLRACE_RETURN_IF_ERROR(
      CheckSameSize("data.evaluate", own.evaluate_examples(), planned.evaluate_examples()));
  const uint64_t own_data = own.data_fingerprint();
  const uint64_t planned_data = planned.data_fingerprint();
  if (own_data == planned_data || own_data == 0 || planned_data == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "data: this worker's examples have the fingerprint ", absl::Hex(own_data, absl::kZeroPad16),
      ", those that the job was planned with ", absl::Hex(planned_data, absl::kZeroPad16),
      ": the files differ. All workers of a cluster must have the same ones."));
}

}  // namespace millrace::worker
