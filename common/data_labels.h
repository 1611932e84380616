// Which labels the examples of a data set have, as the job says it.
#ifndef MILLRACE_COMMON_DATA_LABELS_H_
#define MILLRACE_COMMON_DATA_LABELS_H_

#include <string>
#include <vector>

#include "protos/csv.pb.h"
#include "protos/data.pb.h"

namespace millrace {

// What a model calls the labels of `set`, in the order in which its examples have them.
std::vector<std::string> LabelNames(const Dataset& set);
std::vector<std::string> LabelNames(const CifarFiles& files);

// What a model calls one label: its name, or the one that it has without.
std::string LabelName(const NumpyArray& label);
std::string LabelName(const RecordFeature& label);
std::string LabelName(const CsvLabel& label);

// Where label `index` of `count` stands: "data.train.csv.label[1]", the only one in
// "data.train.csv.label". `path`: "data.train.csv".
std::string LabelPath(const std::string& path, int index, int count);

}  // namespace millrace

#endif  // MILLRACE_COMMON_DATA_LABELS_H_
