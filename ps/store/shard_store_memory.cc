// Whether a server has the memory to train one more shard.
//
// Each shard has what it needs for itself (MemoryNeed), from when it begins to be made until its
// job has ended; only then do others get it, and it is taken when they come.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "ps/store/shard_store.h"

namespace millrace::ps {
namespace {

std::string WhatItNeeds(const ShardPlan& plan, uint64_t bytes) {
  const uint32_t replicas = plan.spec.replicas();
  return absl::StrCat(ShardName(plan.spec.job_id(), plan.spec.shard()),
                      ": not enough memory: training its ", plan.layout.elements(),
                      " elements with ", plan.optimizer->slots(), " optimizer slots each needs ",
                      bytes, " bytes",
                      replicas == 0 ? "" : absl::StrCat(" with ", replicas, " contributions held"));
}

}  // namespace

uint64_t ShardStore::Taken(const Key& key) const {
  absl::flat_hash_map<Key, uint64_t> others = to_come_.MemoryNeeds();
  for (const std::shared_ptr<Shard>& shard : shards_.List()) {
    if (shard->RetirementIsStored()) continue;
    others[Key(shard->plan().spec.job_id(), shard->plan().spec.shard())] =
        MemoryNeed(shard->plan());
  }
  others.erase(key);
  uint64_t taken = 0;
  for (const auto& [other, need] : others) {
    taken = std::min(taken + std::min(need, memory_limit_), memory_limit_);  // No overflow.
  }
  return taken;
}

void ShardStore::MakeRoom(uint64_t taken, uint64_t bytes) {
  const std::vector<std::shared_ptr<Shard>> shards = shards_.List();
  uint64_t givable = 0;
  for (const std::shared_ptr<Shard>& shard : shards) givable += shard->GivableBytes();
  for (const std::shared_ptr<Shard>& shard : shards) {
    if (taken + givable + bytes <= memory_limit_) return;
    const uint64_t values = shard->GivableBytes();
    if (values == 0 || !shard->GiveUpValues()) continue;
    pool_.Trim();
    givable -= std::min(values, givable);
    LOG(INFO) << shard->name()
              << ", of a job that has ended, gave up its memory; its values are on "
              << "the disk";
  }
}

// The system hands out more memory than it has, and ends the process that uses it.
absl::Status ShardStore::CheckMemory(const ShardPlan& plan) {
  const Key key(plan.spec.job_id(), plan.spec.shard());
  const uint64_t taken = Taken(key);
  const uint64_t need = MemoryNeed(plan);
  if (need > memory_limit_) {
    return absl::InvalidArgumentError(
        absl::StrCat(WhatItNeeds(plan, need), ", and the server has ", memory_limit_,
                     "; use more ps servers, or give this one more memory"));
  }
  if (taken <= memory_limit_ && need <= memory_limit_ - taken) {
    MakeRoom(taken, need);
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      WhatItNeeds(plan, need), ", the server's other shards need ", taken, ", and all may need ",
      memory_limit_, "; wait for other jobs to end, or use more ps servers"));
}

}  // namespace millrace::ps
