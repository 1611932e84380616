// What is to be predicted, from a column of a CSV file.
#ifndef MILLRACE_WORKER_INPUT_CSV_CSV_LABEL_H_
#define MILLRACE_WORKER_INPUT_CSV_CSV_LABEL_H_

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/types/optional.h"
#include "protos/csv.pb.h"
#include "worker/input/csv/csv_column.h"

namespace millrace::worker {

// One CsvLabel. Immutable, thread-safe.
class CsvLabelEncoder {
 public:
  // REQUIRES: CheckCsvFiles is content with the label.
  explicit CsvLabelEncoder(const CsvLabel& spec);

  // Labels are numbers, and no classes.
  bool number() const { return number_; }

  // How many classes the job lists; 0: it does not.
  int64_t classes() const { return classes_; }

  // Sets the number, or the class as an id; else says what is wrong.
  absl::optional<std::string> Encode(const CsvValue& value, CsvCell* cell) const;

 private:
  absl::optional<std::string> EncodeClass(absl::string_view text, CsvCell* cell) const;

  bool number_;
  int64_t classes_;
  absl::flat_hash_map<std::string, int32_t> values_;  // The class of each.
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_CSV_CSV_LABEL_H_
