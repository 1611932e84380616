// A model with large tables on a device that has compact ones.
#ifndef MILLRACE_WORKER_MODEL_COMPACT_MODEL_H_
#define MILLRACE_WORKER_MODEL_COMPACT_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/device/device.h"
#include "worker/model/batch_sizes.h"
#include "worker/model/compact_tables.h"
#include "worker/model/gradient_set.h"
#include "worker/model/model.h"
#include "worker/model/model_plan.h"

namespace millrace::worker {

// The tables' values stand on the host, where pulls write the rows that they bring. Train and
// Evaluate copy those of the batch to the compact tables of the device's model, whose gradients
// leave by rows (GradientSink::RowBuffer).
//
// How many ids ragged features have is not known beforehand. Where a batch has more than there is
// room for, the device's model is made anew, with room for twice as many as the batch has; that
// takes as long as it did at first, and is seldom. Whatever values it had, the new one has.
class CompactModel final : public Model {
 public:
  // Statuses as Device::Compile. REQUIRES: CompactTables(plan).any().
  static absl::StatusOr<std::unique_ptr<Model>> Compile(std::shared_ptr<Device> device,
                                                        const ModelPlan& plan,
                                                        const BatchSizes& batches);

  const std::vector<VariableSpec>& variables() const override { return plan_.variables; }
  std::string numerics() const override { return numerics_; }
  absl::Span<float> values(size_t variable) override;
  absl::Span<float> held_values(size_t variable) override;
  void Arrived(size_t variable, size_t first, size_t count) override;
  size_t row_width(size_t variable) const override { return tables_.tables()[variable].width; }
  std::vector<uint64_t> RowsOf(size_t variable, const Batch& batch) const override;
  bool has_next_values() const override { return has_next_values_; }
  // Tables have one place: a step takes its rows from there before its backward pass begins.
  absl::Span<float> next_values(size_t variable) override;
  void TakeNextValues() override;
  // Finds the batch's rows, also where the device takes nothing yet.
  bool Stage(const Batch* batch) override;
  std::shared_ptr<HostMemory> host_memory() const override { return host_memory_; }

  // As the device's model; besides as Compile, where that has to be made anew. Values stay after
  // any error, and the device's model is as it was, or, if it cannot be made again, is made next
  // time.
  absl::StatusOr<BatchResult> Train(const Batch& batch, uint64_t seed,
                                    GradientSink* gradients) override;
  // A batch that is larger than those of training, and that a model that is newly made has no room
  // for, in parts. So results follow from the batch, not from what room there is by now; but where
  // no room is to be had for a smaller one, that is evaluated in parts, too.
  absl::Status Evaluate(const Batch& batch, EvaluationSums* sums) override;

 private:
  struct Free {
    void operator()(float* floats) const { std::free(floats); }
  };

  CompactModel(std::shared_ptr<Device> device, const ModelPlan& plan, const BatchSizes& batches);

  // Throws std::bad_alloc.
  void MakeTables();
  bool IsTable(size_t variable) const { return row_width(variable) > 0; }
  // Makes the device's model with these rooms. After an error there is none.
  absl::Status MakeModel(const CompactTables::Rooms& rooms);
  // The same; throws std::bad_alloc.
  absl::Status TryToMakeModel(const CompactTables::Rooms& rooms);
  // Makes it anew, if there is no room for the batch, or no model.
  absl::Status MakeRoom(const CompactBatch& batch);
  // Tells of it in the log.
  void SayWhatGrows(const CompactTables::Rooms& rooms) const;
  // Of all but the tables, to where they stay while there is no model.
  void SaveValues();
  // The batch's rows to the compact tables.
  void CopyRows(const CompactBatch& batch);
  // Throw std::bad_alloc, which Train and Evaluate catch.
  absl::StatusOr<BatchResult> TrainOn(const Batch& batch, bool is_staged, uint64_t seed,
                                      GradientSink* gradients);
  absl::Status EvaluateOn(const Batch& batch, EvaluationSums* sums);
  // In parts of `most` examples, and a rest: the model meets few sizes, each of which a device may
  // get ready for.
  absl::Status EvaluateParts(const Batch& batch, size_t most, EvaluationSums* sums);

  const std::shared_ptr<Device> device_;
  const ModelPlan plan_;
  const BatchSizes batches_;
  const CompactTables tables_;
  const CompactTables::Rooms first_rooms_;
  // Of each table, all of it; null: it is none. Pages that nobody writes take no memory.
  std::vector<std::unique_ptr<float[], Free>> table_values_;
  std::unique_ptr<GradientSet> gradients_;  // Of the compact tables; outlives the model.
  std::unique_ptr<Model> model_;            // Null: it could not be made anew.
  CompactTables::Rooms rooms_;              // Of the model, or of the last one that was made.
  std::vector<std::vector<float>> saved_;   // While there is none.
  // What the model says of itself, whichever it is.
  std::string numerics_;
  bool has_next_values_ = false;
  std::shared_ptr<HostMemory> host_memory_;

  bool within_train_ = false;
  // Two, as a batch may be staged while a step is under way. Not null.
  std::unique_ptr<CompactBatch> current_ = std::make_unique<CompactBatch>();
  std::unique_ptr<CompactBatch> staged_ = std::make_unique<CompactBatch>();
  const Batch* staged_for_ = nullptr;  // What `staged_` is of; null: of nothing.
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_MODEL_COMPACT_MODEL_H_
