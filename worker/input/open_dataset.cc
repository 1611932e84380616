#include "absl/strings/str_cat.h"
#include "common/memory_limit.h"
#include "common/proto_fields.h"
#include "common/status_macros.h"
#include "worker/input/augmenter.h"
#include "worker/input/cifar_dataset.h"
#include "worker/input/csv/csv_dataset.h"
#include "worker/input/dataset.h"
#include "worker/input/example_selection.h"
#include "worker/input/idx_dataset.h"
#include "worker/input/images/image_folder_dataset.h"
#include "worker/input/libsvm_dataset.h"
#include "worker/input/normalized_dataset.h"
#include "worker/input/numpy_dataset.h"
#include "worker/input/tfrecord_dataset.h"

namespace millrace::worker {
namespace {

absl::StatusOr<std::unique_ptr<Dataset>> OpenFormat(const millrace::Dataset& spec,
                                                    const DataDirectory& directory,
                                                    const std::string& field,
                                                    uint64_t data_memory) {
  const ExampleSelection selection(spec);
  switch (spec.format_case()) {
    case millrace::Dataset::kIdx:
      return OpenIdxDataset(spec.idx(), selection, directory, field);
    case millrace::Dataset::kLibsvm:
      return OpenLibsvmDataset(spec.libsvm(), selection, directory, field);
    case millrace::Dataset::kCifar:
      return OpenCifarDataset(spec.cifar(), selection, directory, field, data_memory);
    case millrace::Dataset::kNumpy:
      return OpenNumpyDataset(spec.numpy(), selection, directory, field, data_memory);
    case millrace::Dataset::kCsv:
      return OpenCsvDataset(spec.csv(), selection, directory, field);
    case millrace::Dataset::kTfrecord:
      return OpenTfRecordDataset(spec.tfrecord(), selection, directory, field, data_memory);
    case millrace::Dataset::kImageFolder:
      return OpenImageFolder(spec.image_folder(), selection, directory, field);
    case millrace::Dataset::FORMAT_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": no format this worker knows; set ",
                   Choice(millrace::Dataset::descriptor()->FindOneofByName("format"))));
}

}  // namespace

uint64_t DefaultDataMemory() { return MemoryLimit() / 4; }

absl::StatusOr<std::unique_ptr<Dataset>> OpenDataset(const millrace::Dataset& spec,
                                                     const DataDirectory& directory,
                                                     const std::string& field,
                                                     uint64_t data_memory) {
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Dataset> dataset,
                            OpenFormat(spec, directory, field, data_memory));
  if (spec.has_augmentation()) {
    MILLRACE_RETURN_IF_ERROR(Augmenter::Check(spec.augmentation(), dataset->example(), field));
  }
  if (!spec.has_normalization()) return dataset;
  return Normalize(std::move(dataset), spec.normalization(), field);
}

}  // namespace millrace::worker
