// The checks of formats whose features are declared: names, types and shapes.
#include <cmath>
#include <cstdint>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "common/data_labels.h"
#include "common/field_checks.h"
#include "common/proto_fields.h"
#include "common/spec_checks.h"
#include "common/status_macros.h"

namespace millrace {
namespace {

constexpr size_t kMaxFeatureNameBytes = 200;
constexpr uint64_t kMaxFeatureElements = uint64_t{1} << 28;
constexpr double kMaxWhole = 0x1p53;  // All whole numbers up to it are doubles.

using Names = absl::flat_hash_set<std::string>;

// `name`: as given, or its default. `names`: those before, to which it is added.
absl::Status CheckFeatureName(const std::string& path, const std::string& name, bool is_label,
                              Names* names) {
  if (name.size() > kMaxFeatureNameBytes) {
    return FieldError(path, absl::StrCat(name.size(), " bytes"),
                      absl::StrCat("at most ", kMaxFeatureNameBytes, " bytes"));
  }
  if (names->insert(name).second) return absl::OkStatus();
  return FieldError(path, absl::StrCat("'", name, "'"),
                    absl::StrCat("different from the names of the ",
                                 is_label ? "labels" : "features", " before it"));
}

absl::Status CheckDivisor(const std::string& path, double divide_by) {
  const float used = static_cast<float>(divide_by);
  if (divide_by == 0 || (std::isnormal(used) && used > 0)) return absl::OkStatus();
  const bool in_double = divide_by > 0 && std::isfinite(divide_by);
  return FieldError(
      path, absl::StrCat(divide_by),
      absl::StrCat("a finite number above 0", in_double ? " as a float32" : "", ", or not set"));
}

absl::Status CheckShape(const std::string& path, const RecordFeature& feature) {
  uint64_t elements = 1;
  for (const uint64_t dimension : feature.shape()) {
    if (dimension == 0 || dimension > kMaxFeatureElements / elements) {
      return FieldError(path, absl::StrCat("it has ", dimension),
                        absl::StrCat("dimensions of at least 1, with at most ", kMaxFeatureElements,
                                     " elements in all"));
    }
    elements *= dimension;
  }
  return absl::OkStatus();
}

absl::Status CheckMissing(const std::string& path, const RecordFeature& feature) {
  if (!feature.has_missing()) return absl::OkStatus();
  const double missing = feature.missing();
  if (feature.ragged() || feature.type() == RecordFeature::BYTES) {
    return FieldError(path, absl::StrCat(missing),
                      "not set: only FLOAT and INT64 with a shape have it");
  }
  const bool is_id = feature.type() == RecordFeature::INT64;
  if (is_id && !(missing >= 0 && missing < kMaxWhole && missing == std::floor(missing))) {
    return FieldError(path, absl::StrCat(missing), "a whole number from 0, below 2^53");
  }
  if (std::isfinite(static_cast<float>(missing))) return absl::OkStatus();
  return FieldError(path, absl::StrCat(missing), "a finite number");
}

absl::Status CheckRagged(const std::string& path, const RecordFeature& feature, bool is_label) {
  if (!feature.ragged()) return absl::OkStatus();
  if (!is_label && feature.type() == RecordFeature::INT64 && feature.shape().empty()) {
    return absl::OkStatus();
  }
  return FieldError(path, "true", "false: only a feature of INT64 without a shape is ragged");
}

absl::Status CheckRecordFeature(const std::string& path, const RecordFeature& feature,
                                bool is_label, Names* names) {
  if (feature.key().empty()) return NotSet(absl::StrCat(path, ".key"), "a feature of the examples");
  MILLRACE_RETURN_IF_ERROR(CheckPathLength(absl::StrCat(path, ".key"), feature.key()));
  MILLRACE_RETURN_IF_ERROR(
      CheckFeatureName(TensorNamePath(feature, path), TensorName(feature), is_label, names));
  if (feature.type() == RecordFeature::TYPE_UNSPECIFIED) {
    return NotSet(absl::StrCat(path, ".type"),
                  absl::StrCat("one of ", ValueNames(RecordFeature::Type_descriptor())));
  }
  if (is_label && feature.type() == RecordFeature::BYTES) {
    return FieldError(absl::StrCat(path, ".type"), "BYTES", "FLOAT or INT64 of a label");
  }
  if (feature.type() == RecordFeature::INT64 && feature.divide_by() != 0) {
    return FieldError(absl::StrCat(path, ".divide_by"), absl::StrCat(feature.divide_by()),
                      "not set: only FLOAT and BYTES are divided");
  }
  MILLRACE_RETURN_IF_ERROR(CheckDivisor(absl::StrCat(path, ".divide_by"), feature.divide_by()));
  MILLRACE_RETURN_IF_ERROR(CheckShape(absl::StrCat(path, ".shape"), feature));
  MILLRACE_RETURN_IF_ERROR(CheckRagged(absl::StrCat(path, ".ragged"), feature, is_label));
  return CheckMissing(absl::StrCat(path, ".missing"), feature);
}

absl::Status CheckNumpyArray(const std::string& path, const NumpyArray& array,
                             const std::string& name, bool is_label, Names* names) {
  MILLRACE_RETURN_IF_ERROR(CheckFeatureName(absl::StrCat(path, ".name"), name, is_label, names));
  return CheckDivisor(absl::StrCat(path, ".divide_by"), array.divide_by());
}

}  // namespace

absl::Status CheckNumpyArrays(const NumpyArrays& spec, const std::string& path) {
  if (spec.features().empty()) return NotSet(absl::StrCat(path, ".features"), "at least one");
  Names names;
  for (int i = 0; i < spec.features_size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(CheckNumpyArray(absl::StrCat(path, ".features[", i, "]"),
                                             spec.features(i), FeatureName(spec.features(i)),
                                             /*is_label=*/false, &names));
  }
  Names labels;
  for (int i = 0; i < spec.label_size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(CheckNumpyArray(LabelPath(path, i, spec.label_size()), spec.label(i),
                                             LabelName(spec.label(i)), /*is_label=*/true, &labels));
  }
  return absl::OkStatus();
}

absl::Status CheckRecordFeatures(const TfRecordFiles& spec, const std::string& path) {
  if (spec.features().empty()) return NotSet(absl::StrCat(path, ".features"), "at least one");
  Names names;
  for (int i = 0; i < spec.features_size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(CheckRecordFeature(absl::StrCat(path, ".features[", i, "]"),
                                                spec.features(i), /*is_label=*/false, &names));
  }
  Names labels;
  for (int i = 0; i < spec.label_size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(CheckRecordFeature(LabelPath(path, i, spec.label_size()),
                                                spec.label(i), /*is_label=*/true, &labels));
  }
  return absl::OkStatus();
}

}  // namespace millrace
