// What the texts of a CSV file's columns become: numbers and ids.
#ifndef MILLRACE_WORKER_INPUT_CSV_CSV_COLUMN_H_
#define MILLRACE_WORKER_INPUT_CSV_CSV_COLUMN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "protos/csv.pb.h"
#include "worker/input/data_directory.h"

namespace millrace::worker {

// What a row says in a column of the file.
struct CsvValue {
  absl::string_view text;
  bool missing = false;
};

// What it becomes.
struct CsvCell {
  float number = 0;
  int32_t id = 0;
};

// What is wrong with a row, and in which of the column's values.
struct CsvError {
  size_t value = 0;
  std::string message;
};

// One CsvColumn. Immutable, thread-safe.
class CsvEncoder {
 public:
  virtual ~CsvEncoder() = default;

  // Cells have ids from 0 to ids() - 1; 0: they have numbers.
  virtual int64_t ids() const = 0;

  // Sets the cell. REQUIRES: there is a value for each column that the CsvColumn names.
  virtual absl::optional<CsvError> Encode(absl::Span<const CsvValue> values,
                                          CsvCell* cell) const = 0;
};

// `directory` is where a vocabulary's file stands, `field` the column's path in the job.
// INVALID_ARGUMENT, UNAVAILABLE: of that file. REQUIRES: CheckCsvFiles is content with the column.
absl::StatusOr<std::unique_ptr<CsvEncoder>> MakeCsvEncoder(const CsvColumn& column,
                                                           const DataDirectory& directory,
                                                           const std::string& field);

// The kinds of columns.
std::unique_ptr<CsvEncoder> MakeNumberEncoder(const CsvNumber& spec);
std::unique_ptr<CsvEncoder> MakeBucketsEncoder(const CsvBuckets& spec);
std::unique_ptr<CsvEncoder> MakeHashEncoder(const CsvHash& spec);
std::unique_ptr<CsvEncoder> MakeCrossEncoder(const CsvCross& spec);
absl::StatusOr<std::unique_ptr<CsvEncoder>> MakeVocabularyEncoder(const CsvVocabulary& spec,
                                                                  const DataDirectory& directory,
                                                                  const std::string& field);

// How many of the increasing `boundaries` are at most x.
int32_t BucketOf(absl::Span<const double> boundaries, double x);

// For a message: "a word of 3 bytes that is no number; must be a finite number".
std::string NoFiniteNumber(absl::string_view text);

// The text as a finite number.
absl::optional<double> ParseFinite(absl::string_view text);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_CSV_CSV_COLUMN_H_
