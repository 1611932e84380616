// What the training loop asks of a model. Models made of ModelSpec layers are built by
// worker/model/layered_model.h; a worker binary of your own can bring another (see
// worker/worker.h).
#ifndef MILLRACE_WORKER_MODEL_MODEL_H_
#define MILLRACE_WORKER_MODEL_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/wire/rows.h"
#include "protos/events.pb.h"
#include "protos/job.pb.h"
#include "protos/output.pb.h"
#include "worker/input/batch.h"
#include "worker/input/dataset.h"
#include "worker/model/host_memory.h"
#include "worker/model/roc_sums.h"

namespace millrace::worker {

// Takes the gradients of one step as the backward pass makes them.
class GradientSink {
 public:
  virtual ~GradientSink() = default;

  // The loss is known and finite, and gradients follow: Model::next_values may be written from now
  // on, and the batch of the next step may be staged. Called by Train before it asks for the first
  // Buffer; a model that does not call it is taken to do so with the first Buffer. May take as long
  // as it takes to stage a batch.
  virtual void BackwardBegins() {}

  // Where to write the gradient of a variable, or the statistic of one that is a moving average: as
  // many floats as it has elements, uninitialised. Of a frozen variable: empty. A
  // device's model may be given less of a compact table (worker/model/compact_tables.h): the first
  // rows, which all ids of the batch are of. Behind them nothing may be written.
  virtual absl::Span<float> Buffer(size_t variable) = 0;

  // Where to write the gradient in some rows of a variable, one after the other, of which all else
  // is 0; uninitialised. Finished follows, and no call of Buffer for the variable. Asked of a
  // variable that has a Model::row_width, with the rows of the batch, also where a model around it
  // has none. Nothing: the gradient is to be written to Buffer, as that of any other variable.
  virtual absl::optional<absl::Span<float>> RowBuffer(
      size_t /*variable*/, std::shared_ptr<const VariableRows> /*rows*/) {
    return absl::nullopt;
  }

  // Where that is memory of Model::host_memory(), the same: a device may write there by itself
  // until Train returns. Begins at a multiple of HostMemory::kAlignment, and what is left up to the
  // next one at its end is the device's, too: where variables stand one after the other in their
  // order, it copies several at once. Says nothing of when the gradients begin, as Buffer does: may
  // be called before. Empty: it is other memory.
  virtual absl::Span<float> DeviceBuffer(size_t /*variable*/) { return {}; }

  // The first `count` elements of Buffer(variable) are final: they may leave while the rest is
  // computed, and must not be touched again. May be called, any number of times, before Finished,
  // with counts that do not become less; the last may be all.
  virtual void FinishedFirst(size_t /*variable*/, size_t /*count*/) {}

  // What is in Buffer(variable) is final: it may leave for the ps servers at once, and must not be
  // touched again. Called once for each variable that is not frozen; does not block, and is cheap,
  // but once in a step may stage the next one's batch.
  virtual void Finished(size_t variable) = 0;

  // The same, of one whose elements the model knows to be finite.
  virtual void FinishedFinite(size_t variable) { Finished(variable); }
};

// By their names.
using MetricSums = std::map<std::string, MetricSum>;

// Adds to the sum of that name.
void AddTo(const std::string& name, double sum, double count, bool root, MetricSums* sums);

// Sums over the examples of a batch.
struct BatchResult {
  double loss_sum = 0;
  // The number that were right, where the job asks for it, of a model with one output.
  absl::optional<double> accuracy_sum;
  MetricSums metric_sums = {};  // All else that is told of training batches.
};

// Gathers what Evaluate finds over the batches of an evaluation.
struct EvaluationSums {
  uint64_t examples = 0;
  double loss_sum = 0;
  absl::optional<double> accuracy_sum;
  MetricSums metric_sums;
  std::map<std::string, RocSums> curves;  // By the names of the areas under them, such as "auc".
  std::map<std::string, ConfusionMatrix> confusion_matrices;  // By the names of their outputs.
};

// "loss", "accuracy", "auc": those that the sums allow. REQUIRES: examples >= 1.
std::map<std::string, double> EvaluationMetrics(const EvaluationSums& sums);

// A model ready to run, with room for its values. Used by one thread at a time. The same values and
// batch give the same bits on every object of the same kind of device.
class Model {
 public:
  virtual ~Model() = default;

  // With how a step changes each (VariableSpec.update).
  virtual const std::vector<VariableSpec>& variables() const = 0;

  // What the bits of its results depend on beside values, batch and seed, in words:
  // JobPlan.numerics. Workers whose models say otherwise do not take part in the same synchronous
  // job. Empty: unknown, and not compared.
  virtual std::string numerics() const { return ""; }

  // Where the values of a variable stand, 0 at first: write them here before a step, row-major.
  // From this call on each step takes all of them anew, unless the model is told that they arrive.
  // Good until the next Train or Evaluate, which may move them (next_values: until the Train or
  // Evaluate after TakeNextValues).
  virtual absl::Span<float> values(size_t variable) = 0;

  // The same place, of a variable whose values stay as they are: a device need not take them once
  // more. Some may be written again all the same, as they are, and told of: a server that does not
  // know rows sends all. REQUIRES: a step took them since the last call of values(variable).
  virtual absl::Span<float> held_values(size_t variable) { return values(variable); }

  // `count` elements of a variable, from `first` on, stand in its values: they may go to a device
  // while others are under way. Who tells of some elements of a variable tells of all of them (of
  // one with a row_width, of the batch's rows; of a compact table, of those in it), after
  // values(variable); what is not told of then is
  // not taken. An element may be written and
  // told of again, once the call that told of it before has returned: what was told last counts.
  // Thread-safe with itself and Stage alone (of next_values, with Train too), and cheap; does not
  // block. An error is one of the Train under way, or of the next Train or Evaluate.
  virtual void Arrived(size_t /*variable*/, size_t /*first*/, size_t /*count*/) {}

  // Of a variable of which Train reads and changes few rows, such as the table of an embedding: how
  // many elements a row has. 0: a step takes all of it. Does not change.
  virtual size_t row_width(size_t /*variable*/) const { return 0; }
  // The rows of it that Train takes of this batch, ascending, each once: all else of its values may
  // be of any state then. Evaluate takes all of it. May be called within Train for another batch.
  // Where these are no such rows, all of the variable is pulled.
  // REQUIRES: row_width(variable) > 0.
  virtual std::vector<uint64_t> RowsOf(size_t /*variable*/, const Batch& /*batch*/) const {
    return {};
  }

  // Whether there is a second place for values, next_values, where those of the next step may be
  // written while a step computes.
  virtual bool has_next_values() const { return false; }
  // The place in it of a variable; it may be the same memory, where the step under way has no more
  // use for it. Written by other threads, and told of as those of `values`, from
  // GradientSink::BackwardBegins on, also after Train and TakeNextValues. REQUIRES:
  // has_next_values(), and called within BackwardBegins or later in Train.
  virtual absl::Span<float> next_values(size_t /*variable*/) { return {}; }
  // What was written there stands in `values` from now on, and so does what is written there yet:
  // the next Train takes it. REQUIRES: all of next_values were called in the Train before.
  virtual void TakeNextValues() {}

  // The next Train is likely to be given this very batch, as it is now: a device may take it while
  // values are on their way. Null: that is no longer so, as after any other call of Train, Evaluate
  // or Stage. Only a hint, without which results are the same; may be repeated. Returns whether it
  // was taken. Does not wait for the device; an error is one of Train, if it is still one then. May
  // be called within Train for the next one, from GradientSink::BackwardBegins on. REQUIRES:
  // whoever changes the batch, or gives Train another one that stands in its place, calls Stage or
  // Evaluate before.
  virtual bool Stage(const Batch* /*batch*/) { return false; }

  // Memory that gradients leave the device for at once, for GradientSink::DeviceBuffer; it may
  // outlive the model. Null: there is none.
  virtual std::shared_ptr<HostMemory> host_memory() const { return nullptr; }

  // Loss and gradient of the batch's mean loss, and the batch's statistics for moving averages.
  // `seed` decides the dropout. The order in which gradients are finished is the model's, in
  // general the last layer's first. OUT_OF_RANGE: the loss is not finite. A model says so before
  // the first gradient is finished, as a gradient that has left cannot be called back; the job
  // fails in any case. REQUIRES: batch.size >= 1 and at most the size that the model was made for.
  virtual absl::StatusOr<BatchResult> Train(const Batch& batch, uint64_t seed,
                                            GradientSink* gradients) = 0;

  // Adds what the model says of a batch (no dropout) to `sums`.
  virtual absl::Status Evaluate(const Batch& batch, EvaluationSums* sums) = 0;
};

// Makes a model for a job's spec. `train` is open already: its feature shape and labels are checked
// here. INVALID_ARGUMENT names the field or the layer by path, e.g. "model.layers[2] 'dense'".
using ModelFactory = std::function<absl::StatusOr<std::unique_ptr<Model>>(
    const JobSpec& spec, const millrace::worker::Dataset& train,
    const millrace::worker::Dataset* evaluate)>;

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_MODEL_MODEL_H_
