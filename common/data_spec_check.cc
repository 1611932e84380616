// CheckDataSpec, field by field in the order of protos/data.proto.
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
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
    case Dataset::FORMAT_NOT_SET:
      break;
  }
  return NotSet(path, "idx or libsvm");
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

}  // namespace

absl::Status CheckDataSpec(const DataSpec& data) {
  MILLRACE_RETURN_IF_ERROR(CheckPathLength("data.directory", data.directory()));
  MILLRACE_RETURN_IF_ERROR(CheckDataset(data.train(), "data.train", data));
  return data.has_evaluate() ? CheckDataset(data.evaluate(), "data.evaluate", data)
                             : absl::OkStatus();
}

}  // namespace millrace
