// A job's data, open, and its model, made.
#ifndef MILLRACE_WORKER_TRAINING_PREPARED_JOB_H_
#define MILLRACE_WORKER_TRAINING_PREPARED_JOB_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "protos/cluster.pb.h"
#include "protos/job.pb.h"
#include "worker/input/dataset.h"
#include "worker/model/model.h"
#include "worker/training/seams.h"

namespace millrace::worker {

// Used by one thread at a time, as a Model is.
struct PreparedJob {
  std::unique_ptr<Dataset> train;
  std::unique_ptr<Dataset> evaluate;  // Null: the job is not evaluated.
  std::unique_ptr<Model> model;
};

// Elements of each of the model's variables.
std::vector<uint64_t> VariableSizes(const Model& model);

// Elements of what a step pushes of each as a whole: none of those that are frozen, or of which it
// takes some rows.
std::vector<uint64_t> GradientSizes(const Model& model);

// By variable: whether it is frozen.
std::vector<bool> FrozenVariables(const Model& model);

// Of the data of both sets, as docs/protocol.md says; 0: unknown.
uint64_t DataFingerprint(const PreparedJob& job);

// What the coordinator wants to know of a job before it starts.
JobPlan PlanOf(const JobSpec& spec, const PreparedJob& job);

// Prepares jobs, and keeps those that were only planned so far, until they start. Thread-safe.
class JobPreparer {
 public:
  // Up to `capacity` planned jobs are kept; the oldest one makes room.
  JobPreparer(DatasetOpener open_dataset, ModelFactory make_model, size_t capacity);

  // The same for equal specs.
  static std::string Key(const JobSpec& spec);

  // UNAVAILABLE: the spec has fields or values that this program does not know; it may be newer.
  static absl::Status CheckKnown(const JobSpec& spec);

  // Opens the data, makes the model and keeps both. Blocks while it reads. INVALID_ARGUMENT: the
  // field's path, or the layer, or the file and the offset. RESOURCE_EXHAUSTED: too little memory.
  // UNAVAILABLE: CheckKnown, or planning was called off.
  absl::StatusOr<JobPlan> Plan(const JobSpec& spec) ABSL_LOCKS_EXCLUDED(mutex_);

  // Ends Plan, now and from now on, as soon as what it reads has answered. Does not block.
  void CallOffPlanning() { planning_.request_stop(); }

  // The job as it was planned from the same spec, or prepared now. CANCELLED: `stop` was requested
  // meanwhile.
  absl::StatusOr<std::unique_ptr<PreparedJob>> Take(const JobSpec& spec, std::stop_token stop)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Keeps a planned job no longer, if it does.
  void Forget(const JobSpec& spec) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // The oldest first; by Key.
  using Kept = std::deque<std::pair<std::string, std::unique_ptr<PreparedJob>>>;

  Kept::iterator Find(const std::string& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::unique_ptr<PreparedJob>> Prepare(const JobSpec& spec,
                                                       const std::stop_token& stop) const;

  const DatasetOpener open_dataset_;
  const ModelFactory make_model_;
  const size_t capacity_;
  std::stop_source planning_;  // Thread-safe.

  Mutex mutex_;  // Guards what follows.
  Kept kept_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_TRAINING_PREPARED_JOB_H_
