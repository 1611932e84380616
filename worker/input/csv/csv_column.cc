#include "worker/input/csv/csv_column.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace millrace::worker {

absl::StatusOr<std::unique_ptr<CsvEncoder>> MakeCsvEncoder(const CsvColumn& column,
                                                           const DataDirectory& directory,
                                                           const std::string& field) {
  switch (column.kind_case()) {
    case CsvColumn::kNumber:
      return MakeNumberEncoder(column.number());
    case CsvColumn::kBuckets:
      return MakeBucketsEncoder(column.buckets());
    case CsvColumn::kVocabulary:
      return MakeVocabularyEncoder(column.vocabulary(), directory,
                                   absl::StrCat(field, ".vocabulary"));
    case CsvColumn::kHash:
      return MakeHashEncoder(column.hash());
    case CsvColumn::kCross:
      return MakeCrossEncoder(column.cross());
    case CsvColumn::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(absl::StrCat(field, ": no kind this worker knows"));
}

}  // namespace millrace::worker
