#include "common/field_checks.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/plain_name.h"
#include "common/proto_fields.h"
#include "common/status_macros.h"

namespace millrace {
namespace {

constexpr size_t kMaxNameLength = 100;
constexpr size_t kMaxPathBytes = 4096;  // As on Linux.

}  // namespace

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

absl::Status CheckPositive(absl::string_view path, double value) {
  const float used = static_cast<float>(value);
  if (used > 0 && std::isnormal(used)) return absl::OkStatus();
  const bool in_double = value > 0 && std::isfinite(value);
  return FieldError(path, absl::StrCat(value),
                    absl::StrCat("a finite number above 0", in_double ? " as a float32" : ""));
}

absl::Status CheckNotNegative(absl::string_view path, double value) {
  if (value >= 0 && std::isfinite(static_cast<float>(value))) return absl::OkStatus();
  const bool in_double = value >= 0 && std::isfinite(value);
  return FieldError(
      path, absl::StrCat(value),
      absl::StrCat("a finite number of at least 0", in_double ? " as a float32" : ""));
}

absl::Status CheckFraction(absl::string_view path, double value) {
  if (value >= 0 && static_cast<float>(value) < 1) return absl::OkStatus();
  return FieldError(
      path, absl::StrCat(value),
      absl::StrCat("at least 0 and below 1", value < 1 && value >= 0 ? " as a float32" : ""));
}

absl::Status CheckRange(absl::string_view path, double value, double lowest, double highest) {
  if (lowest <= value && value <= highest) return absl::OkStatus();
  return FieldError(path, absl::StrCat(value), absl::StrCat("from ", lowest, " to ", highest));
}

absl::Status CheckPathLength(absl::string_view path, const std::string& file) {
  if (file.size() <= kMaxPathBytes) return absl::OkStatus();
  return FieldError(path, absl::StrCat(file.size(), " bytes"),
                    absl::StrCat("at most ", kMaxPathBytes, " bytes"));
}

}  // namespace millrace
