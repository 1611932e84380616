// The columns of a CSV set in memory, and what examples are made of them.
#ifndef MILLRACE_WORKER_INPUT_CSV_CSV_TABLE_H_
#define MILLRACE_WORKER_INPUT_CSV_CSV_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "protos/csv.pb.h"
#include "worker/input/batch.h"
#include "worker/input/csv/csv_column.h"

namespace millrace::worker {

// A column's cells: four bytes each.
struct CsvCells {
  bool numbers_only = false;  // Which of the lists is used.
  std::vector<float> numbers;
  std::vector<int32_t> ids;

  void Add(const CsvCell& cell);
  size_t size() const { return numbers_only ? numbers.size() : ids.size(); }
};

// Four bytes for each column, label and weight of an example.
struct CsvTable {
  std::vector<int64_t> ids;  // Of each column, as CsvEncoder::ids.
  std::vector<CsvCells> columns;
  std::vector<CsvCells> labels;  // At least one.
  std::vector<float> weights;    // Empty: all examples count alike.

  uint64_t examples() const { return labels.front().size(); }
};

// As docs/protocol.md says.
uint64_t FingerprintOfTable(const CsvTable& table);

// Where a column's cells are in a feature: its number, the first of its places, or its first id.
struct CsvFeaturePart {
  size_t column = 0;
  int64_t offset = 0;
};

// A feature of the examples.
struct CsvFeature {
  std::string name;
  bool as_id = false;
  std::vector<CsvFeaturePart> parts;
  int64_t end = 0;  // The numbers of an example; as ids: how many ids there are.

  // How many numbers or ids an example has.
  size_t width() const { return as_id ? parts.size() : static_cast<size_t>(end); }
};

// Which features the job's columns make, in the order of their first columns. `ids` has those of
// each column; `field` is the job's ("data.train.csv"). INVALID_ARGUMENT: a feature of too many
// numbers.
absl::StatusOr<std::vector<CsvFeature>> LayOutFeatures(const CsvFiles& spec,
                                                       absl::Span<const int64_t> ids,
                                                       const std::string& field);

// Replaces *tensor by the feature of the examples at `indices`.
void FillFeature(const CsvTable& table, const CsvFeature& feature,
                 absl::Span<const uint64_t> indices, Tensor* tensor);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_CSV_CSV_TABLE_H_
