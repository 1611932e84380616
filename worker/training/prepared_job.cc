#include "worker/training/prepared_job.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/evaluation_set.h"
#include "common/proto_fields.h"
#include "common/status_macros.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "worker/catch_bad_alloc.h"
#include "worker/input/fingerprint.h"
#include "worker/training/job_numerics.h"

namespace millrace::worker {
uint64_t DataFingerprint(const PreparedJob& job) {
  std::vector<uint64_t> sets = {job.train->fingerprint()};
  if (job.evaluate != nullptr) sets.push_back(job.evaluate->fingerprint());
  if (std::find(sets.begin(), sets.end(), 0) != sets.end()) return 0;
  return std::max<uint64_t>(FingerprintOf(0, sets), 1);
}

std::vector<uint64_t> VariableSizes(const Model& model) {
  std::vector<uint64_t> sizes;
  for (const VariableSpec& variable : model.variables()) {
    uint64_t size = 1;
    for (const uint64_t dimension : variable.shape()) size *= dimension;
    sizes.push_back(size);
  }
  return sizes;
}

std::vector<uint64_t> GradientSizes(const Model& model) {
  std::vector<uint64_t> sizes = VariableSizes(model);
  const std::vector<bool> frozen = FrozenVariables(model);
  for (size_t v = 0; v < sizes.size(); ++v) {
    if (frozen[v] || model.row_width(v) > 0) sizes[v] = 0;
  }
  return sizes;
}

std::vector<bool> FrozenVariables(const Model& model) {
  std::vector<bool> frozen;
  for (const VariableSpec& variable : model.variables())
    frozen.push_back(variable.update().has_frozen());
  return frozen;
}

JobPlan PlanOf(const JobSpec& spec, const PreparedJob& job) {
  JobPlan plan;
  for (const VariableSpec& variable : job.model->variables()) *plan.add_variables() = variable;
  plan.set_train_examples(job.train->size());
  if (job.evaluate != nullptr) plan.set_evaluate_examples(job.evaluate->size());
  plan.set_data_fingerprint(DataFingerprint(job));
  plan.set_numerics(JobNumerics(spec, job.model->numerics()));
  return plan;
}

JobPreparer::JobPreparer(DatasetOpener open_dataset, ModelFactory make_model, size_t capacity)
    : open_dataset_(std::move(open_dataset)),
      make_model_(std::move(make_model)),
      capacity_(capacity) {}

std::string JobPreparer::Key(const JobSpec& spec) {
  std::string key;
  google::protobuf::io::StringOutputStream stream(&key);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  spec.SerializeToCodedStream(&coded);
  coded.Trim();
  return key;
}

void JobPreparer::Forget(const JobSpec& spec) {
  const std::string key = Key(spec);
  std::unique_ptr<PreparedJob> forgotten;  // Destroyed without the lock.
  MutexLock lock(&mutex_);
  const auto found = Find(key);
  if (found == kept_.end()) return;
  forgotten = std::move(found->second);
  kept_.erase(found);
}

JobPreparer::Kept::iterator JobPreparer::Find(const std::string& key) {
  return std::find_if(kept_.begin(), kept_.end(),
                      [&key](const auto& kept) { return kept.first == key; });
}

absl::Status JobPreparer::CheckKnown(const JobSpec& spec) {
  const absl::Status known = CheckAllKnown(spec, "job");
  if (known.ok()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(known.message(), "; a newer worker may know it"));
}

absl::StatusOr<JobPlan> JobPreparer::Plan(const JobSpec& spec) {
  // A job that is kept already is not opened again.
  absl::StatusOr<std::unique_ptr<PreparedJob>> taken = Take(spec, planning_.get_token());
  if (absl::IsCancelled(taken.status()) && planning_.stop_requested()) {
    return absl::UnavailableError("it leaves the cluster");
  }
  MILLRACE_RETURN_IF_ERROR(taken.status());
  std::unique_ptr<PreparedJob> job = *std::move(taken);
  JobPlan plan = PlanOf(spec, *job);
  std::unique_ptr<PreparedJob> oldest;  // Destroyed without the lock.
  MutexLock lock(&mutex_);
  kept_.emplace_back(Key(spec), std::move(job));
  if (kept_.size() > capacity_) {
    oldest = std::move(kept_.front().second);
    kept_.pop_front();
  }
  return plan;
}

absl::StatusOr<std::unique_ptr<PreparedJob>> JobPreparer::Take(const JobSpec& spec,
                                                               std::stop_token stop) {
  const std::string key = Key(spec);
  {
    MutexLock lock(&mutex_);
    const auto found = Find(key);
    if (found != kept_.end()) {
      std::unique_ptr<PreparedJob> job = std::move(found->second);
      kept_.erase(found);
      return job;
    }
  }
  return CatchBadAlloc("the job's data and model", [&] { return Prepare(spec, stop); });
}

absl::StatusOr<std::unique_ptr<PreparedJob>> JobPreparer::Prepare(
    const JobSpec& spec, const std::stop_token& stop) const {
  MILLRACE_RETURN_IF_ERROR(CheckKnown(spec));
  auto job = std::make_unique<PreparedJob>();
  const DataSpec& data = spec.data();
  const DataDirectory directory = {data.directory(), stop};
  MILLRACE_ASSIGN_OR_RETURN(job->train, open_dataset_(data.train(), directory, "data.train"));
  if (data.has_evaluate()) {
    MILLRACE_ASSIGN_OR_RETURN(job->evaluate,
                              open_dataset_(EvaluationSet(data), directory, "data.evaluate"));
  }
  MILLRACE_ASSIGN_OR_RETURN(job->model, make_model_(spec, *job->train, job->evaluate.get()));
  return job;
}

}  // namespace millrace::worker
