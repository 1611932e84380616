// CheckCsvFiles, field by field in the order of protos/csv.proto.
#include <cmath>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "common/data_labels.h"
#include "common/field_checks.h"
#include "common/job_spec.h"
#include "common/printable.h"
#include "common/proto_fields.h"
#include "common/spec_checks.h"
#include "common/status_macros.h"

namespace millrace {
namespace {

constexpr uint32_t kMaxIds = 0x7fffffff;

std::string CsvPath(absl::string_view path, int i) { return absl::StrCat(path, "[", i, "]"); }

std::string QuotedName(const std::string& name) {
  return absl::StrCat("'", PrintableName(name), "'");
}

absl::Status CheckDelimiter(const std::string& delimiter, absl::string_view path) {
  const bool allowed = delimiter.size() == 1 && static_cast<unsigned char>(delimiter[0]) < 0x80 &&
                       std::string("\"\r\n").find(delimiter) == std::string::npos;
  if (delimiter.empty() || allowed) return absl::OkStatus();
  return FieldError(path, QuotedName(delimiter),
                    "one character of ASCII, and none of a quote, CR and LF");
}

// A name of a column that the files may have.
absl::Status CheckColumnName(const std::string& name, absl::string_view path,
                             const CsvFiles& files) {
  if (name.empty()) return NotSet(path, "the name of a column");
  if (files.names().empty()) return absl::OkStatus();
  for (const std::string& known : files.names()) {
    if (known == name) return absl::OkStatus();
  }
  return FieldError(path, QuotedName(name), "one of the names in csv.names");
}

absl::Status CheckNames(const CsvFiles& files, const std::string& path) {
  absl::flat_hash_set<std::string> names;
  for (int i = 0; i < files.names_size(); ++i) {
    const std::string& name = files.names(i);
    if (name.empty()) return NotSet(CsvPath(path, i), "the name of a column");
    if (!names.insert(name).second) {
      return FieldError(CsvPath(path, i), QuotedName(name), "another name than those before");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckFiniteNumber(absl::string_view path, double value) {
  if (std::isfinite(value)) return absl::OkStatus();
  return FieldError(path, absl::StrCat(value), "a finite number");
}

absl::Status CheckNumberColumn(const CsvNumber& number, const std::string& path) {
  MILLRACE_RETURN_IF_ERROR(CheckFiniteNumber(absl::StrCat(path, ".subtract"), number.subtract()));
  MILLRACE_RETURN_IF_ERROR(CheckFiniteNumber(absl::StrCat(path, ".missing"), number.missing()));
  if (!number.has_divide() || (std::isfinite(number.divide()) && number.divide() != 0)) {
    return absl::OkStatus();
  }
  return FieldError(absl::StrCat(path, ".divide"), absl::StrCat(number.divide()),
                    "a finite number, not 0");
}

absl::Status CheckBoundaries(const google::protobuf::RepeatedField<double>& boundaries,
                             const std::string& path) {
  for (int i = 0; i < boundaries.size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(CheckFiniteNumber(CsvPath(path, i), boundaries[i]));
    if (i == 0 || boundaries[i - 1] < boundaries[i]) continue;
    return FieldError(CsvPath(path, i), absl::StrCat(boundaries[i]),
                      absl::StrCat("above the one before, ", boundaries[i - 1]));
  }
  return absl::OkStatus();
}

absl::Status CheckBuckets(const CsvBuckets& buckets, const std::string& path) {
  if (buckets.boundaries().empty()) {
    return NotSet(absl::StrCat(path, ".boundaries"), "at least one number");
  }
  MILLRACE_RETURN_IF_ERROR(CheckFiniteNumber(absl::StrCat(path, ".missing"), buckets.missing()));
  return CheckBoundaries(buckets.boundaries(), absl::StrCat(path, ".boundaries"));
}

absl::Status CheckVocabulary(const CsvVocabulary& vocabulary, const std::string& path) {
  if (vocabulary.words().empty()) {
    if (vocabulary.file().empty()) {
      return NotSet(absl::StrCat(path, ".words"), "the words, or `file` set in their place");
    }
    return CheckPathLength(absl::StrCat(path, ".file"), vocabulary.file());
  }
  if (!vocabulary.file().empty()) {
    return FieldError(absl::StrCat(path, ".file"), QuotedName(vocabulary.file()),
                      "empty, since there are words");
  }
  absl::flat_hash_set<std::string> words;
  for (int i = 0; i < vocabulary.words_size(); ++i) {
    if (words.insert(vocabulary.words(i)).second) continue;
    return FieldError(CsvPath(absl::StrCat(path, ".words"), i), QuotedName(vocabulary.words(i)),
                      "another word than those before");
  }
  return absl::OkStatus();
}

absl::Status CheckCross(const CsvCross& cross, const std::string& path, const CsvFiles& files) {
  if (cross.parts_size() < 2) {
    return FieldError(absl::StrCat(path, ".parts"), absl::StrCat(cross.parts_size(), " columns"),
                      "at least 2");
  }
  for (int i = 0; i < cross.parts_size(); ++i) {
    const std::string part = CsvPath(absl::StrCat(path, ".parts"), i);
    MILLRACE_RETURN_IF_ERROR(
        CheckColumnName(cross.parts(i).name(), absl::StrCat(part, ".name"), files));
    MILLRACE_RETURN_IF_ERROR(
        CheckBoundaries(cross.parts(i).boundaries(), absl::StrCat(part, ".boundaries")));
  }
  return CheckAtLeastOne(absl::StrCat(path, ".buckets"), cross.buckets(), kMaxIds);
}

absl::Status CheckKind(const CsvColumn& column, const std::string& path, const CsvFiles& files) {
  switch (column.kind_case()) {
    case CsvColumn::kNumber:
      return CheckNumberColumn(column.number(), absl::StrCat(path, ".number"));
    case CsvColumn::kBuckets:
      return CheckBuckets(column.buckets(), absl::StrCat(path, ".buckets"));
    case CsvColumn::kVocabulary:
      return CheckVocabulary(column.vocabulary(), absl::StrCat(path, ".vocabulary"));
    case CsvColumn::kHash:
      return CheckAtLeastOne(absl::StrCat(path, ".hash.buckets"), column.hash().buckets(), kMaxIds);
    case CsvColumn::kCross:
      return CheckCross(column.cross(), absl::StrCat(path, ".cross"), files);
    case CsvColumn::KIND_NOT_SET:
      break;
  }
  return NotSet(path, "number, buckets, vocabulary, hash or cross");
}

absl::Status CheckColumn(const CsvColumn& column, const std::string& path, const CsvFiles& files) {
  MILLRACE_RETURN_IF_ERROR(CheckKind(column, path, files));
  MILLRACE_RETURN_IF_ERROR(CheckName(absl::StrCat(path, ".feature"), column.feature()));
  if (column.has_number() && column.as_id()) {
    return FieldError(absl::StrCat(path, ".as_id"), "true", "false where the column is a number");
  }
  if (!column.has_cross()) {
    return CheckColumnName(column.name(), absl::StrCat(path, ".name"), files);
  }
  if (column.name().empty()) return absl::OkStatus();
  return FieldError(absl::StrCat(path, ".name"), QuotedName(column.name()),
                    "empty; a cross names its columns in `parts`");
}

absl::Status CheckColumns(const CsvFiles& files, const std::string& path) {
  if (files.columns().empty()) return NotSet(path, "at least one column");
  absl::flat_hash_map<std::string, bool> as_id;  // Of each feature.
  for (int i = 0; i < files.columns_size(); ++i) {
    const CsvColumn& column = files.columns(i);
    MILLRACE_RETURN_IF_ERROR(CheckColumn(column, CsvPath(path, i), files));
    const std::string& feature = column.feature().empty() ? "features" : column.feature();
    if (as_id.try_emplace(feature, column.as_id()).first->second == column.as_id()) continue;
    return FieldError(absl::StrCat(CsvPath(path, i), ".as_id"), column.as_id() ? "true" : "false",
                      absl::StrCat("the same for all columns of the feature '", feature, "'"));
  }
  return absl::OkStatus();
}

absl::Status CheckClasses(const CsvLabel& label, const std::string& path) {
  absl::flat_hash_set<std::string> values;
  for (int i = 0; i < label.classes_size(); ++i) {
    const std::string field = absl::StrCat(CsvPath(path, i), ".values");
    if (label.classes(i).values().empty()) return NotSet(field, "at least one value");
    for (int j = 0; j < label.classes(i).values_size(); ++j) {
      const std::string& value = label.classes(i).values(j);
      if (values.insert(value).second) continue;
      return FieldError(CsvPath(field, j), QuotedName(value), "another value than those before");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckLabel(const CsvFiles& files, const CsvLabel& label, const std::string& path) {
  MILLRACE_RETURN_IF_ERROR(CheckColumnName(label.name(), absl::StrCat(path, ".name"), files));
  MILLRACE_RETURN_IF_ERROR(CheckClasses(label, absl::StrCat(path, ".classes")));
  if (label.number() && !label.classes().empty()) {
    return FieldError(absl::StrCat(path, ".number"), "true", "false where there are classes");
  }
  return CheckName(absl::StrCat(path, ".label"), label.label());
}

absl::Status CheckLabels(const CsvFiles& files, const std::string& path) {
  if (files.label().empty()) return CheckLabel(files, CsvLabel(), absl::StrCat(path, ".label"));
  absl::flat_hash_set<std::string> names;
  for (int i = 0; i < files.label_size(); ++i) {
    const std::string field = LabelPath(path, i, files.label_size());
    MILLRACE_RETURN_IF_ERROR(CheckLabel(files, files.label(i), field));
    const std::string name = LabelName(files.label(i));
    if (names.insert(name).second) continue;
    return FieldError(absl::StrCat(field, ".label"), QuotedName(name),
                      "different from the names of the labels before it");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckCsvFiles(const CsvFiles& files, const std::string& path) {
  MILLRACE_RETURN_IF_ERROR(CheckNames(files, absl::StrCat(path, ".names")));
  MILLRACE_RETURN_IF_ERROR(CheckDelimiter(files.delimiter(), absl::StrCat(path, ".delimiter")));
  MILLRACE_RETURN_IF_ERROR(CheckColumns(files, absl::StrCat(path, ".columns")));
  MILLRACE_RETURN_IF_ERROR(CheckLabels(files, path));
  return files.weight().empty()
             ? absl::OkStatus()
             : CheckColumnName(files.weight(), absl::StrCat(path, ".weight"), files);
}

}  // namespace millrace
