// CSV files, kept as columns.
#ifndef MILLRACE_WORKER_INPUT_CSV_CSV_DATASET_H_
#define MILLRACE_WORKER_INPUT_CSV_CSV_DATASET_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "protos/csv.pb.h"
#include "worker/input/data_directory.h"
#include "worker/input/dataset.h"
#include "worker/input/example_selection.h"
#include "worker/input/memory_budget.h"

namespace millrace::worker {

// Opens the examples of a selection in CsvFiles. All files are read to their ends and checked; of
// what is selected, four bytes are kept for each column and example, at most `most_kept` in all.
// Labels are classes, or floats. Errors as OpenDataset, with FILE:LINE:COLUMN
// and the column's name.
absl::StatusOr<std::unique_ptr<Dataset>> OpenCsvDataset(const CsvFiles& spec,
                                                        const ExampleSelection& selection,
                                                        const DataDirectory& directory,
                                                        const std::string& field,
                                                        uint64_t most_kept = MostKeptBytes());

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_CSV_CSV_DATASET_H_
