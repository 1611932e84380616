#include "common/job_spec.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/proto_duration.h"
#include "common/steps_per_epoch.h"
#include "common/text_format.h"
#include "google/protobuf/descriptor.h"

namespace millrace {
namespace {

constexpr uint32_t kDefaultStalenessBound = 4;
constexpr uint32_t kDefaultEvaluationBatchSize = 256;
constexpr absl::Duration kDefaultCutPeriod = absl::Seconds(10);
constexpr absl::Duration kDefaultCheckpointPeriod = absl::Minutes(10);
constexpr uint32_t kDefaultCheckpointsToKeep = 3;

// "FILE:LINE:COLUMN: MESSAGE".
std::string Text(const TextFormatError& error, absl::string_view file_name) {
  if (error.line == 0) return absl::StrCat(file_name, ": ", error.message);
  return absl::StrCat(file_name, ":", error.line, ":", error.column, ": ", error.message);
}

std::vector<std::string> AdamSlots(bool amsgrad) {
  if (amsgrad) return {"m", "v", "v_hat"};
  return {"m", "v"};
}

}  // namespace

absl::StatusOr<JobSpec> ParseJobSpec(absl::string_view text, absl::string_view file_name) {
  JobSpec spec;
  const std::vector<TextFormatError> errors = ParseTextFormat(text, &spec);
  if (!errors.empty()) {
    return absl::InvalidArgumentError(
        absl::StrJoin(errors, "\n", [&](std::string* out, const TextFormatError& error) {
          absl::StrAppend(out, Text(error, file_name));
        }));
  }
  return spec;
}

uint32_t StalenessBound(const JobSpec& spec) {
  if (spec.has_synchronous()) return 0;
  return spec.asynchronous().has_staleness_bound() ? spec.asynchronous().staleness_bound()
                                                   : kDefaultStalenessBound;
}

bool PullsAhead(const JobSpec& spec) {
  return spec.asynchronous().pull_ahead() && StalenessBound(spec) > 0;
}

uint32_t Replicas(const JobSpec& spec) {
  return spec.has_synchronous() ? spec.synchronous().replicas() : 0;
}

absl::Duration CutPeriod(const JobSpec& spec) {
  return spec.cuts().has_period() ? FromProto(spec.cuts().period()) : kDefaultCutPeriod;
}

uint64_t CheckpointEverySteps(const JobSpec& spec) {
  const uint64_t every = spec.checkpoints().every_steps();
  const uint64_t replicas = std::max<uint64_t>(Replicas(spec), 1);
  return (every + replicas - 1) / replicas * replicas;
}

absl::Duration CheckpointPeriod(const JobSpec& spec) {
  const CheckpointSpec& checkpoints = spec.checkpoints();
  if (checkpoints.has_period()) return FromProto(checkpoints.period());
  return checkpoints.every_steps() > 0 ? absl::InfiniteDuration() : kDefaultCheckpointPeriod;
}

uint32_t CheckpointsToKeep(const JobSpec& spec) {
  const uint32_t keep = spec.checkpoints().keep();
  return keep == 0 ? kDefaultCheckpointsToKeep : keep;
}

absl::Duration CheckpointKeptPeriod(const JobSpec& spec) {
  const CheckpointSpec& checkpoints = spec.checkpoints();
  return checkpoints.has_keep_one_every() ? FromProto(checkpoints.keep_one_every())
                                          : absl::InfiniteDuration();
}

uint32_t EvaluationBatchSize(const JobSpec& spec) {
  const uint32_t size = spec.evaluation().batch_size();
  return size == 0 ? kDefaultEvaluationBatchSize : size;
}

std::vector<std::string> OptimizerSlots(const OptimizerSpec& spec) {
  std::vector<std::string> slots;
  const auto has_momentum = [](double momentum) { return static_cast<float>(momentum) != 0; };
  switch (spec.kind_case()) {
    case OptimizerSpec::kSgd:
      if (has_momentum(spec.sgd().momentum())) slots = {"momentum"};
      break;
    case OptimizerSpec::kRmsprop:
      slots = {"rms"};
      if (has_momentum(spec.rmsprop().momentum())) slots.push_back("momentum");
      if (spec.rmsprop().centered()) slots.push_back("mean");
      break;
    case OptimizerSpec::kAdam:
      slots = AdamSlots(spec.adam().amsgrad());
      break;
    case OptimizerSpec::kAdamw:
      slots = AdamSlots(spec.adamw().amsgrad());
      break;
    case OptimizerSpec::kNadam:
      slots = {"m", "v"};
      break;
    case OptimizerSpec::kAdagrad:
      slots = {"accumulator"};
      break;
    case OptimizerSpec::kAdadelta:
      slots = {"accumulated_grad", "accumulated_delta_var"};
      break;
    case OptimizerSpec::kFtrl:
      slots = {"accumulator", "linear"};
      break;
    case OptimizerSpec::kLamb:
      slots = {"m", "v"};
      break;
    case OptimizerSpec::KIND_NOT_SET:
      break;
  }
  return slots;
}

bool NeedsWholeVariables(const OptimizerSpec& spec) {
  return spec.has_lamb() || spec.has_clip_norm();
}

uint64_t TotalSteps(const JobSpec& spec, uint64_t train_examples) {
  if (spec.length_case() == JobSpec::kSteps) return std::min(spec.steps(), kMaxSteps);
  const uint64_t epoch = StepsPerEpoch(train_examples, spec.batch_size());
  if (epoch != 0 && spec.epochs() > kMaxSteps / epoch) return kMaxSteps;
  return spec.epochs() * epoch;
}

std::string LayerName(const ModelSpec& model, int layer) {
  const LayerSpec& spec = model.layers(layer);
  if (!spec.name().empty()) return spec.name();
  return absl::StrCat(LayerKind(spec), "_", layer);
}

std::string LayerKind(const LayerSpec& layer) {
  return LayerSpec::descriptor()->FindFieldByNumber(layer.kind_case())->name();
}

std::string LayerKinds() {
  const auto* kinds = LayerSpec::descriptor()->FindOneofByName("kind");
  std::vector<std::string> names;
  for (int i = 0; i < kinds->field_count(); ++i) names.push_back(kinds->field(i)->name());
  return absl::StrJoin(names, ", ");
}

}  // namespace millrace
