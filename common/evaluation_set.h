// Which examples a job is evaluated on.
#ifndef MILLRACE_COMMON_EVALUATION_SET_H_
#define MILLRACE_COMMON_EVALUATION_SET_H_

#include "protos/data.pb.h"

namespace millrace {

// data.evaluate, with what it takes over from data.train filled in: the normalization, and what
// CsvFiles says.
Dataset EvaluationSet(const DataSpec& data);

}  // namespace millrace

#endif  // MILLRACE_COMMON_EVALUATION_SET_H_
