// CheckJobSpec, field by field in the order of the .proto files.
#include <string>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/field_checks.h"
#include "common/job_spec.h"
#include "common/proto_duration.h"
#include "common/proto_fields.h"
#include "common/spec_checks.h"
#include "common/status_macros.h"
#include "re2/re2.h"

namespace millrace {
namespace {

absl::Status CheckMode(const JobSpec& spec) {
  if (spec.has_synchronous()) {
    MILLRACE_RETURN_IF_ERROR(
        CheckAtLeastOne("synchronous.replicas", spec.synchronous().replicas(), kMaxReplicas));
    return CheckNumber("synchronous.backup", spec.synchronous().backup(), 0, kMaxBackup);
  }
  return CheckNumber("asynchronous.staleness_bound", spec.asynchronous().staleness_bound(), 0,
                     kMaxStalenessBound);
}

absl::Status CheckLength(const JobSpec& spec) {
  switch (spec.length_case()) {
    case JobSpec::kEpochs:
      return CheckAtLeastOne("epochs", spec.epochs(), kMaxSteps);
    case JobSpec::kSteps:
      return CheckAtLeastOne("steps", spec.steps(), kMaxSteps);
    case JobSpec::LENGTH_NOT_SET:
      break;
  }
  return NotSet("epochs", "at least 1, or `steps` set in its place");
}

// As it was sent.
std::string ShowDuration(const google::protobuf::Duration& duration) {
  if (IsValid(duration)) return absl::FormatDuration(FromProto(duration));
  return absl::StrCat("seconds: ", duration.seconds(), " nanos: ", duration.nanos());
}

// Unset is allowed.
absl::Status CheckDuration(absl::string_view path, bool is_set,
                           const google::protobuf::Duration& duration,
                           absl::Duration at_least = absl::ZeroDuration()) {
  const absl::Duration value = FromProto(duration);
  const bool is_large_enough =
      at_least > absl::ZeroDuration() ? value >= at_least : value > absl::ZeroDuration();
  if (!is_set || (IsValid(duration) && is_large_enough)) return absl::OkStatus();
  google::protobuf::Duration of_a_second = duration;
  of_a_second.set_seconds(duration.seconds() < 0 ? -1 : duration.seconds() > 0 ? 1 : 0);
  const bool nanos_fit = IsValid(of_a_second);
  return FieldError(path, ShowDuration(duration),
                    absl::StrCat("a duration ",
                                 at_least > absl::ZeroDuration()
                                     ? absl::StrCat("of at least ", absl::FormatDuration(at_least))
                                     : "above 0",
                                 ", of at most ", kMaxDurationSeconds, "s",
                                 nanos_fit ? "" : ", the nanos a part of a second of its sign"));
}

absl::Status CheckAbsolutePath(absl::string_view path, const std::string& value) {
  if (value.empty()) return NotSet(path, "an absolute path");
  MILLRACE_RETURN_IF_ERROR(CheckPathLength(path, value));
  const std::string shown = absl::StrCat("'", absl::CHexEscape(value), "'");
  if (!absl::StartsWith(value, "/")) return FieldError(path, shown, "an absolute path");
  if (value.find('\0') == std::string::npos) return absl::OkStatus();
  return FieldError(path, shown, "a path that has no byte that is 0");
}

absl::Status CheckCheckpoints(const CheckpointSpec& spec) {
  if (!spec.directory().empty()) {
    MILLRACE_RETURN_IF_ERROR(CheckAbsolutePath("checkpoints.directory", spec.directory()));
  }
  MILLRACE_RETURN_IF_ERROR(
      CheckNumber("checkpoints.every_steps", spec.every_steps(), 0, kMaxSteps));
  MILLRACE_RETURN_IF_ERROR(CheckDuration("checkpoints.period", spec.has_period(), spec.period()));
  MILLRACE_RETURN_IF_ERROR(CheckDuration("checkpoints.keep_one_every", spec.has_keep_one_every(),
                                         spec.keep_one_every(), absl::Seconds(1)));
  if (!spec.directory().empty() || spec.ByteSizeLong() == 0) return absl::OkStatus();
  return NotSet("checkpoints.directory",
                "an absolute path, where other fields of checkpoints are set");
}

absl::Status CheckRule(const NameRule& rule, absl::string_view path) {
  const RE2 pattern(rule.pattern(), RE2::Quiet);
  if (!pattern.ok()) {
    return FieldError(
        absl::StrCat(path, ".pattern"),
        absl::StrCat("'", absl::CHexEscape(rule.pattern()), "' (", pattern.error(), ")"),
        "a regular expression in RE2's syntax");
  }
  std::string error;
  if (pattern.CheckRewriteString(rule.replacement(), &error)) return absl::OkStatus();
  return FieldError(absl::StrCat(path, ".replacement"),
                    absl::StrCat("'", absl::CHexEscape(rule.replacement()), "' (", error, ")"),
                    absl::StrCat("a name in which \\1 to \\", pattern.NumberOfCapturingGroups(),
                                 " stand for groups of the pattern"));
}

absl::Status CheckWarmStart(const WarmStartSpec& spec) {
  MILLRACE_RETURN_IF_ERROR(CheckAbsolutePath("warm_start.path", spec.path()));
  for (int i = 0; i < spec.rules_size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(CheckRule(spec.rules(i), absl::StrCat("warm_start.rules[", i, "]")));
  }
  return absl::OkStatus();
}

// Where the job begins.
absl::Status CheckBeginning(const JobSpec& spec) {
  if (spec.has_restore() && spec.has_warm_start()) {
    return FieldError("warm_start", "set, and so is restore", "left out, or restore left out");
  }
  if (spec.has_restore()) {
    MILLRACE_RETURN_IF_ERROR(CheckAbsolutePath("restore.directory", spec.restore().directory()));
  }
  return spec.has_warm_start() ? CheckWarmStart(spec.warm_start()) : absl::OkStatus();
}

}  // namespace

absl::Status CheckJobSpec(const JobSpec& spec) {
  MILLRACE_RETURN_IF_ERROR(CheckAllKnown(spec, "job"));
  MILLRACE_RETURN_IF_ERROR(CheckName("name", spec.name()));
  MILLRACE_RETURN_IF_ERROR(CheckModelSpec(spec.model()));
  MILLRACE_RETURN_IF_ERROR(CheckDataSpec(spec.data()));
  MILLRACE_RETURN_IF_ERROR(CheckOutputLabels(spec.model(), spec.data().train()));
  MILLRACE_RETURN_IF_ERROR(CheckEvaluationLabels(spec.model(), spec.data()));
  MILLRACE_RETURN_IF_ERROR(CheckOptimizerSpec(spec.optimizer(), "optimizer"));
  MILLRACE_RETURN_IF_ERROR(CheckMode(spec));
  MILLRACE_RETURN_IF_ERROR(CheckAtLeastOne("batch_size", spec.batch_size(), kMaxBatchSize));
  MILLRACE_RETURN_IF_ERROR(CheckLength(spec));
  MILLRACE_RETURN_IF_ERROR(CheckEvaluationSpec(spec));
  MILLRACE_RETURN_IF_ERROR(
      CheckNumber("placement.shards", spec.placement().shards(), 0, kMaxShards));
  MILLRACE_RETURN_IF_ERROR(
      CheckDuration("cuts.period", spec.cuts().has_period(), spec.cuts().period()));
  MILLRACE_RETURN_IF_ERROR(CheckCheckpoints(spec.checkpoints()));
  return CheckBeginning(spec);
}

}  // namespace millrace
