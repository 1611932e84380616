#include "coordinator/job/job_checkpoints.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/checkpoint/checkpoint_paths.h"
#include "common/job_spec.h"
#include "coordinator/job/evaluation_verdict.h"
#include "coordinator/placement/placement.h"

namespace millrace::coordinator {
namespace {

// Of the variables and their slots.
uint64_t BytesOf(const JobSpec& spec, const JobPlan& plan) {
  const uint64_t arrays = 1 + OptimizerSlots(spec.optimizer()).size();
  return CountElements(plan.variables()).value_or(0) * arrays * sizeof(float);
}

// As they stood in the state that was written: a job that goes on from it comes to the evaluations
// after it again.
void DescribeEvaluations(const JobRecord& record, CheckpointManifest& manifest) {
  if (const auto standing = StandingAt(record, manifest.step())) {
    *manifest.mutable_stopping() = standing->stopping();
    manifest.set_evaluated(standing->evaluated());
  }
  if (record.has_stopped_early()) *manifest.mutable_stopped_early() = record.stopped_early();
  if (record.has_best()) *manifest.mutable_best() = record.best();
}

// The jobs that led up to this one's first state, in their order.
std::vector<std::string> EarlierJobs(const JobRecord& record) {
  const RestoredFrom& from = record.restored_from();
  std::vector<std::string> earlier(from.earlier_job_ids().begin(), from.earlier_job_ids().end());
  if (record.has_restored_from()) earlier.push_back(from.job_id());
  return earlier;
}

// Whether the job goes on from a checkpoint in the directory of its own ones.
bool IsRestoredHere(const JobRecord& record) {
  return record.has_restored_from() &&
         NormalDirectory(record.restored_from().checkpoint().directory()) ==
             NormalDirectory(record.spec().checkpoints().directory());
}

CheckpointOwner OwnerOf(const JobRecord& record) {
  CheckpointOwner owner{.job_id = record.job_id(), .earlier_job_ids = {}};
  if (!IsRestoredHere(record)) return owner;
  owner.restored = record.restored_from().checkpoint().checkpoint();
  owner.earlier_job_ids = EarlierJobs(record);
  const auto& left_behind = record.restored_from().left_behind_job_ids();
  owner.earlier_job_ids.insert(owner.earlier_job_ids.end(), left_behind.begin(), left_behind.end());
  return owner;
}

// What the job goes on from, where its own checkpoints are. Unset: nothing.
CheckpointInfo RestoredInfo(const JobRecord& record) {
  CheckpointInfo restored;
  if (!record.has_restored_from()) return restored;
  restored.set_directory(record.spec().checkpoints().directory());
  restored.set_number(record.restored_from().checkpoint().checkpoint());
  restored.set_step(record.restored_from().step());
  return restored;
}

}  // namespace

Checkpointer::Options CheckpointsOf(const JobRecord& record, std::function<JobRecord()> now) {
  Checkpointer::Options options;
  options.spec = record.spec();
  options.owner = OwnerOf(record);
  options.total_steps = EndStep(record);
  options.newest = record.checkpoint();
  options.last_number = std::max(options.newest.number(), record.best().checkpoint().number());
  options.restored = RestoredInfo(record);
  options.restored_is_here = IsRestoredHere(record);
  options.bytes = BytesOf(record.spec(), record.plan());
  // Whoever looks for an older one must know which of them led up to the job's.
  if (options.spec.has_restore()) {
    options.spec.mutable_restore()->set_checkpoint(options.restored.number());
  }
  options.describe_job = [now = std::move(now),
                          earlier = EarlierJobs(record)](CheckpointManifest* manifest) {
    const JobRecord record_now = now();
    manifest->mutable_earlier_job_ids()->Assign(earlier.begin(), earlier.end());
    *manifest->mutable_plan() = record_now.plan();
    *manifest->mutable_metrics() = record_now.metrics();
    DescribeEvaluations(record_now, *manifest);
  };
  return options;
}

std::string HolderName(const JobRecord& record) {
  const CheckpointOwner owner = OwnerOf(record);
  return NameOfJob(owner.job_id, owner.restored);
}

bool MayMakeDirectory(const JobRecord& record) {
  return !record.has_checkpoint() && !IsRestoredHere(record);
}

}  // namespace millrace::coordinator
