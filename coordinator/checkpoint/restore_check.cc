#include "coordinator/checkpoint/restore_check.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/types/optional.h"
#include "common/job_spec.h"
#include "common/status_macros.h"
#include "coordinator/checkpoint/field_difference.h"

namespace millrace::coordinator {
namespace {

// What gives a step its meaning, and a shard its slots, written out in one way.
JobSpec Essence(const JobSpec& spec) {
  JobSpec essence;
  *essence.mutable_model() = spec.model();
  essence.mutable_model()->clear_metrics();
  for (OutputSpec& output : *essence.mutable_model()->mutable_outputs()) output.clear_metrics();
  // Which variables may be frozen or unfrozen is for CheckRestoredPlan.
  for (LayerSpec& layer : *essence.mutable_model()->mutable_layers()) layer.clear_trainable();
  *essence.mutable_data() = spec.data();
  essence.mutable_data()->clear_directory();
  essence.set_batch_size(spec.batch_size());
  essence.set_seed(spec.seed());
  if (const uint32_t replicas = Replicas(spec); replicas > 0) {
    essence.mutable_synchronous()->set_replicas(replicas);
  } else {
    essence.mutable_asynchronous();
  }
  return essence;
}

// Of two optimizers that are compared. A momentum may change, but not come or go.
double MomentumOf(double ours, double other) { return ours > 0 && other > 0 ? 1 : ours; }

// What of an optimizer decides which slots it has: its kind, and little else; `other`: the one that
// it is compared with.
OptimizerSpec SlotsOf(const OptimizerSpec& spec, const OptimizerSpec& other) {
  OptimizerSpec slots;
  switch (spec.kind_case()) {
    case OptimizerSpec::kSgd:
      slots.mutable_sgd()->set_momentum(MomentumOf(spec.sgd().momentum(), other.sgd().momentum()));
      break;
    case OptimizerSpec::kRmsprop:
      slots.mutable_rmsprop()->set_momentum(
          MomentumOf(spec.rmsprop().momentum(), other.rmsprop().momentum()));
      slots.mutable_rmsprop()->set_centered(spec.rmsprop().centered());
      break;
    case OptimizerSpec::kAdam:
      slots.mutable_adam()->set_amsgrad(spec.adam().amsgrad());
      break;
    case OptimizerSpec::kAdamw:
      slots.mutable_adamw()->set_amsgrad(spec.adamw().amsgrad());
      break;
    case OptimizerSpec::kNadam:
      slots.mutable_nadam();
      break;
    case OptimizerSpec::kAdagrad:
      slots.mutable_adagrad();
      break;
    case OptimizerSpec::kAdadelta:
      slots.mutable_adadelta();
      break;
    case OptimizerSpec::kFtrl:
      slots.mutable_ftrl();
      break;
    case OptimizerSpec::kLamb:
      slots.mutable_lamb();
      break;
    case OptimizerSpec::KIND_NOT_SET:
      break;
  }
  return slots;
}

absl::Status Mismatch(const FieldDifference& found, const CheckpointManifest& manifest) {
  return absl::InvalidArgumentError(absl::StrCat(found.path, ": ", found.a, "; must be ", found.b,
                                                 " as in the checkpoint of job ", manifest.job_id(),
                                                 " at step ", manifest.step(), " (restore)"));
}

std::string LengthOf(const JobSpec& spec) {
  return spec.length_case() == JobSpec::kEpochs ? absl::StrCat("epochs: ", spec.epochs())
                                                : absl::StrCat("steps: ", spec.steps());
}

// The last version of a synchronous job may lack contributions; it cannot get them later.
absl::Status CheckLength(const JobSpec& spec, const CheckpointManifest& manifest) {
  const uint64_t steps = TotalSteps(spec, manifest.plan().train_examples());
  const uint64_t replicas = Replicas(spec);
  if (replicas > 0 && manifest.step() % replicas > 0 && steps != manifest.step()) {
    return absl::InvalidArgumentError(absl::StrCat(
        LengthOf(spec), "; must be ", manifest.step(), " steps as in the checkpoint of job ",
        manifest.job_id(), ", which ended in the middle of a version of ", replicas,
        " replicas (restore); an earlier checkpoint can be gone on from"));
  }
  if (steps >= manifest.step()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(LengthOf(spec), "; must be ", manifest.step(), " steps or more (here ", steps,
                   "), which is where the checkpoint of job ", manifest.job_id(), " is (restore)"));
}

std::string Describe(const VariableSpec& variable) {
  return absl::StrCat("'", variable.name(), "' [", absl::StrJoin(variable.shape(), ", "), "]");
}

std::string DescribeAt(const JobPlan& plan, int variable) {
  return variable < plan.variables_size() ? Describe(plan.variables(variable)) : "none";
}

const char* PushedFor(const VariableSpec& variable) {
  return variable.update().has_moving_average() ? "a statistic" : "a gradient";
}

// A variable that is frozen on either side takes nothing there that could be mistaken.
absl::Status CheckRestoredRule(int index, const VariableSpec& ours, const VariableSpec& theirs) {
  if (ours.update().has_frozen() || theirs.update().has_frozen()) return absl::OkStatus();
  if (ours.update().kind_case() == theirs.update().kind_case()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "model: a step brings ", PushedFor(ours), " for its variable ", index, ", ", Describe(ours),
      "; must be ", PushedFor(theirs), " as in the checkpoint (restore)"));
}

}  // namespace

absl::Status CheckRestoredSpec(const JobSpec& spec, const CheckpointManifest& manifest) {
  auto found = FindDifference(Essence(spec), Essence(manifest.spec()), "");
  // A mode is no field's path: it may be unset.
  if (found && found->path.empty()) found->path = "mode";
  if (found) return Mismatch(*found, manifest);
  const OptimizerSpec& ours = spec.optimizer();
  const OptimizerSpec& theirs = manifest.spec().optimizer();
  found = FindDifference(SlotsOf(ours, theirs), SlotsOf(theirs, ours), "optimizer");
  if (found) return Mismatch(*found, manifest);
  return CheckLength(spec, manifest);
}

absl::Status CheckRestoredPlan(const JobPlan& plan, const JobPlan& saved) {
  for (int i = 0; i < std::max(plan.variables_size(), saved.variables_size()); ++i) {
    const std::string ours = DescribeAt(plan, i);
    const std::string theirs = DescribeAt(saved, i);
    if (ours != theirs) {
      return absl::InvalidArgumentError(absl::StrCat("model: its variable ", i, " is ", ours,
                                                     "; must be ", theirs,
                                                     " as in the checkpoint (restore)"));
    }
    MILLRACE_RETURN_IF_ERROR(CheckRestoredRule(i, plan.variables(i), saved.variables(i)));
  }
  if (plan.train_examples() != saved.train_examples()) {
    return absl::InvalidArgumentError(absl::StrCat("data.train: ", plan.train_examples(),
                                                   " examples; must be ", saved.train_examples(),
                                                   " as in the checkpoint (restore)"));
  }
  if (plan.data_fingerprint() == 0 || saved.data_fingerprint() == 0 ||
      plan.data_fingerprint() == saved.data_fingerprint()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "data: other examples than the checkpoint's (their fingerprint is %016x; must be %016x as in "
      "the checkpoint) (restore)",
      plan.data_fingerprint(), saved.data_fingerprint()));
}

}  // namespace millrace::coordinator
