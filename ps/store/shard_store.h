// The shards of a server, in memory and in its data directory.
#ifndef MILLRACE_PS_STORE_SHARD_STORE_H_
#define MILLRACE_PS_STORE_SHARD_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "protos/parameter_server.pb.h"
#include "ps/store/block.h"
#include "ps/store/cut_store.h"
#include "ps/store/data_directory.h"
#include "ps/store/flusher.h"
#include "ps/store/shard.h"
#include "ps/store/shard_map.h"

namespace millrace::ps {

// Thread-safe. Create, SetGeneration, Flush and Drop wait for the disk, behind other work of that
// kind. Statuses as documented for ParameterServerAdmin; and UNAVAILABLE once it is closed.
class ShardStore {
 public:
  // Opens the directory and restores every shard at its newest cut. Blocks for as long as reading
  // them takes. Statuses as for DataDirectory::Open; DATA_LOSS: a shard cannot be restored.
  static absl::StatusOr<std::unique_ptr<ShardStore>> Open(const std::string& data_dir,
                                                          Clock* clock);

  // Without Stop() what is newer than the newest cuts is lost, as in a crash.
  ~ShardStore();

  const DataDirectory& directory() const { return *directory_; }
  const ShardMap& shards() const { return shards_; }

  absl::StatusOr<ShardStatus> Create(const ShardSpec& spec, uint64_t generation);
  absl::StatusOr<ShardStatus> SetGeneration(const std::string& job_id, uint32_t shard,
                                            uint64_t generation);
  absl::StatusOr<ShardStatus> Flush(const std::string& job_id, uint32_t shard);
  absl::Status Drop(const std::string& job_id, uint32_t shard);

  // Refuses all further requests, to its shards too, with UNAVAILABLE.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

  // Closes, and writes everything to the database. REQUIRES: no Shard::Push is under way.
  absl::Status Stop();

 private:
  ShardStore(std::unique_ptr<DataDirectory> directory, std::unique_ptr<CutStore> cuts,
             Clock* clock);

  absl::Status Restore();
  absl::Status CreateNew(ShardPlan plan, uint64_t generation, StatePtr state);
  absl::Status CheckOpen() const ABSL_LOCKS_EXCLUDED(mutex_);

  const std::unique_ptr<DataDirectory> directory_;
  const std::unique_ptr<CutStore> cuts_;
  BlockPool pool_;
  ShardMap shards_;
  mutable Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  Flusher flusher_;  // The last member: its thread uses the others.
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_STORE_SHARD_STORE_H_
