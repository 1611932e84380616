#include "ps/shard/shard_map.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "glog/logging.h"

namespace millrace::ps {

absl::StatusOr<std::shared_ptr<Shard>> ShardMap::Find(const std::string& job_id,
                                                      uint32_t shard) const {
  {
    MutexLock lock(&mutex_);
    auto it = shards_.find({job_id, shard});
    if (it != shards_.end()) return it->second;
    auto damaged = damaged_.find({job_id, shard});
    if (damaged != damaged_.end()) return damaged->second;
  }
  return absl::NotFoundError(absl::StrCat("no ", ShardName(job_id, shard),
                                          " on this server; fetch the job's routing again"));
}

void ShardMap::Add(std::shared_ptr<Shard> shard) {
  const ShardSpec& spec = shard->plan().spec;
  const Key key(spec.job_id(), spec.shard());
  MutexLock lock(&mutex_);
  CHECK(shards_.emplace(key, std::move(shard)).second) << "a shard was made twice";
}

void ShardMap::AddDamaged(const std::string& job_id, uint32_t shard, const absl::Status& status) {
  MutexLock lock(&mutex_);
  damaged_[Key(job_id, shard)] = status;
}

std::shared_ptr<Shard> ShardMap::Remove(const std::string& job_id, uint32_t shard) {
  MutexLock lock(&mutex_);
  damaged_.erase({job_id, shard});
  auto it = shards_.find({job_id, shard});
  if (it == shards_.end()) return nullptr;
  std::shared_ptr<Shard> removed = std::move(it->second);
  shards_.erase(it);
  return removed;
}

std::vector<std::shared_ptr<Shard>> ShardMap::List() const {
  std::vector<std::shared_ptr<Shard>> shards;
  MutexLock lock(&mutex_);
  for (const auto& [name, shard] : shards_) shards.push_back(shard);
  return shards;
}

}  // namespace millrace::ps
