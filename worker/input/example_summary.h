// What follows from all examples of a set: its fingerprint, and how large its ids are.
#ifndef MILLRACE_WORKER_INPUT_EXAMPLE_SUMMARY_H_
#define MILLRACE_WORKER_INPUT_EXAMPLE_SUMMARY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "worker/input/batch.h"
#include "worker/input/example_spec.h"

namespace millrace::worker {

// Empties the tensors of `batch` and gives it those that `spec` names; their memory stays.
void ClearBatch(const ExampleSpec& spec, Batch* batch);

// The fingerprint that docs/protocol.md has for every format but IDX and LIBSVM: of what a model
// sees, however it is stored. Not thread-safe.
class ExampleSummary {
 public:
  explicit ExampleSummary(const ExampleSpec& spec);

  // `example` is the set's next one, alone in its batch. It is number `number`, from 0, of `file`.
  // INVALID_ARGUMENT, with the tensor and what is wrong and without the place: a float that is no
  // number, an id that is negative.
  absl::Status Add(const Batch& example, absl::string_view file, uint64_t number);

  // The same one tensor after the other, where each is from a file of its own: `tensor` counts
  // features, then labels. REQUIRES: they come in this order, and then EndExample.
  absl::Status AddTensor(const Batch& example, size_t tensor, absl::string_view file,
                         uint64_t number);
  void EndExample() { ++examples_; }

  uint64_t examples() const { return examples_; }
  uint64_t fingerprint() const { return fingerprint_; }

  // That of the constructor, with the limits of its ids, and where the largest ones are.
  const ExampleSpec& spec() const { return spec_; }

 private:
  absl::Status AddValues(const Tensor& tensor, absl::string_view file, uint64_t number,
                         TensorSpec* spec);

  ExampleSpec spec_;
  uint64_t examples_ = 0;
  uint64_t fingerprint_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_EXAMPLE_SUMMARY_H_
