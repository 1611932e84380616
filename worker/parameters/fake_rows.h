// What pieces with rows mean, element by element, made from the .proto alone.
#ifndef MILLRACE_WORKER_PARAMETERS_FAKE_ROWS_H_
#define MILLRACE_WORKER_PARAMETERS_FAKE_ROWS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "google/protobuf/repeated_field.h"

namespace millrace::testing {

using RowNumbers = google::protobuf::RepeatedField<uint64_t>;

// Why they are not rows of elements [begin, begin + count) of a variable; empty: they are.
std::string WhyNoRows(const RowNumbers& rows, uint64_t width, uint64_t begin, uint64_t count);

// Those of the elements [begin, begin + count) of a variable that are in one of `rows`, counted
// from `begin`. REQUIRES: `rows` are ascending, width >= 1.
std::vector<uint64_t> ElementsInRows(const RowNumbers& rows, uint64_t width, uint64_t begin,
                                     uint64_t count);

}  // namespace millrace::testing

#endif  // MILLRACE_WORKER_PARAMETERS_FAKE_ROWS_H_
