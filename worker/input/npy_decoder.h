// Rows of NumPy's arrays as parts of examples.
#ifndef MILLRACE_WORKER_INPUT_NPY_DECODER_H_
#define MILLRACE_WORKER_INPUT_NPY_DECODER_H_

#include <cstddef>
#include <memory>
#include <string>

#include "worker/input/example_spec.h"
#include "worker/input/npy_header.h"
#include "worker/input/record_dataset.h"

namespace millrace::worker {

// What a feature's or a label's elements become; see NumpyArray in protos/data.proto.
ElementType NpyElementType(const NpyType& type, bool is_label, double divide_by);

// Of rows as a file has them, in C's order. The decoder fills features[index] or labels[index].
struct NpyTarget {
  std::string name;  // Of the feature or label, for messages.
  bool is_label = false;
  size_t index = 0;
  double divide_by = 0;
};
std::unique_ptr<const RecordDecoder> MakeNpyDecoder(const NpyType& type, const NpyTarget& target);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_NPY_DECODER_H_
