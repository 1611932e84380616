#include <cmath>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/keras/keras_config.h"
#include "client/keras/keras_training.h"
#include "client/keras/keras_values.h"
#include "common/job_spec.h"
#include "common/proto_fields.h"
#include "common/status_macros.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace millrace::client {
namespace {

// The number of a field, where there is one; a field of ours is then set.
template <typename Set>
absl::Status TakeTo(KerasConfig* config, const std::string& field, Set set) {
  MILLRACE_ASSIGN_OR_RETURN(const double value, config->TakeNumber(field, NAN));
  if (!std::isnan(value)) set(ShortNumber(value));
  return absl::OkStatus();
}

absl::StatusOr<bool> TakeFlag(KerasConfig* config, const std::string& field) {
  return config->TakeBool(field, false);
}

absl::StatusOr<uint64_t> TakeSteps(KerasConfig* config, const std::string& field) {
  const KerasJson& value = config->Take(field);
  const double steps = value.is_number() ? value.get<double>() : 0;
  if (steps >= 1 && steps <= 9e15 && steps == std::floor(steps)) {
    return static_cast<uint64_t>(steps);
  }
  return KerasFieldError(field, value, "a whole number, at least 1");
}

// Of what changes the learning rate.
using Schedule = LearningRateSchedule;

absl::Status TakeExponential(KerasConfig* config, Schedule* schedule) {
  ExponentialDecay* decay = schedule->mutable_exponential_decay();
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t steps, TakeSteps(config, "decay_steps"));
  decay->set_decay_steps(steps);
  MILLRACE_ASSIGN_OR_RETURN(const bool staircase, TakeFlag(config, "staircase"));
  decay->set_staircase(staircase);
  MILLRACE_ASSIGN_OR_RETURN(const double rate, config->TakeNumber("decay_rate"));
  decay->set_decay_rate(ShortNumber(rate));
  return absl::OkStatus();
}

absl::Status TakeInverseTime(KerasConfig* config, Schedule* schedule) {
  InverseTimeDecay* decay = schedule->mutable_inverse_time_decay();
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t steps, TakeSteps(config, "decay_steps"));
  decay->set_decay_steps(steps);
  MILLRACE_ASSIGN_OR_RETURN(const bool staircase, TakeFlag(config, "staircase"));
  decay->set_staircase(staircase);
  MILLRACE_ASSIGN_OR_RETURN(const double rate, config->TakeNumber("decay_rate"));
  decay->set_decay_rate(ShortNumber(rate));
  return absl::OkStatus();
}

absl::Status TakePolynomial(KerasConfig* config, Schedule* schedule) {
  PolynomialDecay* decay = schedule->mutable_polynomial_decay();
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t steps, TakeSteps(config, "decay_steps"));
  decay->set_decay_steps(steps);
  MILLRACE_ASSIGN_OR_RETURN(const bool cycle, TakeFlag(config, "cycle"));
  decay->set_cycle(cycle);
  MILLRACE_RETURN_IF_ERROR(TakeTo(config, "end_learning_rate",
                                  [&](double rate) { decay->set_end_learning_rate(rate); }));
  return TakeTo(config, "power", [&](double power) { decay->set_power(power); });
}

absl::Status TakeCosine(KerasConfig* config, Schedule* schedule) {
  CosineDecay* decay = schedule->mutable_cosine_decay();
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t steps, TakeSteps(config, "decay_steps"));
  decay->set_decay_steps(steps);
  return TakeTo(config, "alpha", [&](double alpha) { decay->set_alpha(alpha); });
}

absl::Status TakeRestarts(KerasConfig* config, Schedule* schedule) {
  CosineRestarts* decay = schedule->mutable_cosine_restarts();
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t steps, TakeSteps(config, "first_decay_steps"));
  decay->set_first_decay_steps(steps);
  MILLRACE_RETURN_IF_ERROR(TakeTo(config, "t_mul", [&](double mul) { decay->set_t_mul(mul); }));
  MILLRACE_RETURN_IF_ERROR(TakeTo(config, "m_mul", [&](double mul) { decay->set_m_mul(mul); }));
  return TakeTo(config, "alpha", [&](double alpha) { decay->set_alpha(alpha); });
}

// Returns the first rate.
absl::StatusOr<double> TakePiecewise(KerasConfig* config, Schedule* schedule) {
  PiecewiseConstant* pieces = schedule->mutable_piecewise_constant();
  const KerasJson& boundaries = config->Take("boundaries");
  const KerasJson& values = config->Take("values");
  if (!boundaries.is_array() || !values.is_array() || values.size() != boundaries.size() + 1) {
    return KerasFieldError("values", values, "one more than there are boundaries");
  }
  for (const KerasJson& one : boundaries) {
    if (!one.is_number() || !(one.get<double>() >= 0 && one.get<double>() <= 9e15)) {
      return KerasFieldError("boundaries", boundaries, "numbers of steps");
    }
    pieces->add_boundaries(static_cast<uint64_t>(one.get<double>()));
  }
  for (const KerasJson& one : values) {
    if (!one.is_number()) return KerasFieldError("values", values, "numbers");
    pieces->add_learning_rates(ShortNumber(one.get<double>()));
  }
  const double first = pieces->learning_rates(0);
  pieces->mutable_learning_rates()->erase(pieces->learning_rates().begin());
  return first;
}

// Keras's CosineDecay may begin with a way up to its largest rate.
absl::Status TakeWarmup(KerasConfig* config, Schedule* schedule, double* rate) {
  MILLRACE_ASSIGN_OR_RETURN(const double target, config->TakeNumber("warmup_target", NAN));
  const KerasJson& steps = config->Take("warmup_steps");
  if (std::isnan(target) || steps.is_null() || steps == 0) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t count, TakeSteps(config, "warmup_steps"));
  if (!(target > 0 && *rate >= 0 && *rate <= target)) {
    return KerasFieldError("warmup_target", target, "above 0, and at least the initial rate");
  }
  schedule->mutable_warmup()->set_steps(count);
  schedule->mutable_warmup()->set_from(ShortNumber(*rate / target));
  *rate = ShortNumber(target);
  return absl::OkStatus();
}

absl::Status TakeKind(const KerasJson& json, KerasConfig* config, Schedule* schedule) {
  const std::string name = KerasClassName(json);
  if (name == "ExponentialDecay") return TakeExponential(config, schedule);
  if (name == "InverseTimeDecay") return TakeInverseTime(config, schedule);
  if (name == "PolynomialDecay") return TakePolynomial(config, schedule);
  if (name == "CosineDecay") return TakeCosine(config, schedule);
  if (name == "CosineDecayRestarts") return TakeRestarts(config, schedule);
  return KerasFieldError("learning_rate", json, "a number or a schedule that Millrace has");
}

// Returns the rate that the schedule begins with.
absl::StatusOr<double> TakeSchedule(const KerasJson& json, Schedule* schedule) {
  const KerasJson* fields = FindObject(json, "config");
  const std::string name = KerasClassName(json);
  if (fields == nullptr) return KerasFieldError("learning_rate", json, "a number or a schedule");
  KerasConfig config(*fields);
  double rate = NAN;
  if (name == "PiecewiseConstantDecay") {
    MILLRACE_ASSIGN_OR_RETURN(rate, TakePiecewise(&config, schedule));
  } else {
    MILLRACE_RETURN_IF_ERROR(TakeKind(json, &config, schedule));
    MILLRACE_ASSIGN_OR_RETURN(rate, config.TakeNumber("initial_learning_rate"));
    rate = ShortNumber(rate);
    if (name == "CosineDecay") MILLRACE_RETURN_IF_ERROR(TakeWarmup(&config, schedule, &rate));
  }
  MILLRACE_RETURN_IF_ERROR(config.ExpectNothingElse());
  return rate;
}

// The fields that optimizers of ours have by Keras's names, whichever these are.
absl::Status TakeFields(KerasConfig* config, google::protobuf::Message* message) {
  const auto* descriptor = message->GetDescriptor();
  const auto* reflection = message->GetReflection();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const auto* field = descriptor->field(i);
    if (field->name() == "learning_rate") continue;
    // Keras's Ftrl has these under other names.
    const std::string name = field->name() == "l1"   ? "l1_regularization_strength"
                             : field->name() == "l2" ? "l2_regularization_strength"
                             : field->name() == "l2_shrinkage"
                                 ? "l2_shrinkage_regularization_strength"
                                 : field->name();
    if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_BOOL) {
      MILLRACE_ASSIGN_OR_RETURN(const bool value, TakeFlag(config, name));
      if (value) reflection->SetBool(message, field, true);
    } else {
      MILLRACE_RETURN_IF_ERROR(TakeTo(
          config, name, [&](double value) { reflection->SetDouble(message, field, value); }));
    }
  }
  return absl::OkStatus();
}

absl::Status TakeLearningRate(KerasConfig* config, OptimizerSpec* spec,
                              google::protobuf::Message* kind) {
  const KerasJson& value = config->Take("learning_rate");
  double rate = NAN;
  if (value.is_object()) {
    MILLRACE_ASSIGN_OR_RETURN(rate, TakeSchedule(value, spec->mutable_schedule()));
  } else {
    MILLRACE_RETURN_IF_ERROR(TakeTo(config, "learning_rate", [&](double given) { rate = given; }));
  }
  if (std::isnan(rate)) return absl::OkStatus();
  const auto* field = kind->GetDescriptor()->FindFieldByName("learning_rate");
  kind->GetReflection()->SetDouble(kind, field, rate);
  return absl::OkStatus();
}

absl::Status TakeClipping(KerasConfig* config, OptimizerSpec* spec) {
  MILLRACE_RETURN_IF_ERROR(
      TakeTo(config, "clipvalue", [&](double value) { spec->set_clip_value(value); }));
  MILLRACE_RETURN_IF_ERROR(
      TakeTo(config, "clipnorm", [&](double norm) { spec->set_clip_norm(norm); }));
  return TakeTo(config, "global_clipnorm", [&](double norm) { spec->set_global_clip_norm(norm); });
}

// The member of OptimizerSpec.kind that is called as Keras's class. Null: none.
google::protobuf::Message* KindOf(absl::string_view class_name, OptimizerSpec* spec) {
  const auto* kinds = OptimizerSpec::descriptor()->FindOneofByName("kind");
  for (int i = 0; i < kinds->field_count(); ++i) {
    const auto* field = kinds->field(i);
    const bool is_it = absl::AsciiStrToLower(class_name) == field->name();
    if (is_it) return spec->GetReflection()->MutableMessage(spec, field);
  }
  return nullptr;
}

// Keras's Adam with a weight decay is its AdamW, whose fields have the same values by default.
absl::string_view WithoutAlias(absl::string_view class_name, const KerasJson& optimizer) {
  const KerasJson& decay = ValueAt(ValueAt(optimizer, "config"), "weight_decay");
  const bool decays = decay.is_number() && decay != 0;
  return decays && absl::AsciiStrToLower(class_name) == "adam" ? "AdamW" : class_name;
}

}  // namespace

absl::StatusOr<OptimizerSpec> ConvertKerasOptimizer(const KerasJson& optimizer,
                                                    bool in_keras2_hdf5) {
  OptimizerSpec spec;
  const std::string whole_name = KerasClassOf(optimizer);
  const absl::string_view name =
      in_keras2_hdf5 ? absl::StripPrefix(whole_name, "Custom>") : whole_name;
  // It scales losses, and only the gradients of small floats need that.
  if (name == "LossScaleOptimizer") {
    const KerasJson& inner = ValueAt(ValueAt(optimizer, "config"), "inner_optimizer");
    if (inner.is_object()) return ConvertKerasOptimizer(inner, in_keras2_hdf5);
  }
  google::protobuf::Message* kind = KindOf(WithoutAlias(name, optimizer), &spec);
  if (kind == nullptr) {
    return KerasFieldError("optimizer", optimizer,
                           Choice(OptimizerSpec::descriptor()->FindOneofByName("kind")));
  }
  const KerasJson* fields = FindObject(optimizer, "config");
  if (fields == nullptr) return spec;  // By name alone: Keras's defaults, which are ours.
  KerasConfig config(*fields);
  MILLRACE_RETURN_IF_ERROR(TakeLearningRate(&config, &spec, kind));
  MILLRACE_RETURN_IF_ERROR(TakeFields(&config, kind));
  MILLRACE_RETURN_IF_ERROR(TakeClipping(&config, &spec));
  if (!spec.has_adamw()) MILLRACE_RETURN_IF_ERROR(config.Expect("weight_decay", {0.0}));
  // Means something only with use_ema, or to how Keras runs.
  for (const char* field : {"ema_momentum", "is_legacy_optimizer", "jit_compile"}) {
    config.Take(field);
  }
  MILLRACE_RETURN_IF_ERROR(config.ExpectNothingElse());
  MILLRACE_RETURN_IF_ERROR(CheckOptimizerSpec(spec, "optimizer"));
  return spec;
}

}  // namespace millrace::client
