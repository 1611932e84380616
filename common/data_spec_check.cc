// CheckDataSpec, field by field in the order of protos/data.proto.
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/data_labels.h"
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

// Names or patterns; `names` is a repeated field of strings.
template <typename Names>
absl::Status CheckFiles(const std::string& path, const Names& names, const DataSpec& data) {
  if (names.empty()) return NotSet(path, "the names of files");
  for (int i = 0; i < names.size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(CheckFile(absl::StrCat(path, "[", i, "]"), names[i], data));
  }
  return absl::OkStatus();
}

absl::Status CheckCsv(const CsvFiles& csv, const std::string& path, const DataSpec& data) {
  MILLRACE_RETURN_IF_ERROR(CheckFiles(absl::StrCat(path, ".files"), csv.files(), data));
  return CheckCsvFiles(csv, path);
}

absl::Status CheckNumpy(const NumpyArrays& spec, const std::string& path, const DataSpec& data) {
  for (int i = 0; i < spec.features_size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(
        CheckFiles(absl::StrCat(path, ".features[", i, "].files"), spec.features(i).files(), data));
  }
  for (int i = 0; i < spec.label_size(); ++i) {
    const std::string label = LabelPath(path, i, spec.label_size());
    MILLRACE_RETURN_IF_ERROR(
        CheckFiles(absl::StrCat(label, ".files"), spec.label(i).files(), data));
  }
  return CheckNumpyArrays(spec, path);
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
    case Dataset::kCifar:
      return CheckFiles(absl::StrCat(path, ".cifar.files"), set.cifar().files(), data);
    case Dataset::kNumpy:
      return CheckNumpy(set.numpy(), absl::StrCat(path, ".numpy"), data);
    case Dataset::kTfrecord:
      MILLRACE_RETURN_IF_ERROR(
          CheckFiles(absl::StrCat(path, ".tfrecord.files"), set.tfrecord().files(), data));
      return CheckRecordFeatures(set.tfrecord(), absl::StrCat(path, ".tfrecord"));
    case Dataset::kImageFolder:
      MILLRACE_RETURN_IF_ERROR(
          CheckFile(absl::StrCat(path, ".image_folder.folder"), set.image_folder().folder(), data));
      return CheckImageFolder(set.image_folder(), absl::StrCat(path, ".image_folder"));
    case Dataset::FORMAT_NOT_SET:
      break;
  }
  return NotSet(path, Choice(Dataset::descriptor()->FindOneofByName("format")));
}

absl::Status CheckHoldOut(const HoldOut& hold_out, absl::string_view path) {
  const double fraction = hold_out.fraction();
  if (!(fraction > 0 && fraction < 1)) {
    return FieldError(absl::StrCat(path, ".fraction"), absl::StrCat(fraction),
                      "above 0 and below 1");
  }
  if (hold_out.part() == HoldOut::PART_UNSPECIFIED) {
    return NotSet(absl::StrCat(path, ".part"),
                  absl::StrCat("one of ", ValueNames(HoldOut::Part_descriptor())));
  }
  return absl::OkStatus();
}

absl::Status CheckDataset(const Dataset& set, absl::string_view path, const DataSpec& data) {
  MILLRACE_RETURN_IF_ERROR(CheckFormat(set, path, data));
  if (set.has_hold_out()) {
    MILLRACE_RETURN_IF_ERROR(CheckHoldOut(set.hold_out(), absl::StrCat(path, ".hold_out")));
  }
  MILLRACE_RETURN_IF_ERROR(
      CheckNormalization(set.normalization(), absl::StrCat(path, ".normalization")));
  MILLRACE_RETURN_IF_ERROR(
      CheckAugmentation(set.augmentation(), absl::StrCat(path, ".augmentation")));
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

// The two parts of one division must be of the same one, or they have examples in common.
absl::Status CheckSameDivision(const HoldOut& train, const HoldOut& evaluate) {
  if (train.part() == evaluate.part()) return absl::OkStatus();
  if (train.fraction() != evaluate.fraction()) {
    return FieldError("data.evaluate.hold_out.fraction", absl::StrCat(evaluate.fraction()),
                      absl::StrCat(train.fraction(), " as in data.train.hold_out"));
  }
  if (train.seed() != evaluate.seed()) {
    return FieldError("data.evaluate.hold_out.seed", absl::StrCat(evaluate.seed()),
                      absl::StrCat(train.seed(), " as in data.train.hold_out"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckDataSpec(const DataSpec& data) {
  MILLRACE_RETURN_IF_ERROR(CheckPathLength("data.directory", data.directory()));
  MILLRACE_RETURN_IF_ERROR(CheckDataset(data.train(), "data.train", data));
  if (!data.has_evaluate()) return absl::OkStatus();
  if (data.evaluate().has_augmentation()) {
    return FieldError("data.evaluate.augmentation", "set",
                      "unset: only the examples of training steps are changed");
  }
  MILLRACE_RETURN_IF_ERROR(CheckTakenOver(data));
  MILLRACE_RETURN_IF_ERROR(CheckDataset(EvaluationSet(data), "data.evaluate", data));
  if (!data.train().has_hold_out() || !data.evaluate().has_hold_out()) return absl::OkStatus();
  return CheckSameDivision(data.train().hold_out(), data.evaluate().hold_out());
}

}  // namespace millrace
