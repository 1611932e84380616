// CheckDataSpec, field by field in the order of protos/data.proto.
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/evaluation_set.h"
#include "common/field_checks.h"
#include "common/job_spec.h"
#include "common/proto_fields.h"
#include "common/spec_checks.h"
#include "common/status_macros.h"

namespace millrace {
namespace {

absl::Status CheckFile(absl::string_view path, const std::string& file, const DataSpec& data) {
  if (file.empty()) return NotSet(path, "the name of a file");
  MILLRACE_RETURN_IF_ERROR(CheckPathLength(path, file));
  if (data.directory().empty() && !absl::StartsWith(file, "/")) {
    return NotSet("data.directory",
                  absl::StrCat("the folder of '", file, "' (millrace --data=DIR sets it)"));
  }
  return absl::OkStatus();
}

absl::Status CheckCsv(const CsvFiles& csv, const std::string& path, const DataSpec& data) {
  if (csv.files().empty()) return NotSet(absl::StrCat(path, ".files"), "at least one file");
  for (int i = 0; i < csv.files_size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(CheckFile(absl::StrCat(path, ".files[", i, "]"), csv.files(i), data));
  }
  return CheckCsvFiles(csv, path);
}

absl::Status CheckFormat(const Dataset& set, absl::string_view path, const DataSpec& data) {
  switch (set.format_case()) {
    case Dataset::kIdx:
      MILLRACE_RETURN_IF_ERROR(
          CheckFile(absl::StrCat(path, ".idx.images"), set.idx().images(), data));
      return CheckFile(absl::StrCat(path, ".idx.labels"), set.idx().labels(), data);
    case Dataset::kLibsvm:
      MILLRACE_RETURN_IF_ERROR(
          CheckFile(absl::StrCat(path, ".libsvm.file"), set.libsvm().file(), data));
      return CheckAtLeastOne(absl::StrCat(path, ".libsvm.features"), set.libsvm().features(),
                             kMaxUnits);
    case Dataset::kCsv:
      return CheckCsv(set.csv(), absl::StrCat(path, ".csv"), data);
    case Dataset::FORMAT_NOT_SET:
      break;
  }
  return NotSet(path, "idx, libsvm or csv");
}

absl::Status CheckDataset(const Dataset& set, absl::string_view path, const DataSpec& data) {
  MILLRACE_RETURN_IF_ERROR(CheckFormat(set, path, data));
  const uint64_t begin = set.range().begin();
  const uint64_t end = set.range().end();
  if (end != 0 && begin >= end) {
    return FieldError(absl::StrCat(path, ".range"), absl::StrCat("[", begin, ", ", end, ")"),
                      "not empty: begin below end, or end 0 for all the rest");
  }
  return absl::OkStatus();
}

// What data.evaluate.csv has beside its files is not silently replaced by what data.train.csv has.
absl::Status CheckTakenOver(const DataSpec& data) {
  CsvFiles rest = data.evaluate().csv();
  rest.clear_files();
  if (!data.train().has_csv() || !rest.columns().empty() || rest.ByteSizeLong() == 0) {
    return absl::OkStatus();
  }
  return NotSet("data.evaluate.csv.columns",
                "at least one column, or nothing but `files`, which takes over all else from "
                "data.train.csv");
}

}  // namespace

absl::Status CheckDataSpec(const DataSpec& data) {
  MILLRACE_RETURN_IF_ERROR(CheckPathLength("data.directory", data.directory()));
  MILLRACE_RETURN_IF_ERROR(CheckDataset(data.train(), "data.train", data));
  if (!data.has_evaluate()) return absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(CheckTakenOver(data));
  return CheckDataset(EvaluationSet(data), "data.evaluate", data);
}

}  // namespace millrace
