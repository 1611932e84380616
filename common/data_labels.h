// What a model calls the features and the labels of a data set, as the job says it.
#ifndef MILLRACE_COMMON_DATA_LABELS_H_
#define MILLRACE_COMMON_DATA_LABELS_H_

#include <string>
#include <vector>

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

// Where label `index` of `count` stands: "data.train.csv.label[1]", the only one in
// "data.train.csv.label". `path`: "data.train.csv".
std::string LabelPath(const std::string& path, int index, int count);

}  // namespace millrace

#endif  // MILLRACE_COMMON_DATA_LABELS_H_
