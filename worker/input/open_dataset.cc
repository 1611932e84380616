#include "absl/strings/str_cat.h"
#include "worker/input/csv/csv_dataset.h"
#include "worker/input/dataset.h"
#include "worker/input/idx_dataset.h"
#include "worker/input/libsvm_dataset.h"

namespace millrace::worker {

absl::StatusOr<std::unique_ptr<Dataset>> OpenDataset(const millrace::Dataset& spec,
                                                     const std::string& directory,
                                                     const std::string& field) {
  switch (spec.format_case()) {
    case millrace::Dataset::kIdx:
      return OpenIdxDataset(spec.idx(), spec.range(), directory, field);
    case millrace::Dataset::kLibsvm:
      return OpenLibsvmDataset(spec.libsvm(), spec.range(), directory, field);
    case millrace::Dataset::kCsv:
      return OpenCsvDataset(spec.csv(), spec.range(), directory, field);
    case millrace::Dataset::FORMAT_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": no format this worker knows; set idx, libsvm or csv"));
}

}  // namespace millrace::worker
