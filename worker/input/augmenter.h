// Changes the pictures of training batches at random.
#ifndef MILLRACE_WORKER_INPUT_AUGMENTER_H_
#define MILLRACE_WORKER_INPUT_AUGMENTER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "protos/images.pb.h"
#include "worker/input/batch.h"
#include "worker/input/example_spec.h"

namespace millrace::worker {

// What becomes of one picture: where its upper left corner is in the padded one, and whether it is
// mirrored then.
struct PictureChange {
  uint32_t row = 0;
  uint32_t column = 0;
  bool mirrored = false;
};

// A function of its arguments alone, which docs/protocol.md defines: nothing depends on who
// computes a step, and how often. A value type; thread-safe.
class Augmenter {
 public:
  // INVALID_ARGUMENT: examples are no pictures, with the set's path `field` ("data.train").
  static absl::Status Check(const Augmentation& spec, const ExampleSpec& example,
                            const std::string& field);

  // REQUIRES: Check is content.
  Augmenter(const Augmentation& spec, const ExampleSpec& example);

  // Of row `row` of the batch of a step with this seed (StepSeed).
  PictureChange ChangeOf(uint64_t step_seed, uint64_t row) const;

  // Changes all pictures of the batch of a step with this seed. Throws std::bad_alloc.
  void Apply(uint64_t step_seed, Batch* batch) const;

 private:
  template <typename Number>
  void ApplyTo(uint64_t step_seed, std::vector<Number>* pictures) const;
  template <typename Number>
  void Change(const PictureChange& change, const Number* from, Number* to) const;

  const uint32_t padding_;
  const bool flip_;
  const uint64_t height_;
  const uint64_t width_;
  const uint64_t channels_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_AUGMENTER_H_
