// The shards of a server, by name.
#ifndef MILLRACE_PS_SHARD_SHARD_MAP_H_
#define MILLRACE_PS_SHARD_SHARD_MAP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "ps/shard/shard.h"

namespace millrace::ps {

// Thread-safe; does not block.
class ShardMap {
 public:
  // NOT_FOUND: it names the job and the shard. Others: as said to AddDamaged.
  absl::StatusOr<std::shared_ptr<Shard>> Find(const std::string& job_id, uint32_t shard) const;

  // REQUIRES: no shard of that name is there.
  void Add(std::shared_ptr<Shard> shard);

  // From now on Find returns `status` for it. REQUIRES: no shard of that name is there; not OK.
  void AddDamaged(const std::string& job_id, uint32_t shard, const absl::Status& status);

  // Returns it, or nullptr. Damaged ones are removed too.
  std::shared_ptr<Shard> Remove(const std::string& job_id, uint32_t shard);

  // In the order of their names, without the damaged ones.
  std::vector<std::shared_ptr<Shard>> List() const;

 private:
  using Key = std::pair<std::string, uint32_t>;

  mutable Mutex mutex_;
  absl::btree_map<Key, std::shared_ptr<Shard>> shards_ ABSL_GUARDED_BY(mutex_);
  absl::btree_map<Key, absl::Status> damaged_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_SHARD_SHARD_MAP_H_
