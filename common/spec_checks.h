// The parts of CheckJobSpec that have files of their own.
#ifndef MILLRACE_COMMON_SPEC_CHECKS_H_
#define MILLRACE_COMMON_SPEC_CHECKS_H_

#include <string>

#include "absl/status/status.h"
#include "protos/csv.pb.h"
#include "protos/data.pb.h"
#include "protos/model.pb.h"

namespace millrace {

// INVALID_ARGUMENT: "model.layers[2].dense.units: 0; must be at least 1".
absl::Status CheckModelSpec(const ModelSpec& model);

// INVALID_ARGUMENT: "data.train.idx.images: ...".
absl::Status CheckDataSpec(const DataSpec& data);

// Of all but the names of the files. `path` is the field's, "data.train.csv".
absl::Status CheckCsvFiles(const CsvFiles& files, const std::string& path);

}  // namespace millrace

#endif  // MILLRACE_COMMON_SPEC_CHECKS_H_
