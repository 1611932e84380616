// Where the values and gradients of a pass stand, whatever device it runs on: all in one piece of
// memory, each from when it is made to when it is last needed, in the place of others that are
// not needed at that time.
//
// Time is counted in steps of the walk: the forward steps, the losses, the backward steps. A
// training pass keeps the values that its backward steps take; an evaluation keeps none for longer
// than the last layer that takes it. Where a layer allows it, its output stands where its input
// stood.
#ifndef MILLRACE_WORKER_MODEL_MEMORY_PLAN_H_
#define MILLRACE_WORKER_MODEL_MEMORY_PLAN_H_

#include <cstddef>
#include <limits>
#include <vector>

#include "worker/model/model_plan.h"
#include "worker/model/walk.h"

namespace millrace::worker {

// Places are counted in floats from the memory's beginning, and are multiples of this.
inline constexpr size_t kPlaceAlignment = 16;
inline constexpr size_t kNoPlace = std::numeric_limits<size_t>::max();

// Of the gradient by one value that one step gives.
struct GradientPlace {
  size_t place = kNoPlace;  // Where the step writes it; kNoPlace: it is not asked for.
  // Where to add it to when the step is done; kNoPlace: nowhere.
  size_t sum = kNoPlace;
};

struct BackwardPlaces {
  size_t output_gradient = kNoPlace;  // Whole; the step may overwrite it.
  std::vector<GradientPlace> input_gradients;
};

struct MemoryPlan {
  size_t size = 0;   // In floats.
  size_t least = 0;  // What is needed at one time at most: no plan of these lifetimes is smaller.
  // Of each value; kNoPlace: views, values that nobody needs, and features of floats and ids, which
  // stand in the batch. Those of bytes have a place, for floats.
  std::vector<size_t> values;
  std::vector<size_t> kept;                     // Of each layer (LayerTraits::kept).
  std::vector<GradientPlace> output_gradients;  // Of each output, as Walk::output_gradients.
  std::vector<BackwardPlaces> backward;         // As Walk::backward; empty for evaluations.
};

// For batches of up to `batch` examples. A value of more than 2^48 floats counts as so many.
MemoryPlan PlanMemory(const ModelPlan& plan, const Walk& walk, size_t batch, bool training);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_MODEL_MEMORY_PLAN_H_
