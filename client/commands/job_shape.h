// What a job will be on its data: the model with its shapes, and the sizes that follow.
#ifndef MILLRACE_CLIENT_COMMANDS_JOB_SHAPE_H_
#define MILLRACE_CLIENT_COMMANDS_JOB_SHAPE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/job.pb.h"
#include "worker/model/layer_plan.h"
#include "worker/model/model_plan.h"

namespace millrace::client {

// A value type.
struct JobShape {
  std::string custom;       // The model that workers know by name; empty: there are layers.
  worker::ModelPlan model;  // Without a `custom`.
  uint64_t train_examples = 0;
  uint64_t evaluate_examples = 0;
  uint64_t steps = 0;
  uint64_t batch_size = 0;  // Examples of a step, at most.
  Encoding::Kind wire = Encoding::FLOAT32;
  double worker_bytes = 0;  // Memory that a worker needs beside its data, without a `custom`.
};

// Plans the job's model without its data, where their format alone says what an example is (CIFAR,
// image folders). INVALID_ARGUMENT names what workers and the coordinator would refuse. REQUIRES:
// as ShapeOf.
absl::Status CheckKnownShapes(const JobSpec& spec);

// Opens the job's data and plans its model on them. Blocks while it reads. INVALID_ARGUMENT names
// what does not fit; else errors of worker::OpenDataset. REQUIRES: the spec has passed
// CheckJobSpec.
absl::StatusOr<JobShape> ShapeOf(const JobSpec& spec);

// Elements of the variables that belong to `layer`, one of the layers of `model`. Shared ones count
// at the layer that has them.
uint64_t Parameters(const worker::ModelPlan& model, const worker::LayerPlan& layer);

// Elements of all variables, by what becomes of them.
struct ParameterCounts {
  uint64_t trainable = 0;
  uint64_t frozen = 0;      // Stay as they begin.
  uint64_t statistics = 0;  // Moving averages, which follow what batches have.

  uint64_t all() const { return trainable + frozen + statistics; }
};

ParameterCounts CountParameters(const worker::ModelPlan& model);

// Of all layers, for an example, forwards.
double ForwardFlops(const worker::ModelPlan& model);

// What a step sends to the ps servers, of each element that is not frozen: gradients as `wire`,
// statistics as float32. Of a large embedding's table a worker sends the rows that the batch's
// ids are of: here each id has one of its own, and there are none in ragged features.
uint64_t BytesPushed(const JobShape& shape);

// The numbers of examples and steps, a line for each: "training examples  60,000\n".
std::string SizesText(const JobShape& shape);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_JOB_SHAPE_H_
