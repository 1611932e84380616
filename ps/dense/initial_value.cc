// Random elements come from Philox with the job's seed as the key. The counter is the element's
// index beside a hash of the variable's name, which leaves the elements of all variables apart;
// where an element takes several draws, they count on from that hash. Everything after Philox is
// exact integer conversion, +, * and comparison in double: no library function that could round
// differently on another machine.
#include "ps/dense/initial_value.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/philox.h"
#include "common/printable.h"

namespace millrace::ps {
namespace {

constexpr size_t kMaxPathBytes = 4096;

// FNV-1a of 64 bits: fixed for ever, unlike absl::Hash.
uint64_t HashName(absl::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) {
    hash ^= static_cast<uint8_t>(c);
    hash *= 0x100000001b3;
  }
  return hash;
}

// [low, high); `low` where the two are equal.
float Uniform(const UniformDistribution& distribution, uint32_t bits) {
  const double low = distribution.low();
  const double high = distribution.high();
  const float value = static_cast<float>(low + (high - low) * (bits * 0x1p-32));
  if (value < distribution.high()) return value;
  return std::nextafter(distribution.high(), distribution.low());  // Rounded up to `high`.
}

// e^y for y in [0, 2], to about 1e-11: the series of e^(y / 4), to the fourth power.
double Exponential(double y) {
  const double x = y / 4;
  double sum = 1;
  for (const double reciprocal :
       {1. / 10, 1. / 9, 1. / 8, 1. / 7, 1. / 6, 1. / 5, 1. / 4, 1. / 3, 1. / 2, 1.}) {
    sum = 1 + (x * reciprocal) * sum;
  }
  return (sum * sum) * (sum * sum);
}

// The standard normal distribution within [-2, 2], by rejection: z, uniform in that range, is taken
// with probability exp(-z^2 / 2).
double TruncatedNormal(uint64_t seed, uint64_t name_hash, uint64_t element) {
  for (uint64_t draw = 0;; ++draw) {
    const std::array<uint32_t, 4> bits = Philox(seed, element, name_hash + draw);
    for (int i = 0; i < 4; i += 2) {
      const double z = static_cast<int32_t>(bits[i]) * 0x1p-30;
      const double u = bits[i + 1] * 0x1p-32;
      if (u * Exponential(z * z / 2) < 1) return z;
    }
  }
}

absl::Status CheckUniform(const UniformDistribution& distribution, absl::string_view path) {
  const float low = distribution.low();
  const float high = distribution.high();
  if (std::isfinite(low) && std::isfinite(high) && low <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, ".uniform: from ", low, " to ", high,
                                                 "; must be finite, low at most high"));
}

absl::Status CheckTruncatedNormal(const TruncatedNormalDistribution& distribution,
                                  absl::string_view path) {
  if (std::isfinite(distribution.stddev()) && distribution.stddev() >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path, ".truncated_normal.stddev: ", distribution.stddev(),
                   "; must be finite and at least 0"));
}

absl::Status CheckStored(const StoredTensor& tensor, absl::string_view path) {
  if (tensor.name().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ".stored.name: empty; must be the name of a tensor"));
  }
  return CheckAbsolutePath(absl::StrCat(path, ".stored.path"), tensor.path());
}

}  // namespace

absl::Status CheckAbsolutePath(absl::string_view field, absl::string_view path) {
  // The system would take what is before it for the path.
  if (path.find('\0') != absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": '", PrintableName(path), "'; must have no byte that is 0"));
  }
  if (absl::StartsWith(path, "/") && path.size() <= kMaxPathBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, ": '", PrintableName(path),
                                                 "'; must be an absolute path of at most ",
                                                 kMaxPathBytes, " bytes"));
}

absl::Status CheckInitialValue(const InitialValue& initial_value, absl::string_view path) {
  switch (initial_value.kind_case()) {
    case InitialValue::kConstant:
      if (std::isfinite(initial_value.constant())) return absl::OkStatus();
      return absl::InvalidArgumentError(
          absl::StrCat(path, ".constant: ", initial_value.constant(), "; must be finite"));
    case InitialValue::kUniform:
      return CheckUniform(initial_value.uniform(), path);
    case InitialValue::kTruncatedNormal:
      return CheckTruncatedNormal(initial_value.truncated_normal(), path);
    case InitialValue::kStored:
      return CheckStored(initial_value.stored(), path);
    case InitialValue::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": not set; must be constant, uniform, truncated_normal or stored"));
}

void FillInitialValues(const InitialValue& initial_value, uint64_t seed,
                       const std::string& variable_name, uint64_t offset,
                       absl::Span<float> values) {
  const uint64_t name_hash = HashName(variable_name);
  switch (initial_value.kind_case()) {
    case InitialValue::kUniform:
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] = Uniform(initial_value.uniform(), Philox(seed, offset + i, name_hash)[0]);
      }
      return;
    case InitialValue::kTruncatedNormal: {
      const double stddev = initial_value.truncated_normal().stddev();
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<float>(stddev * TruncatedNormal(seed, name_hash, offset + i));
      }
      return;
    }
    case InitialValue::kConstant:
    case InitialValue::kStored:
    case InitialValue::KIND_NOT_SET:
      std::fill(values.begin(), values.end(), initial_value.constant());
      return;
  }
}

}  // namespace millrace::ps
