// CheckOptimizerSpec, field by field in the order of protos/optimizer.proto.
#include <cmath>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/field_checks.h"
#include "common/job_spec.h"
#include "common/proto_fields.h"
#include "common/status_macros.h"
#include "protos/optimizer.pb.h"

namespace millrace {
namespace {

// Of fields that have a default: unset is allowed.

using NumberCheck = absl::Status (*)(absl::string_view path, double value);

absl::Status CheckIfSet(bool is_set, absl::string_view path, absl::string_view field, double value,
                        NumberCheck check) {
  return is_set ? check(absl::StrCat(path, ".", field), value) : absl::OkStatus();
}

template <typename Spec>
absl::Status CheckRate(const Spec& spec, absl::string_view path) {
  return CheckIfSet(spec.has_learning_rate(), path, "learning_rate", spec.learning_rate(),
                    CheckPositive);
}

template <typename Spec>
absl::Status CheckEpsilon(const Spec& spec, absl::string_view path) {
  return CheckIfSet(spec.has_epsilon(), path, "epsilon", spec.epsilon(), CheckPositive);
}

template <typename Spec>
absl::Status CheckInitialAccumulator(const Spec& spec, absl::string_view path) {
  return CheckIfSet(spec.has_initial_accumulator_value(), path, "initial_accumulator_value",
                    spec.initial_accumulator_value(), CheckNotNegative);
}

absl::Status CheckSgd(const Sgd& sgd, absl::string_view path) {
  MILLRACE_RETURN_IF_ERROR(CheckRate(sgd, path));
  return CheckFraction(absl::StrCat(path, ".momentum"), sgd.momentum());
}

absl::Status CheckRmsProp(const RmsProp& rmsprop, absl::string_view path) {
  MILLRACE_RETURN_IF_ERROR(CheckRate(rmsprop, path));
  MILLRACE_RETURN_IF_ERROR(
      CheckIfSet(rmsprop.has_rho(), path, "rho", rmsprop.rho(), CheckFraction));
  MILLRACE_RETURN_IF_ERROR(CheckEpsilon(rmsprop, path));
  return CheckFraction(absl::StrCat(path, ".momentum"), rmsprop.momentum());
}

// Adam and its kin.
template <typename Spec>
absl::Status CheckAdam(const Spec& adam, absl::string_view path) {
  MILLRACE_RETURN_IF_ERROR(CheckRate(adam, path));
  MILLRACE_RETURN_IF_ERROR(
      CheckIfSet(adam.has_beta_1(), path, "beta_1", adam.beta_1(), CheckFraction));
  MILLRACE_RETURN_IF_ERROR(
      CheckIfSet(adam.has_beta_2(), path, "beta_2", adam.beta_2(), CheckFraction));
  return CheckEpsilon(adam, path);
}

absl::Status CheckAdamW(const AdamW& adamw, absl::string_view path) {
  MILLRACE_RETURN_IF_ERROR(CheckAdam(adamw, path));
  return CheckIfSet(adamw.has_weight_decay(), path, "weight_decay", adamw.weight_decay(),
                    CheckNotNegative);
}

absl::Status CheckAdagrad(const Adagrad& adagrad, absl::string_view path) {
  MILLRACE_RETURN_IF_ERROR(CheckRate(adagrad, path));
  MILLRACE_RETURN_IF_ERROR(CheckInitialAccumulator(adagrad, path));
  return CheckEpsilon(adagrad, path);
}

absl::Status CheckAdadelta(const Adadelta& adadelta, absl::string_view path) {
  MILLRACE_RETURN_IF_ERROR(CheckRate(adadelta, path));
  MILLRACE_RETURN_IF_ERROR(
      CheckIfSet(adadelta.has_rho(), path, "rho", adadelta.rho(), CheckFraction));
  return CheckEpsilon(adadelta, path);
}

absl::Status CheckRatePower(absl::string_view path, double value) {
  if (value <= 0 && std::isfinite(value)) return absl::OkStatus();
  return FieldError(path, absl::StrCat(value), "a finite number of at most 0");
}

absl::Status CheckFtrl(const Ftrl& ftrl, absl::string_view path) {
  MILLRACE_RETURN_IF_ERROR(CheckRate(ftrl, path));
  MILLRACE_RETURN_IF_ERROR(CheckIfSet(ftrl.has_learning_rate_power(), path, "learning_rate_power",
                                      ftrl.learning_rate_power(), CheckRatePower));
  MILLRACE_RETURN_IF_ERROR(CheckInitialAccumulator(ftrl, path));
  MILLRACE_RETURN_IF_ERROR(CheckNotNegative(absl::StrCat(path, ".l1"), ftrl.l1()));
  MILLRACE_RETURN_IF_ERROR(CheckNotNegative(absl::StrCat(path, ".l2"), ftrl.l2()));
  MILLRACE_RETURN_IF_ERROR(
      CheckNotNegative(absl::StrCat(path, ".l2_shrinkage"), ftrl.l2_shrinkage()));
  return CheckNotNegative(absl::StrCat(path, ".beta"), ftrl.beta());
}

absl::Status CheckKind(const OptimizerSpec& spec, absl::string_view path) {
  switch (spec.kind_case()) {
    case OptimizerSpec::kSgd:
      return CheckSgd(spec.sgd(), absl::StrCat(path, ".sgd"));
    case OptimizerSpec::kRmsprop:
      return CheckRmsProp(spec.rmsprop(), absl::StrCat(path, ".rmsprop"));
    case OptimizerSpec::kAdam:
      return CheckAdam(spec.adam(), absl::StrCat(path, ".adam"));
    case OptimizerSpec::kAdamw:
      return CheckAdamW(spec.adamw(), absl::StrCat(path, ".adamw"));
    case OptimizerSpec::kNadam:
      return CheckAdam(spec.nadam(), absl::StrCat(path, ".nadam"));
    case OptimizerSpec::kAdagrad:
      return CheckAdagrad(spec.adagrad(), absl::StrCat(path, ".adagrad"));
    case OptimizerSpec::kAdadelta:
      return CheckAdadelta(spec.adadelta(), absl::StrCat(path, ".adadelta"));
    case OptimizerSpec::kFtrl:
      return CheckFtrl(spec.ftrl(), absl::StrCat(path, ".ftrl"));
    case OptimizerSpec::kLamb:
      return CheckAdam(spec.lamb(), absl::StrCat(path, ".lamb"));
    case OptimizerSpec::KIND_NOT_SET:
      break;
  }
  const auto* kinds = OptimizerSpec::descriptor()->FindOneofByName("kind");
  return NotSet(path, Choice(kinds));
}

absl::Status CheckDecaySteps(absl::string_view path, uint64_t steps) {
  return CheckAtLeastOne(absl::StrCat(path, ".decay_steps"), steps, kMaxSteps);
}

absl::Status CheckAlpha(absl::string_view path, double alpha) {
  return CheckRange(absl::StrCat(path, ".alpha"), alpha, 0, 1);
}

absl::Status CheckPiecewiseConstant(const PiecewiseConstant& spec, absl::string_view path) {
  const std::string boundaries = absl::StrCat(path, ".boundaries");
  if (spec.boundaries().empty()) return NotSet(boundaries, "at least one number");
  for (int i = 0; i < spec.boundaries_size(); ++i) {
    const uint64_t lowest = i == 0 ? 0 : spec.boundaries(i - 1) + 1;
    MILLRACE_RETURN_IF_ERROR(
        CheckNumber(absl::StrCat(boundaries, "[", i, "]"), spec.boundaries(i), lowest, kMaxSteps));
  }
  const std::string rates = absl::StrCat(path, ".learning_rates");
  if (spec.learning_rates_size() != spec.boundaries_size()) {
    return FieldError(rates, absl::StrCat(spec.learning_rates_size(), " numbers"),
                      absl::StrCat(spec.boundaries_size(), ", one from each of the boundaries on"));
  }
  for (int i = 0; i < spec.learning_rates_size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(
        CheckPositive(absl::StrCat(rates, "[", i, "]"), spec.learning_rates(i)));
  }
  return absl::OkStatus();
}

absl::Status CheckExponentialDecay(const ExponentialDecay& spec, absl::string_view path) {
  MILLRACE_RETURN_IF_ERROR(CheckDecaySteps(path, spec.decay_steps()));
  return CheckPositive(absl::StrCat(path, ".decay_rate"), spec.decay_rate());
}

absl::Status CheckInverseTimeDecay(const InverseTimeDecay& spec, absl::string_view path) {
  MILLRACE_RETURN_IF_ERROR(CheckDecaySteps(path, spec.decay_steps()));
  return CheckNotNegative(absl::StrCat(path, ".decay_rate"), spec.decay_rate());
}

absl::Status CheckPolynomialDecay(const PolynomialDecay& spec, absl::string_view path) {
  MILLRACE_RETURN_IF_ERROR(CheckDecaySteps(path, spec.decay_steps()));
  MILLRACE_RETURN_IF_ERROR(CheckIfSet(spec.has_end_learning_rate(), path, "end_learning_rate",
                                      spec.end_learning_rate(), CheckNotNegative));
  return CheckIfSet(spec.has_power(), path, "power", spec.power(), CheckPositive);
}

absl::Status CheckCosineDecay(const CosineDecay& spec, absl::string_view path) {
  MILLRACE_RETURN_IF_ERROR(CheckDecaySteps(path, spec.decay_steps()));
  return CheckAlpha(path, spec.alpha());
}

absl::Status CheckCosineRestarts(const CosineRestarts& spec, absl::string_view path) {
  MILLRACE_RETURN_IF_ERROR(CheckAtLeastOne(absl::StrCat(path, ".first_decay_steps"),
                                           spec.first_decay_steps(), kMaxSteps));
  if (spec.has_t_mul()) {
    MILLRACE_RETURN_IF_ERROR(CheckRange(absl::StrCat(path, ".t_mul"), spec.t_mul(), 1, 1000));
  }
  if (spec.has_m_mul() && !(spec.m_mul() > 0 && spec.m_mul() <= 1)) {
    return FieldError(absl::StrCat(path, ".m_mul"), absl::StrCat(spec.m_mul()),
                      "above 0 and at most 1");
  }
  return CheckAlpha(path, spec.alpha());
}

absl::Status CheckWarmup(const Warmup& warmup, absl::string_view path) {
  MILLRACE_RETURN_IF_ERROR(
      CheckAtLeastOne(absl::StrCat(path, ".steps"), warmup.steps(), kMaxSteps));
  return CheckRange(absl::StrCat(path, ".from"), warmup.from(), 0, 1);
}

absl::Status CheckSchedule(const LearningRateSchedule& spec, absl::string_view path) {
  if (spec.has_warmup()) {
    MILLRACE_RETURN_IF_ERROR(CheckWarmup(spec.warmup(), absl::StrCat(path, ".warmup")));
  }
  switch (spec.kind_case()) {
    case LearningRateSchedule::kPiecewiseConstant:
      return CheckPiecewiseConstant(spec.piecewise_constant(),
                                    absl::StrCat(path, ".piecewise_constant"));
    case LearningRateSchedule::kExponentialDecay:
      return CheckExponentialDecay(spec.exponential_decay(),
                                   absl::StrCat(path, ".exponential_decay"));
    case LearningRateSchedule::kPolynomialDecay:
      return CheckPolynomialDecay(spec.polynomial_decay(), absl::StrCat(path, ".polynomial_decay"));
    case LearningRateSchedule::kCosineDecay:
      return CheckCosineDecay(spec.cosine_decay(), absl::StrCat(path, ".cosine_decay"));
    case LearningRateSchedule::kCosineRestarts:
      return CheckCosineRestarts(spec.cosine_restarts(), absl::StrCat(path, ".cosine_restarts"));
    case LearningRateSchedule::kInverseTimeDecay:
      return CheckInverseTimeDecay(spec.inverse_time_decay(),
                                   absl::StrCat(path, ".inverse_time_decay"));
    case LearningRateSchedule::KIND_NOT_SET:
      break;
  }
  return absl::OkStatus();
}

// At most one of the three; what a set one may be is checked by itself.
absl::Status CheckOneClipping(const OptimizerSpec& spec, absl::string_view path) {
  std::vector<std::string> set;
  if (spec.has_clip_value()) set.push_back("clip_value");
  if (spec.has_clip_norm()) set.push_back("clip_norm");
  if (spec.has_global_clip_norm()) set.push_back("global_clip_norm");
  if (set.size() < 2) return absl::OkStatus();
  return FieldError(absl::StrCat(path, ".", set[1]), "set",
                    absl::StrCat("left out with ", set[0],
                                 ": at most one of clip_value, clip_norm and global_clip_norm"));
}

absl::Status CheckClipping(const OptimizerSpec& spec, absl::string_view path) {
  MILLRACE_RETURN_IF_ERROR(CheckOneClipping(spec, path));
  MILLRACE_RETURN_IF_ERROR(
      CheckIfSet(spec.has_clip_value(), path, "clip_value", spec.clip_value(), CheckPositive));
  MILLRACE_RETURN_IF_ERROR(
      CheckIfSet(spec.has_clip_norm(), path, "clip_norm", spec.clip_norm(), CheckPositive));
  return CheckIfSet(spec.has_global_clip_norm(), path, "global_clip_norm", spec.global_clip_norm(),
                    CheckPositive);
}

}  // namespace

absl::Status CheckOptimizerSpec(const OptimizerSpec& spec, absl::string_view path) {
  MILLRACE_RETURN_IF_ERROR(CheckKind(spec, path));
  const std::string schedule = absl::StrCat(path, ".schedule");
  if (spec.has_schedule() && spec.has_ftrl()) {
    return FieldError(schedule, "set",
                      "left out with ftrl, whose values would all shrink with the learning rate");
  }
  MILLRACE_RETURN_IF_ERROR(CheckSchedule(spec.schedule(), schedule));
  return CheckClipping(spec, path);
}

absl::Status CheckUpdateRule(const UpdateRule& rule, absl::string_view path) {
  MILLRACE_RETURN_IF_ERROR(CheckAllKnown(rule, path));
  switch (rule.kind_case()) {
    case UpdateRule::kMovingAverage:
      return CheckFraction(absl::StrCat(path, ".moving_average.momentum"),
                           rule.moving_average().momentum());
    case UpdateRule::kFrozen:
      return absl::OkStatus();
    case UpdateRule::KIND_NOT_SET:
      break;
  }
  return NotSet(path, absl::StrCat("one of ", FieldNames(UpdateRule::descriptor())));
}

}  // namespace millrace
