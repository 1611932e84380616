// CheckJobSpec, field by field in the order of the .proto files.
#include <cmath>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/job_spec.h"
#include "common/plain_name.h"
#include "common/proto_duration.h"
#include "common/proto_fields.h"
#include "common/status_macros.h"
#include "google/protobuf/repeated_field.h"
#include "re2/re2.h"

namespace millrace {
namespace {

using ::google::protobuf::RepeatedField;

constexpr size_t kMaxNameLength = 100;
constexpr size_t kMaxPathBytes = 4096;    // As on Linux.
constexpr uint32_t kMaxWindow = 1 << 16;  // Of a kernel, a pool, a stride.

absl::Status NotSet(absl::string_view path, absl::string_view allowed) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": not set; must be ", allowed));
}

absl::Status CheckNumber(absl::string_view path, uint64_t value, uint64_t lowest,
                         uint64_t highest) {
  if (lowest <= value && value <= highest) return absl::OkStatus();
  return FieldError(path, absl::StrCat(value), absl::StrCat("from ", lowest, " to ", highest));
}

absl::Status CheckAtLeastOne(absl::string_view path, uint64_t value, uint64_t highest) {
  if (value == 0) return FieldError(path, "0", "at least 1");
  return CheckNumber(path, value, 1, highest);
}

absl::Status CheckName(absl::string_view path, const std::string& name) {
  if (name.size() <= kMaxNameLength && IsPlainName(name)) return absl::OkStatus();
  return FieldError(path, absl::StrCat("'", name, "'"),
                    absl::StrCat("at most ", kMaxNameLength, " letters, digits, '_', '-' and '.'"));
}

// Hyperparameters are used as float32 (in which a number below 1.2e-38 counts as 0), so that is
// where they have to keep their range.

absl::Status CheckPositive(absl::string_view path, double value) {
  const float used = static_cast<float>(value);
  if (used > 0 && std::isnormal(used)) return absl::OkStatus();
  const bool in_double = value > 0 && std::isfinite(value);
  return FieldError(path, absl::StrCat(value),
                    absl::StrCat("a finite number above 0", in_double ? " as a float32" : ""));
}

// At least 0, below 1.
absl::Status CheckFraction(absl::string_view path, double value) {
  if (value >= 0 && static_cast<float>(value) < 1) return absl::OkStatus();
  return FieldError(
      path, absl::StrCat(value),
      absl::StrCat("at least 0 and below 1", value < 1 && value >= 0 ? " as a float32" : ""));
}

absl::Status CheckSgd(const Sgd& sgd, absl::string_view path) {
  if (sgd.has_learning_rate()) {
    MILLRACE_RETURN_IF_ERROR(
        CheckPositive(absl::StrCat(path, ".learning_rate"), sgd.learning_rate()));
  }
  return CheckFraction(absl::StrCat(path, ".momentum"), sgd.momentum());
}

absl::Status CheckRmsProp(const RmsProp& rmsprop, absl::string_view path) {
  if (rmsprop.has_learning_rate()) {
    MILLRACE_RETURN_IF_ERROR(
        CheckPositive(absl::StrCat(path, ".learning_rate"), rmsprop.learning_rate()));
  }
  if (rmsprop.has_rho()) {
    MILLRACE_RETURN_IF_ERROR(CheckFraction(absl::StrCat(path, ".rho"), rmsprop.rho()));
  }
  if (rmsprop.has_epsilon()) {
    MILLRACE_RETURN_IF_ERROR(CheckPositive(absl::StrCat(path, ".epsilon"), rmsprop.epsilon()));
  }
  return CheckFraction(absl::StrCat(path, ".momentum"), rmsprop.momentum());
}

absl::Status CheckAdam(const Adam& adam, absl::string_view path) {
  if (adam.has_learning_rate()) {
    MILLRACE_RETURN_IF_ERROR(
        CheckPositive(absl::StrCat(path, ".learning_rate"), adam.learning_rate()));
  }
  if (adam.has_beta_1()) {
    MILLRACE_RETURN_IF_ERROR(CheckFraction(absl::StrCat(path, ".beta_1"), adam.beta_1()));
  }
  if (adam.has_beta_2()) {
    MILLRACE_RETURN_IF_ERROR(CheckFraction(absl::StrCat(path, ".beta_2"), adam.beta_2()));
  }
  if (adam.has_epsilon()) {
    MILLRACE_RETURN_IF_ERROR(CheckPositive(absl::StrCat(path, ".epsilon"), adam.epsilon()));
  }
  return absl::OkStatus();
}

// A window's sizes: none (where that has a meaning), one, or height and width.
absl::Status CheckWindow(absl::string_view path, const RepeatedField<uint32_t>& sizes,
                         bool required) {
  if (sizes.size() > 2 || (required && sizes.empty())) {
    return FieldError(path, absl::StrCat(sizes.size(), " numbers"),
                      absl::StrCat(required ? "" : "none, ", "one number, or height and width"));
  }
  for (int i = 0; i < sizes.size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(
        CheckAtLeastOne(absl::StrCat(path, "[", i, "]"), sizes.Get(i), kMaxWindow));
  }
  return absl::OkStatus();
}

absl::Status CheckConv2D(const Conv2D& conv2d, absl::string_view path) {
  MILLRACE_RETURN_IF_ERROR(
      CheckAtLeastOne(absl::StrCat(path, ".filters"), conv2d.filters(), kMaxUnits));
  MILLRACE_RETURN_IF_ERROR(
      CheckWindow(absl::StrCat(path, ".kernel_size"), conv2d.kernel_size(), /*required=*/true));
  return CheckWindow(absl::StrCat(path, ".strides"), conv2d.strides(), /*required=*/false);
}

absl::Status CheckMaxPool2D(const MaxPool2D& pool, absl::string_view path) {
  MILLRACE_RETURN_IF_ERROR(
      CheckWindow(absl::StrCat(path, ".pool_size"), pool.pool_size(), /*required=*/false));
  return CheckWindow(absl::StrCat(path, ".strides"), pool.strides(), /*required=*/false);
}

absl::Status CheckLayer(const LayerSpec& layer, absl::string_view path) {
  MILLRACE_RETURN_IF_ERROR(CheckName(absl::StrCat(path, ".name"), layer.name()));
  switch (layer.kind_case()) {
    case LayerSpec::kDense:
      return CheckAtLeastOne(absl::StrCat(path, ".dense.units"), layer.dense().units(), kMaxUnits);
    case LayerSpec::kConv2D:
      return CheckConv2D(layer.conv2d(), absl::StrCat(path, ".conv2d"));
    case LayerSpec::kMaxPool2D:
      return CheckMaxPool2D(layer.max_pool2d(), absl::StrCat(path, ".max_pool2d"));
    case LayerSpec::kDropout:
      return CheckFraction(absl::StrCat(path, ".dropout.rate"), layer.dropout().rate());
    case LayerSpec::kFlatten:
    case LayerSpec::kActivation:
      return absl::OkStatus();
    case LayerSpec::KIND_NOT_SET:
      break;
  }
  return NotSet(path, "one of dense, conv2d, max_pool2d, flatten, dropout, activation");
}

absl::Status CheckLayers(const ModelSpec& model) {
  if (model.layers().empty()) return NotSet("model.layers", "at least one layer");
  if (model.layers_size() > kMaxLayers) {
    return FieldError("model.layers", absl::StrCat(model.layers_size(), " layers"),
                      absl::StrCat("at most ", kMaxLayers));
  }
  absl::flat_hash_set<std::string> names;
  for (int i = 0; i < model.layers_size(); ++i) {
    const std::string path = absl::StrCat("model.layers[", i, "]");
    MILLRACE_RETURN_IF_ERROR(CheckLayer(model.layers(i), path));
    const std::string name = LayerName(model, i);
    if (!names.insert(name).second) {
      return FieldError(absl::StrCat(path, ".name"), absl::StrCat("'", name, "'"),
                        "different from the names of the layers before it");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckModel(const ModelSpec& model) {
  MILLRACE_RETURN_IF_ERROR(CheckLayers(model));
  if (model.loss() == LOSS_UNSPECIFIED) {
    return NotSet("model.loss", absl::StrCat("one of ", ValueNames(Loss_descriptor())));
  }
  absl::flat_hash_set<int> seen;
  for (int i = 0; i < model.metrics_size(); ++i) {
    const std::string path = absl::StrCat("model.metrics[", i, "]");
    const Metric metric = model.metrics(i);
    if (metric == METRIC_UNSPECIFIED) {
      return NotSet(path, absl::StrCat("one of ", ValueNames(Metric_descriptor())));
    }
    if (!seen.insert(metric).second) {
      return FieldError(path, Metric_Name(metric), "named once");
    }
    if (metric == AUC && model.loss() != BINARY_CROSSENTROPY) {
      return FieldError(path, "AUC", "left out, or model.loss BINARY_CROSSENTROPY");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPathLength(absl::string_view path, const std::string& file) {
  if (file.size() <= kMaxPathBytes) return absl::OkStatus();
  return FieldError(path, absl::StrCat(file.size(), " bytes"),
                    absl::StrCat("at most ", kMaxPathBytes, " bytes"));
}

absl::Status CheckFile(absl::string_view path, const std::string& file, const DataSpec& data) {
  if (file.empty()) return NotSet(path, "the name of a file");
  MILLRACE_RETURN_IF_ERROR(CheckPathLength(path, file));
  if (data.directory().empty() && !absl::StartsWith(file, "/")) {
    return NotSet("data.directory",
                  absl::StrCat("the folder of '", file, "' (millrace --data=DIR sets it)"));
  }
  return absl::OkStatus();
}

absl::Status CheckFormat(const Dataset& set, absl::string_view path, const DataSpec& data) {
  switch (set.format_case()) {
    case Dataset::kIdx:
      MILLRACE_RETURN_IF_ERROR(
          CheckFile(absl::StrCat(path, ".idx.images"), set.idx().images(), data));
      return CheckFile(absl::StrCat(path, ".idx.labels"), set.idx().labels(), data);
    case Dataset::kLibsvm:
      MILLRACE_RETURN_IF_ERROR(
          CheckFile(absl::StrCat(path, ".libsvm.file"), set.libsvm().file(), data));
      return CheckAtLeastOne(absl::StrCat(path, ".libsvm.features"), set.libsvm().features(),
                             kMaxUnits);
    case Dataset::FORMAT_NOT_SET:
      break;
  }
  return NotSet(path, "idx or libsvm");
}

absl::Status CheckDataset(const Dataset& set, absl::string_view path, const DataSpec& data) {
  MILLRACE_RETURN_IF_ERROR(CheckFormat(set, path, data));
  const uint64_t begin = set.range().begin();
  const uint64_t end = set.range().end();
  if (end != 0 && begin >= end) {
    return FieldError(absl::StrCat(path, ".range"), absl::StrCat("[", begin, ", ", end, ")"),
                      "not empty: begin below end, or end 0 for all the rest");
  }
  return absl::OkStatus();
}

absl::Status CheckData(const DataSpec& data) {
  MILLRACE_RETURN_IF_ERROR(CheckPathLength("data.directory", data.directory()));
  MILLRACE_RETURN_IF_ERROR(CheckDataset(data.train(), "data.train", data));
  return data.has_evaluate() ? CheckDataset(data.evaluate(), "data.evaluate", data)
                             : absl::OkStatus();
}

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

absl::Status CheckOptimizerSpec(const OptimizerSpec& spec, absl::string_view path) {
  switch (spec.kind_case()) {
    case OptimizerSpec::kSgd:
      return CheckSgd(spec.sgd(), absl::StrCat(path, ".sgd"));
    case OptimizerSpec::kRmsprop:
      return CheckRmsProp(spec.rmsprop(), absl::StrCat(path, ".rmsprop"));
    case OptimizerSpec::kAdam:
      return CheckAdam(spec.adam(), absl::StrCat(path, ".adam"));
    case OptimizerSpec::KIND_NOT_SET:
      break;
  }
  return NotSet(path, absl::StrCat("one of ", FieldNames(OptimizerSpec::descriptor())));
}

absl::Status CheckJobSpec(const JobSpec& spec) {
  MILLRACE_RETURN_IF_ERROR(CheckAllKnown(spec, "job"));
  MILLRACE_RETURN_IF_ERROR(CheckName("name", spec.name()));
  MILLRACE_RETURN_IF_ERROR(CheckModel(spec.model()));
  MILLRACE_RETURN_IF_ERROR(CheckData(spec.data()));
  MILLRACE_RETURN_IF_ERROR(CheckOptimizerSpec(spec.optimizer(), "optimizer"));
  MILLRACE_RETURN_IF_ERROR(CheckMode(spec));
  MILLRACE_RETURN_IF_ERROR(CheckAtLeastOne("batch_size", spec.batch_size(), kMaxBatchSize));
  MILLRACE_RETURN_IF_ERROR(CheckLength(spec));
  MILLRACE_RETURN_IF_ERROR(
      CheckNumber("evaluation.batch_size", spec.evaluation().batch_size(), 0, kMaxBatchSize));
  MILLRACE_RETURN_IF_ERROR(
      CheckNumber("placement.shards", spec.placement().shards(), 0, kMaxShards));
  MILLRACE_RETURN_IF_ERROR(
      CheckDuration("cuts.period", spec.cuts().has_period(), spec.cuts().period()));
  MILLRACE_RETURN_IF_ERROR(CheckCheckpoints(spec.checkpoints()));
  return CheckBeginning(spec);
}

}  // namespace millrace
