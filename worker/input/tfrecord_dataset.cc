#include "worker/input/tfrecord_dataset.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/input/input_file.h"
#include "worker/input/input_files.h"
#include "worker/input/record_dataset.h"
#include "worker/input/tf_example_decoder.h"
#include "worker/input/tfrecord_reader.h"

namespace millrace::worker {
namespace {

absl::Status AddTfRecords(InputFile* file, RecordCollector* collector) {
  TfRecordReader reader(file);
  while (true) {
    MILLRACE_ASSIGN_OR_RETURN(const bool more, reader.Next());
    if (!more) return absl::OkStatus();
    MILLRACE_RETURN_IF_ERROR(collector->Add(reader.record(), reader.offset()));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenTfRecordDataset(const TfRecordFiles& spec,
                                                             const ExampleSelection& selection,
                                                             const std::string& directory,
                                                             const std::string& field,
                                                             uint64_t data_memory) {
  const std::vector<std::string> listed(spec.files().begin(), spec.files().end());
  MILLRACE_ASSIGN_OR_RETURN(std::vector<NamedFile> files,
                            FindFiles(directory, listed, absl::StrCat(field, ".tfrecord.files")));
  const bool in_place = BytesOnDisk(directory, files) > data_memory;
  RecordCollector collector(DescribeTfExamples(spec), MakeTfExampleDecoder(spec), selection,
                            TfRecordReader::kGapBytes);
  for (NamedFile& name : files) {
    MILLRACE_ASSIGN_OR_RETURN(InputFile file, InputFile::Open(directory, name.name, name.field));
    name.name = file.name();
    MILLRACE_RETURN_IF_ERROR(collector.BeginFile(file, in_place));
    MILLRACE_RETURN_IF_ERROR(AddTfRecords(&file, &collector));
    MILLRACE_RETURN_IF_ERROR(collector.EndFile());
  }
  return std::move(collector).Finish(NameAll(files), field);
}

}  // namespace millrace::worker
