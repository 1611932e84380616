#include "worker/input/record_dataset.h"

#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/input/memory_budget.h"

namespace millrace::worker {

absl::Status RecordColumn::Append(uint64_t index, std::string* scratch, Batch* batch) const {
  MILLRACE_ASSIGN_OR_RETURN(const absl::string_view record, records.Get(index, scratch));
  return decoder->Append(record, batch);
}

absl::Status RecordDataset::Read(absl::Span<const uint64_t> indices, Batch* batch) const {
  ClearBatch(example_, batch);
  std::string scratch;
  for (const RecordColumn& column : columns_) {
    for (const uint64_t index : indices) {
      MILLRACE_RETURN_IF_ERROR(column.Append(index, &scratch, batch));
    }
  }
  batch->size = indices.size();
  return absl::OkStatus();
}

RecordCollector::RecordCollector(const ExampleSpec& example,
                                 std::unique_ptr<const RecordDecoder> decoder,
                                 const ExampleSelection& selection, const RecordLayout& layout,
                                 uint64_t most_kept)
    : selection_(std::make_unique<ExampleSelection>(selection)),
      summary_(example),
      column_{RecordStore(layout), std::move(decoder)},
      most_kept_(most_kept) {}

absl::Status RecordCollector::BeginFile(const InputFile& file, bool in_place) {
  file_ = &file;
  in_place_ = in_place && !file.compressed();
  examples_of_file_ = 0;
  if (!in_place_) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(InPlaceFile opened, InPlaceFile::Open(file));
  column_.records.BeginFile(std::move(opened));
  return absl::OkStatus();
}

absl::Status RecordCollector::Add(absl::string_view record, uint64_t offset) {
  const uint64_t number = examples_of_file_++;
  if (!selection_->Contains(examples_++)) return absl::OkStatus();
  ClearBatch(summary_.spec(), &example_);
  absl::Status status = column_.decoder->Append(record, &example_);
  if (status.ok()) status = summary_.Add(example_, file_->name(), number);
  if (!status.ok()) {
    return file_->Error(
        absl::StrCat("example ", number, " at offset ", offset, ": ", status.message()));
  }
  const uint64_t kept = column_.records.KeptWhileAdding(in_place_ ? 0 : record.size());
  MILLRACE_RETURN_IF_ERROR(CheckKept(kept, most_kept_, *file_));
  if (in_place_) {
    column_.records.AddInPlace(offset, static_cast<uint32_t>(record.size()));
  } else {
    column_.records.Add(record);
  }
  return absl::OkStatus();
}

absl::Status RecordCollector::EndFile() {
  return in_place_ ? column_.records.file().CheckUnchanged() : absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Dataset>> RecordCollector::Finish(const std::string& files,
                                                                 const std::string& field) && {
  MILLRACE_RETURN_IF_ERROR(selection_->CheckCount(examples_, summary_.examples(), files, field));
  std::vector<RecordColumn> columns;
  columns.push_back(std::move(column_));
  auto dataset = std::make_unique<RecordDataset>(std::move(columns), summary_.spec());
  dataset->Describe(summary_);
  return dataset;
}

absl::StatusOr<std::unique_ptr<Dataset>> CollectRecords(const RecordFiles& files,
                                                        const AddRecords& add,
                                                        RecordCollector&& collector) {
  MILLRACE_ASSIGN_OR_RETURN(std::vector<NamedFile> found,
                            FindFiles(files.directory.path, files.names,
                                      absl::StrCat(files.field, ".", files.format, ".files")));
  const bool in_place = BytesOnDisk(files.directory.path, found) > files.data_memory;
  for (NamedFile& name : found) {
    MILLRACE_ASSIGN_OR_RETURN(InputFile file,
                              InputFile::Open(files.directory, name.name, name.field));
    name.name = file.name();
    MILLRACE_RETURN_IF_ERROR(collector.BeginFile(file, in_place));
    MILLRACE_RETURN_IF_ERROR(add(&file, &collector));
    MILLRACE_RETURN_IF_ERROR(collector.EndFile());
  }
  return std::move(collector).Finish(NameAll(found), files.field);
}

uint64_t BytesOnDisk(const std::string& directory, const std::vector<NamedFile>& files) {
  uint64_t sum = 0;
  for (const NamedFile& file : files) {
    struct stat info;
    const std::string path =
        file.name[0] == '/' ? file.name : absl::StrCat(directory, "/", file.name);
    if (stat(path.c_str(), &info) == 0) sum += static_cast<uint64_t>(info.st_size);
  }
  return sum;
}

}  // namespace millrace::worker
