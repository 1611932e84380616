#include "coordinator/job/plan_check.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/job_spec.h"
#include "common/proto_fields.h"
#include "common/status_macros.h"
#include "common/wire/on_the_wire.h"

namespace millrace::coordinator {
namespace {

constexpr int kMaxVariables = 100000;
constexpr int kMaxDimensions = 32;
constexpr uint64_t kMaxElements = uint64_t{1} << 62;
constexpr uint64_t kMaxExamples = uint64_t{1} << 53;
constexpr size_t kMaxTextLength = 200;

bool IsPrintable(const std::string& text) {
  return text.size() <= kMaxTextLength &&
         std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return absl::ascii_isprint(c); });
}

std::string Quote(const std::string& text) {
  return absl::StrCat("'", absl::CHexEscape(text.substr(0, kMaxTextLength)), "'");
}

absl::Status CheckText(const std::string& path, const std::string& text) {
  if (IsPrintable(text)) return absl::OkStatus();
  return FieldError(path, Quote(text),
                    absl::StrCat("at most ", kMaxTextLength, " printable characters"));
}

absl::Status CheckExamples(const std::string& path, uint64_t examples) {
  if (examples >= 1 && examples <= kMaxExamples) return absl::OkStatus();
  return FieldError(path, absl::StrCat(examples), "at least 1 and at most 2^53");
}

// Takes the variable's elements from those that are `left`.
absl::Status CheckShape(const std::string& path, const VariableSpec& variable, uint64_t* left) {
  uint64_t elements = 1;
  bool good = variable.shape_size() <= kMaxDimensions;
  for (int i = 0; good && i < variable.shape_size(); ++i) {
    good = variable.shape(i) >= 1 && elements <= *left / variable.shape(i);
    elements *= good ? variable.shape(i) : 1;
  }
  if (good && elements <= *left) {
    *left -= elements;
    return absl::OkStatus();
  }
  const int shown = std::min(variable.shape_size(), kMaxDimensions);
  return FieldError(
      path,
      absl::StrCat("[",
                   absl::StrJoin(variable.shape().begin(), variable.shape().begin() + shown, ", "),
                   shown < variable.shape_size() ? ", ...]" : "]"),
      absl::StrCat("at most ", kMaxDimensions,
                   " dimensions of at least 1, and 2^62 elements in all variables"));
}

absl::Status CheckInitialValue(const std::string& path, const InitialValue& value) {
  switch (value.kind_case()) {
    case InitialValue::kConstant:
      if (std::isfinite(value.constant())) return absl::OkStatus();
      return FieldError(path + ".constant", absl::StrCat(value.constant()), "finite");
    case InitialValue::kUniform: {
      const UniformDistribution& uniform = value.uniform();
      if (std::isfinite(uniform.low()) && std::isfinite(uniform.high()) &&
          uniform.low() <= uniform.high()) {
        return absl::OkStatus();
      }
      return FieldError(path + ".uniform", absl::StrCat(uniform.low(), " to ", uniform.high()),
                        "finite, the lower one first");
    }
    case InitialValue::kTruncatedNormal: {
      const float stddev = value.truncated_normal().stddev();
      if (std::isfinite(stddev) && stddev >= 0) return absl::OkStatus();
      return FieldError(path + ".truncated_normal.stddev", absl::StrCat(stddev),
                        "finite and at least 0");
    }
    case InitialValue::kStored:
      return FieldError(path + ".stored", "set", "left to the coordinator");
    case InitialValue::KIND_NOT_SET:
      break;
  }
  return FieldError(path, "not set", "one of constant, uniform, truncated_normal");
}

}  // namespace

absl::Status CheckPlan(const JobSpec& spec, const JobPlan& plan) {
  MILLRACE_RETURN_IF_ERROR(CheckExamples("plan.train_examples", plan.train_examples()));
  if (spec.data().has_evaluate()) {
    MILLRACE_RETURN_IF_ERROR(CheckExamples("plan.evaluate_examples", plan.evaluate_examples()));
  }
  if (plan.variables_size() > kMaxVariables) {
    return FieldError("plan.variables", absl::StrCat(plan.variables_size(), " variables"),
                      absl::StrCat("at most ", kMaxVariables));
  }
  MILLRACE_RETURN_IF_ERROR(CheckText("plan.numerics", plan.numerics()));
  absl::flat_hash_set<std::string> names;
  uint64_t left = kMaxElements;
  for (int i = 0; i < plan.variables_size(); ++i) {
    const VariableSpec& variable = plan.variables(i);
    const std::string path = absl::StrCat("plan.variables[", i, "]");
    const std::string name_path = path + ".name";
    if (variable.name().empty()) return FieldError(name_path, "empty", "a name");
    MILLRACE_RETURN_IF_ERROR(CheckText(name_path, variable.name()));
    if (!names.insert(variable.name()).second) {
      return FieldError(name_path, Quote(variable.name()), "unlike the names before it");
    }
    MILLRACE_RETURN_IF_ERROR(CheckShape(path + ".shape", variable, &left));
    MILLRACE_RETURN_IF_ERROR(CheckInitialValue(path + ".initial_value", variable.initial_value()));
    if (!variable.has_update()) continue;
    MILLRACE_RETURN_IF_ERROR(CheckUpdateRule(variable.update(), path + ".update"));
  }
  return absl::OkStatus();
}

bool BitsDependOnWire(const JobSpec& spec) {
  return spec.has_synchronous() && !spec.synchronous().allow_mixed_workers();
}

bool IsPlannedUnrounded(const JobSpec& spec, const JobPlan& plan) {
  const Encoding::Kind wire = spec.precision().wire();
  if (!BitsDependOnWire(spec) || wire == Encoding::FLOAT32) return false;
  absl::string_view numerics = plan.numerics();
  return !numerics.empty() && !ConsumeOnTheWire(wire, &numerics);
}

std::string RemarkOnPlan(const JobSpec& spec, const JobPlan& plan) {
  if (!IsPlannedUnrounded(spec, plan)) return "";
  const Encoding::Kind wire = spec.precision().wire();
  return absl::StrCat("precision.wire: ", Encoding::Kind_Name(wire),
                      "; the worker that planned the job does not round to it what travels (its "
                      "numerics, '",
                      plan.numerics(), "', do not end in '", OnTheWire(wire),
                      "'): numbers travel as FLOAT32, and workers that round take no part");
}

}  // namespace millrace::coordinator
