#include "common/checkpoint/checkpoint_lineage.h"

#include <limits>

#include "common/checkpoint/checkpoint_paths.h"

namespace millrace {
namespace {

// As the job saw its directory, which may be elsewhere by now.
uint64_t RestoredHere(const JobSpec& spec) {
  if (!spec.has_restore() || NormalDirectory(spec.restore().directory()) !=
                                 NormalDirectory(spec.checkpoints().directory())) {
    return 0;
  }
  const uint64_t number = spec.restore().checkpoint();
  return number > 0 ? number : std::numeric_limits<uint64_t>::max();  // The newest at that time.
}

}  // namespace

bool CheckpointLineage::Has(const CheckpointManifest& manifest) {
  const std::string& job_id = manifest.job_id();
  if (has_begun_ && job_id == job_id_) return true;
  if (has_begun_ && (manifest.number() > restored_ || !earlier_job_ids_.contains(job_id))) {
    return false;
  }
  has_begun_ = true;
  job_id_ = job_id;
  earlier_job_ids_ = {manifest.earlier_job_ids().begin(), manifest.earlier_job_ids().end()};
  restored_ = RestoredHere(manifest.spec());
  return true;
}

}  // namespace millrace
