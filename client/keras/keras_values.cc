#include "client/keras/keras_values.h"

#include <charconv>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/proto_fields.h"
#include "common/status_macros.h"

namespace millrace::client {
namespace {

// Keras's default of a regularizer that is named without its numbers.
constexpr double kRegularization = 0.01;

// A VarianceScaling that has a name of its own.
struct NamedScaling {
  double scale;
  const char* mode;
  const char* distribution;
  Initializer initializer;
};

constexpr NamedScaling kNamedScalings[] = {
    {1, "fan_avg", "uniform", GLOROT_UNIFORM}, {1, "fan_avg", "truncated_normal", GLOROT_NORMAL},
    {2, "fan_in", "uniform", HE_UNIFORM},      {2, "fan_in", "truncated_normal", HE_NORMAL},
    {1, "fan_in", "uniform", LECUN_UNIFORM},   {1, "fan_in", "truncated_normal", LECUN_NORMAL},
};

double NumberAt(const KerasJson& json, const char* field, double fallback) {
  const KerasJson& value = ValueAt(json, field);
  return value.is_number() ? value.get<double>() : fallback;
}

Initializer ScalingOf(const KerasJson& config) {
  for (const NamedScaling& one : kNamedScalings) {
    if (NumberAt(config, "scale", 1) == one.scale && TextAt(config, "mode") == one.mode &&
        TextAt(config, "distribution") == one.distribution) {
      return one.initializer;
    }
  }
  return INITIALIZER_UNSPECIFIED;
}

// INITIALIZER_UNSPECIFIED: none of ours.
Initializer InitializerOf(const KerasJson& value) {
  const std::string name = KerasEnumName(KerasClassOf(value));
  const KerasJson& config = ValueAt(value, "config");
  if (name == "VARIANCE_SCALING") return ScalingOf(config);
  if (name == "RANDOM_UNIFORM") {
    const bool ours = ShortNumber(NumberAt(config, "minval", -0.05)) == -0.05 &&
                      ShortNumber(NumberAt(config, "maxval", 0.05)) == 0.05;
    return ours ? UNIFORM : INITIALIZER_UNSPECIFIED;
  }
  Initializer initializer;
  return Initializer_Parse(name, &initializer) ? initializer : INITIALIZER_UNSPECIFIED;
}

}  // namespace

std::string KerasEnumName(absl::string_view name) {
  std::string upper;
  for (size_t i = 0; i < name.size(); ++i) {
    if (i > 0 && absl::ascii_isupper(name[i]) && absl::ascii_islower(name[i - 1])) upper += '_';
    upper += absl::ascii_toupper(name[i]);
  }
  return upper;
}

std::string KerasClassOf(const KerasJson& value) {
  return value.is_string() ? value.get<std::string>() : KerasClassName(value);
}

double ShortNumber(double value) {
  const float narrow = static_cast<float>(value);
  if (!std::isfinite(narrow) || static_cast<double>(narrow) != value) return value;
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), narrow);
  double wide = value;
  std::from_chars(text, end.ptr, wide);
  return wide;
}

absl::StatusOr<Activation> TakeActivation(KerasConfig* config, const std::string& field) {
  const KerasJson& value = config->Take(field);
  if (value.is_null()) return LINEAR;
  Activation activation;
  std::string name = value.is_string() ? KerasEnumName(value.get<std::string>()) : "";
  if (name == "SWISH") name = "SILU";
  if (Activation_Parse(name, &activation)) return activation;
  return KerasFieldError(field, value,
                         absl::StrCat("one of ", ValueNames(Activation_descriptor())));
}

absl::StatusOr<Initializer> TakeInitializer(KerasConfig* config, const std::string& field) {
  const KerasJson& value = config->Take(field);
  if (value.is_null()) return INITIALIZER_UNSPECIFIED;
  const Initializer initializer = InitializerOf(value);
  if (initializer != INITIALIZER_UNSPECIFIED) return initializer;
  if (config->around().left_out == nullptr) {
    return KerasFieldError(field, value,
                           absl::StrCat("one of ", ValueNames(Initializer_descriptor()),
                                        ", with Keras's default parameters (or any, where the "
                                        "weights are converted too: --weights)"));
  }
  config->around().left_out->push_back(absl::StrCat(field, ": ", ShowJson(value)));
  return INITIALIZER_UNSPECIFIED;
}

absl::StatusOr<Regularizer> TakeRegularizer(KerasConfig* config, const std::string& field) {
  const KerasJson& value = config->Take(field);
  const std::string name = absl::AsciiStrToUpper(KerasClassOf(value));
  const bool both = name == "L1L2" || name == "L1_L2";
  Regularizer regularizer;
  if (value.is_null()) return regularizer;
  if (!both && name != "L1" && name != "L2") {
    return KerasFieldError(field, value, "L1, L2, L1L2 or left out to be converted");
  }
  const KerasJson& numbers = ValueAt(value, "config");
  const auto number = [&](const char* kind, bool meant) {
    const double fallback = !meant || (both && value.is_object()) ? 0 : kRegularization;
    return meant ? ShortNumber(NumberAt(numbers, kind, fallback)) : 0;
  };
  regularizer.set_l1(number("l1", both || name == "L1"));
  regularizer.set_l2(number("l2", both || name == "L2"));
  if (regularizer.l1() >= 0 && regularizer.l2() >= 0) return regularizer;
  return KerasFieldError(field, value, "at least 0");
}

absl::StatusOr<Padding> TakePadding(KerasConfig* config, bool causal) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string name, config->TakeString("padding", "valid"));
  Padding padding;
  const bool known = Padding_Parse(absl::AsciiStrToUpper(name), &padding);
  if (known && (causal || padding != CAUSAL)) return padding;
  return KerasFieldError("padding", name,
                         causal ? "\"valid\", \"same\" or \"causal\"" : "\"valid\" or \"same\"");
}

absl::Status ExpectChannelsLast(KerasConfig* config) {
  return config->Expect("data_format", {"channels_last"});
}

absl::StatusOr<KerasVariableFields> TakeVariableFields(KerasConfig* config, const std::string& role,
                                                       Initializer fallback) {
  KerasVariableFields fields;
  MILLRACE_ASSIGN_OR_RETURN(const Initializer initializer,
                            TakeInitializer(config, absl::StrCat(role, "_initializer")));
  if (initializer != fallback) fields.initializer = initializer;
  MILLRACE_ASSIGN_OR_RETURN(fields.regularizer,
                            TakeRegularizer(config, absl::StrCat(role, "_regularizer")));
  fields.has_regularizer = fields.regularizer.l1() != 0 || fields.regularizer.l2() != 0;
  return fields;
}

}  // namespace millrace::client
