#include "worker/input/tfrecord_dataset.h"

#include "common/status_macros.h"
#include "worker/input/input_file.h"
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

absl::StatusOr<std::unique_ptr<Dataset>> OpenTfRecordDataset(
    const TfRecordFiles& spec, const ExampleSelection& selection, const DataDirectory& directory,
    const std::string& field, uint64_t data_memory, uint64_t most_kept) {
  const RecordLayout layout = {TfRecordReader::kGapBytes, /*checksum=*/true};
  return CollectRecords(
      {{spec.files().begin(), spec.files().end()}, directory, field, "tfrecord", data_memory},
      AddTfRecords,
      RecordCollector(DescribeTfExamples(spec), MakeTfExampleDecoder(spec), selection, layout,
                      most_kept));
}

}  // namespace millrace::worker
