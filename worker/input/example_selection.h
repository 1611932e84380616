// Which examples of the files belong to a set.
#ifndef MILLRACE_WORKER_INPUT_EXAMPLE_SELECTION_H_
#define MILLRACE_WORKER_INPUT_EXAMPLE_SELECTION_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "protos/job.pb.h"

namespace millrace::worker {

// Examples are counted from 0, in the order of all the set's files. Immutable and thread-safe.
class ExampleSelection {
 public:
  // All examples.
  ExampleSelection() = default;

  // What `set.range` and `set.hold_out` say.
  explicit ExampleSelection(const millrace::Dataset& set);

  // REQUIRES: the set's range has it (which has to be checked in the end, with CheckCount).
  bool Contains(uint64_t example) const;

  // Fits the range to the `examples` that are in `files` (their name, for messages), of which
  // `selected` belong to the set. `field` is the path of the set in the job ("data.train").
  // INVALID_ARGUMENT: there are no examples, the range goes beyond them, or nothing is selected.
  absl::Status CheckCount(uint64_t examples, uint64_t selected, const std::string& files,
                          const std::string& field) const;

 private:
  ExampleRange range_;
  HoldOut hold_out_;
  bool has_hold_out_ = false;
};

// Whether docs/protocol.md counts an example among those held out.
bool IsHeldOut(const HoldOut& hold_out, uint64_t example);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_EXAMPLE_SELECTION_H_
