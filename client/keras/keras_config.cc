#include "client/keras/keras_config.h"

#include <algorithm>
#include <array>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/printable.h"
#include "common/status_macros.h"

namespace millrace::client {
namespace {

// What is of no weight for the values that a layer computes.
constexpr std::array kWithoutMeaning = {"batch_input_shape",
                                        "batch_shape",
                                        "build_config",
                                        "dtype",
                                        "input_dtype",
                                        "input_shape",
                                        "module",
                                        "name",
                                        "optional",
                                        "registered_name",
                                        "seed",
                                        "trainable",
                                        "autocast",
                                        "input_spec",
                                        "quantization_config"};

bool SaysNothing(const KerasJson& value) {
  return value.is_null() || (value.is_boolean() && !value.get<bool>()) ||
         ((value.is_object() || value.is_array()) && value.empty());
}

bool IsCount(const KerasJson& value) {
  return value.is_number_integer() && value.get<int64_t>() >= 1 &&
         value.get<int64_t>() <= std::numeric_limits<uint32_t>::max();
}

}  // namespace

absl::Status KerasFieldError(absl::string_view field, const KerasJson& value,
                             absl::string_view allowed) {
  if (const std::string own = OwnKerasClass(value); !own.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": its class is ", PrintableName(own),
                                                   ", which cannot be converted; must be ", allowed,
                                                   ". ", kOwnCodeNeedsAWorker));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": ", ShowJson(value), "; must be ", allowed));
}

const KerasJson& KerasConfig::Take(const std::string& field) {
  taken_.insert(field);
  return ValueAt(object_, field.c_str());
}

absl::StatusOr<bool> KerasConfig::TakeBool(const std::string& field, bool fallback) {
  const KerasJson& value = Take(field);
  if (value.is_null()) return fallback;
  if (value.is_boolean()) return value.get<bool>();
  return KerasFieldError(field, value, "true or false");
}

absl::StatusOr<double> KerasConfig::TakeNumber(const std::string& field, double fallback) {
  const KerasJson& value = Take(field);
  if (value.is_null()) return fallback;
  if (value.is_number()) return value.get<double>();
  return KerasFieldError(field, value, "a number");
}

absl::StatusOr<double> KerasConfig::TakeNumber(const std::string& field) {
  const KerasJson& value = Take(field);
  if (value.is_number()) return value.get<double>();
  return KerasFieldError(field, value, "a number");
}

absl::StatusOr<std::string> KerasConfig::TakeString(const std::string& field,
                                                    const std::string& fallback) {
  const KerasJson& value = Take(field);
  if (value.is_null()) return fallback;
  if (value.is_string()) return value.get<std::string>();
  return KerasFieldError(field, value, "a string");
}

absl::StatusOr<uint32_t> KerasConfig::TakeCount(const std::string& field) {
  const KerasJson& value = Take(field);
  if (IsCount(value)) return value.get<uint32_t>();
  return KerasFieldError(field, value, "a whole number, at least 1");
}

absl::StatusOr<std::vector<uint32_t>> KerasConfig::TakeCounts(const std::string& field) {
  const KerasJson& value = Take(field);
  if (value.is_null()) return std::vector<uint32_t>();
  if (IsCount(value)) return std::vector<uint32_t>{value.get<uint32_t>()};
  if (!value.is_array() || !std::all_of(value.begin(), value.end(), IsCount)) {
    return KerasFieldError(field, value, "whole numbers, at least 1");
  }
  return value.get<std::vector<uint32_t>>();
}

absl::StatusOr<uint32_t> KerasConfig::TakeCountOfOne(const std::string& field) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<uint32_t> counts, TakeCounts(field));
  if (counts.empty()) return 0;
  if (counts.size() == 1) return counts.front();
  return KerasFieldError(field, Take(field), "one whole number");
}

absl::Status KerasConfig::ExpectLastAxis(const std::string& field) {
  if (around_.input_rank == 0) return Expect(field, {-1, {-1}});
  const int64_t last = static_cast<int64_t>(around_.input_rank) - 1;
  return Expect(field, {-1, {-1}, last, {last}});
}

absl::Status KerasConfig::Expect(const std::string& field, const std::vector<KerasJson>& same) {
  const KerasJson& value = Take(field);
  if (value.is_null() || std::find(same.begin(), same.end(), value) != same.end()) {
    return absl::OkStatus();
  }
  std::string allowed;
  for (const KerasJson& one : same) absl::StrAppend(&allowed, ShowJson(one), " or ");
  return KerasFieldError(field, value, absl::StrCat(allowed, "left out to be converted"));
}

absl::Status KerasConfig::ExpectNothingElse() const {
  for (const auto& [field, value] : object_.items()) {
    const bool known =
        taken_.count(field) > 0 ||
        std::find(kWithoutMeaning.begin(), kWithoutMeaning.end(), field) != kWithoutMeaning.end();
    if (!known && !SaysNothing(value)) {
      return KerasFieldError(Printable(field), value, "left out to be converted");
    }
  }
  return absl::OkStatus();
}

}  // namespace millrace::client
