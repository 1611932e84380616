// A model that is built of ModelSpec layers, in code, and does what no ModelSpec says.
#ifndef MILLRACE_EXAMPLES_OWN_WORKER_SHIFTED_IMAGES_H_
#define MILLRACE_EXAMPLES_OWN_WORKER_SHIFTED_IMAGES_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "worker/model/own_models.h"

namespace millrace::examples {

// "shifted_images": as many dense layers as the job asks for, trained on images that are shifted at
// random, by other distances in every step: so it learns digits wherever they stand.
// Options: `layers` (1 to 16; 1) and `units` (1 to 4096; 32) of the hidden ones, `classes` (2 to
// 1000; 10), `shift` (0 to 8; 2): by up to so many pixels in each direction.
worker::OwnModel ShiftedImages();

// How far the image in a row of a batch is shifted: at most `most` each way. What a step computes
// must follow from the job and the step's number alone, whichever worker has it: so this is a
// function of the step's seed, which is one of these two.
struct Shift {
  int down = 0;
  int right = 0;
};
Shift ShiftOf(uint64_t step_seed, size_t row, int most);

// Writes the image, [rows, columns], shifted; what comes in from outside is 0.
void ShiftImage(absl::Span<const float> image, size_t columns, Shift shift,
                absl::Span<float> shifted);

}  // namespace millrace::examples

#endif  // MILLRACE_EXAMPLES_OWN_WORKER_SHIFTED_IMAGES_H_
