#include "common/checkpoint/checkpoint_lineage.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
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
  return number > 0 ? number : std::numeric_limits<uint64_t>::max();  // The furthest at that time.
}

// To be asked about one checkpoint after the other, the highest number first.
class Lineage {
 public:
  // Whether this one led up to the first. The first one did.
  bool Has(const CheckpointManifest& manifest) {
    if (has_begun_ && manifest.job_id() != job_id_ && !BeginEarlierJob(manifest)) return false;
    if (manifest.step() > limit_) return false;
    if (!has_begun_ || manifest.job_id() != job_id_) {
      has_begun_ = true;
      job_id_ = manifest.job_id();
      earlier_job_ids_ = {manifest.earlier_job_ids().begin(), manifest.earlier_job_ids().end()};
      restored_ = RestoredHere(manifest.spec());
    }
    lowest_ = std::min(lowest_, manifest.step());
    return true;
  }

 private:
  // Whether it is of a job that the newest one that was met goes on from. Then none counts that has
  // more steps than that one began with: its number may be low all the same, where the job went
  // back to the state of a best evaluation.
  bool BeginEarlierJob(const CheckpointManifest& manifest) {
    if (manifest.number() > restored_ || !earlier_job_ids_.contains(manifest.job_id())) {
      return false;
    }
    limit_ = std::min(limit_, manifest.number() == restored_ ? manifest.step() : lowest_);
    return true;
  }

  bool has_begun_ = false;
  // Of the newest job that was met.
  std::string job_id_;
  absl::flat_hash_set<std::string> earlier_job_ids_;
  uint64_t restored_ = 0;  // The checkpoint that it goes on from; 0: of another directory, or none.
  // Of the steps of those that were met.
  uint64_t lowest_ = std::numeric_limits<uint64_t>::max();
  // The most steps that one may have.
  uint64_t limit_ = std::numeric_limits<uint64_t>::max();
};

}  // namespace

std::vector<CheckpointDirectory::Listed> LeadingUpTo(
    uint64_t number, std::vector<CheckpointDirectory::Listed> listed) {
  Lineage lineage;
  std::vector<CheckpointDirectory::Listed> led;
  for (auto one = listed.rbegin(); one != listed.rend(); ++one) {
    if (number > 0 && one->number > number) continue;
    if (!one->manifest.ok() || lineage.Has(*one->manifest)) led.push_back(std::move(*one));
  }
  return led;
}

std::vector<CheckpointDirectory::Listed> FurthestFirst(
    std::vector<CheckpointDirectory::Listed> listed) {
  std::sort(listed.begin(), listed.end(),
            [](const auto& a, const auto& b) { return a.number < b.number; });
  uint64_t furthest = 0;
  absl::flat_hash_map<uint64_t, uint64_t> steps;  // By number.
  for (const CheckpointDirectory::Listed& one : listed) {
    if (one.manifest.ok()) furthest = std::max(furthest, one.manifest->step());
    steps[one.number] = one.manifest.ok() ? one.manifest->step() : furthest;
  }
  std::sort(listed.begin(), listed.end(), [&](const auto& a, const auto& b) {
    return std::make_pair(steps.at(a.number), a.number) >
           std::make_pair(steps.at(b.number), b.number);
  });
  return listed;
}

}  // namespace millrace
