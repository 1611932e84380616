// What a worker computes for one job: steps and evaluations, one after the other.
#ifndef MILLRACE_WORKER_TRAINING_JOB_COMPUTATION_H_
#define MILLRACE_WORKER_TRAINING_JOB_COMPUTATION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/start_thread.h"
#include "protos/cluster.pb.h"
#include "protos/job.pb.h"
#include "worker/input/batch.h"
#include "worker/input/prefetcher.h"
#include "worker/parameters/parameter_client.h"
#include "worker/training/gradient_pool.h"
#include "worker/training/patience.h"
#include "worker/training/prepared_job.h"

namespace millrace::worker {

// The ps servers, for one step or evaluation.
struct Servers {
  ParameterClient* client = nullptr;
  uint64_t generation = 0;  // The client's.
  Patience patience;
  // Asked now and then: whether the work is no longer wanted. Thread-safe.
  std::function<bool()> stop_early;
};

// A step whose gradient is complete and under way.
struct ComputedStep {
  StepResult result;
  std::unique_ptr<ParameterClient::Push> push;
  absl::Time backward_began_at;
};

// Blocks until every shard has acknowledged the step.
absl::Status AwaitPush(ParameterClient::Push* push, const Servers& servers);

// The model, the data and the memory of one job. Used by one thread at a time. Errors of the ps
// servers that another try may mend come back as FAILED_PRECONDITION, UNAVAILABLE,
// DEADLINE_EXCEEDED or ABORTED.
class JobComputation {
 public:
  // None: it is not known yet. Does not block.
  using NextStep = std::function<absl::optional<uint64_t>()>;

  // RESOURCE_EXHAUSTED: the system has no thread left.
  static absl::StatusOr<std::unique_ptr<JobComputation>> Start(const JobSpec& spec,
                                                               std::unique_ptr<PreparedJob> job,
                                                               const ThreadStarter& start_thread);

  // What this worker makes of the job.
  JobPlan plan() const { return PlanOf(spec_, *job_); }

  std::vector<uint64_t> variable_sizes() const { return VariableSizes(*job_->model); }
  std::vector<bool> frozen() const { return FrozenVariables(*job_->model); }

  // How many steps ahead batches are made ready.
  size_t look_ahead() const { return look_ahead_; }

  // The steps that come next, the nearest first: the batches of look_ahead() of them are made ready
  // in the background, and those of steps expected before are dropped.
  void Expect(const std::vector<uint64_t>& steps);

  // Whether what a step pulls depends on its batch: ReadFor comes before StartPull then.
  bool pulls_rows() const { return pulls_rows_; }

  // Makes the step's batch ready, for StartPull and Read. Blocks, and fails, as Read does.
  absl::Status ReadFor(uint64_t step);

  // Starts to bring the values that a step needs into the model, or goes on with the pull that the
  // step before began for it; null: they are there already (a synchronous version). From then on
  // until FinishPull is OK, the model has no valid values. It is told of values as they arrive.
  // REQUIRES: the pull before is destroyed; where pulls_rows(), ReadFor of the step.
  std::unique_ptr<ParameterClient::StartedPull> StartPull(uint64_t step, const Servers& servers);
  // The same for an evaluation, from a pinned cut; as float32, whatever steps are pulled as.
  std::unique_ptr<ParameterClient::StartedPull> StartPull(const std::string& cut_id,
                                                          const Servers& servers);

  // Brings the step's batch to the model's device, if it is ready, and waits for the pull that was
  // started for the step. Blocks.
  absl::Status FinishPull(uint64_t step, ParameterClient::StartedPull* pull,
                          const Servers& servers);

  // The step's examples; blocks until they are assembled. FAILED_PRECONDITION: see data_changed.
  absl::StatusOr<std::unique_ptr<Batch>> Read(uint64_t step);

  // Whether a file of the data was found to be another than when it was opened. The job has to be
  // prepared anew: this worker may have other data now, which says nothing about the job.
  bool data_changed() const { return data_changed_; }

  // Computes the gradient of `batch`, the step's, on the values in the model, and pushes each
  // variable's part as soon as it is final; see AwaitPush. The result has what the batch says.
  // Where the job pulls ahead, `next_step` is asked from the backward pass on, until it knows the
  // step that comes next on the same servers: that one's pull begins then, and its batch is brought
  // to the model's device if it is ready. Another pull, or the end of this object, abandons it.
  // OUT_OF_RANGE: the loss or a gradient is not finite, or a gradient does not fit
  // PrecisionSpec.wire; the push takes effect nowhere.
  // REQUIRES: the values are there.
  absl::StatusOr<ComputedStep> Train(uint64_t step, std::unique_ptr<Batch> batch,
                                     const Servers& servers, const NextStep& next_step);

  // Waits for the pull, and evaluates the held-out examples. Fills in what was found.
  // INVALID_ARGUMENT: the job has none; CANCELLED: no longer wanted; FAILED_PRECONDITION: see
  // data_changed.
  absl::StatusOr<EvaluationResult> Evaluate(ParameterClient::StartedPull* pull,
                                            const Servers& servers);

 private:
  // Which state of the variables is in the model.
  struct Held {
    uint64_t generation = 0;
    uint64_t version = 0;
    friend bool operator==(const Held& a, const Held& b) {
      return a.generation == b.generation && a.version == b.version;
    }
  };

  // A batch that was taken before its step's pull.
  struct ReadBatch {
    uint64_t step = 0;
    std::unique_ptr<Batch> batch;
  };

  // A pull of the newest values, for the step that is likely to be the next one.
  struct PullBegun {
    uint64_t generation = 0;
    uint64_t step = 0;
    std::unique_ptr<ParameterClient::StartedPull> pull;
  };
  // Where values go: Model::values or Model::next_values.
  using ValuesOf = absl::Span<float> (Model::*)(size_t variable);

  JobComputation(const JobSpec& spec, std::unique_ptr<PreparedJob> job);

  Held WantedBy(uint64_t step, const Servers& servers) const;
  ParameterClient::PullOptions OptionsOfStep() const;
  std::unique_ptr<ParameterClient::StartedPull> StartPull(ParameterClient::PullOptions options,
                                                          ValuesOf values, const Servers& servers);
  // Whether a pull with such rows leaves a variable as it is.
  bool IsHeld(const std::vector<VariableRows>& rows, size_t variable) const;
  // Returns whether it began: not before the step's batch is ready, where that decides on it.
  bool PullAhead(uint64_t step, const Servers& servers);
  // Whether its batch was taken before its pull.
  bool IsRead(uint64_t step) const { return read_.batch != nullptr && read_.step == step; }
  // Where the batch of the step stands; null: it is not ready.
  const Batch* Ready(uint64_t step) const;
  // What a step pulls of each variable, given the batch. `rows_alone`: nothing of those that it
  // takes as a whole.
  std::vector<VariableRows> RowsFor(const Batch& batch, bool rows_alone) const;
  // The model's device may take the step's batch, if that is ready.
  void Stage(uint64_t step);
  absl::StatusOr<ComputedStep> TrainOn(const Batch& batch, uint64_t step, const Servers& servers,
                                       const NextStep& next_step);

  // What the coordinator is to hear of data that cannot be read.
  absl::Status FromData(const absl::Status& status);

  const JobSpec spec_;
  const std::unique_ptr<PreparedJob> job_;
  const size_t look_ahead_;
  const bool pulls_ahead_;
  const bool pulls_rows_;
  bool data_changed_ = false;
  std::unique_ptr<Prefetcher> prefetcher_;  // Reads job_->train. Not null.
  GradientPool gradients_;
  std::vector<uint64_t> expected_;
  ReadBatch read_;                   // No batch: none.
  absl::optional<uint64_t> staged_;  // The step whose batch was, until it is read.
  // Synchronous, of variables that steps take as a whole; none: nothing that could be used again.
  absl::optional<Held> held_;
  absl::optional<PullBegun> ahead_;  // Until another pull begins.
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_TRAINING_JOB_COMPUTATION_H_
