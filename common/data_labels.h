// What a model calls the features and the labels of a data set, as the job says it.
#ifndef MILLRACE_COMMON_DATA_LABELS_H_
#define MILLRACE_COMMON_DATA_LABELS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "protos/csv.pb.h"
#include "protos/data.pb.h"

namespace millrace {

// The labels of `set`, in the order in which its examples have them.
std::vector<std::string> LabelNames(const Dataset& set);
std::vector<std::string> LabelNames(const CifarFiles& files);

// One label: its name or, where it is given none, "label".
std::string LabelName(const NumpyArray& label);
std::string LabelName(const CsvLabel& label);

// One feature of arrays: its name or, where it is given none, "features".
std::string FeatureName(const NumpyArray& feature);

// One feature or label of records: its name or, where it is given none, its key.
std::string TensorName(const RecordFeature& tensor);
// Where that stands: "PATH.name" or "PATH.key". `path`: "data.train.tfrecord.features[0]".
std::string TensorNamePath(const RecordFeature& tensor, const std::string& path);

// Where the name of label `index` stands: "data.evaluate.numpy.label[1].name". Nothing: in this
// format the names are fixed, or there is no such label. `path`: "data.evaluate".
absl::optional<std::string> LabelNamePath(const Dataset& set, const std::string& path,
                                          size_t index);

// Where label `index` of `count` stands: "data.train.csv.label[1]", the only one in
// "data.train.csv.label". `path`: "data.train.csv".
std::string LabelPath(const std::string& path, int index, int count);

}  // namespace millrace

#endif  // MILLRACE_COMMON_DATA_LABELS_H_
