// Cuts of shards in a RocksDB: what survives the process.
#ifndef MILLRACE_PS_CUT_CUT_STORE_H_
#define MILLRACE_PS_CUT_CUT_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "common/mutex.h"
#include "protos/parameter_server.pb.h"
#include "ps/block/block.h"
#include "ps/cut/cut_keys.h"
#include "ps/cut/cut_record.pb.h"
#include "ps/cut/database.h"
#include "ps/dense/shard_contents.h"
#include "ps/dense/shard_plan.h"
#include "ps/dense/shard_state.h"

namespace millrace::ps {

// A shard that the database knows.
struct StoredShard {
  ShardSpec spec;
  uint64_t generation = 0;
  // What is said of the shard is damaged: the spec has its job_id and number only.
  bool damaged = false;
};

// Keeps the newest two cuts of each shard. Thread-safe, but calls for one shard must not overlap.
// Every call may block on the disk. DATA_LOSS: what is stored is damaged.
class CutStore {
 public:
  // Opens or makes the database, and deletes what was not committed.
  static absl::StatusOr<std::unique_ptr<CutStore>> Open(const std::string& path,
                                                        DatabaseFault fault = nullptr);

  // In no particular order.
  absl::StatusOr<std::vector<StoredShard>> ListShards();

  // The newest cut of a shard; in synchronous mode the version before too, if the other cut is
  // that. A damaged newest cut is passed over, with a line in the log. DATA_LOSS: every cut is
  // damaged. With other errors, of the disk or of memory, the cuts stay as they are.
  absl::StatusOr<ShardContents> ReadShard(const ShardPlan& plan, BlockPool* pool);

  // Sets what ListShards says of a shard.
  absl::Status WriteRecord(const ShardSpec& spec, uint64_t generation);

  // Returns when the cut is on the disk, wholly; before that it does not exist. The third newest is
  // deleted with it.
  absl::Status WriteCut(const ShardPlan& plan, const ShardState& state,
                        const std::vector<PushPtr>& held);

  // Deletes the record and the cuts. Their disk space comes back with FreeSpace, or some time
  // later.
  absl::Status DropShard(const std::string& job_id, uint32_t shard);
  absl::Status FreeSpace(const std::string& job_id, uint32_t shard);

  // Remembers that every shard's cuts hold all that it acknowledged. TakeStopMark returns whether
  // that is so and forgets it, so that it holds only until the next shard is served.
  absl::Status MarkStopped();
  absl::StatusOr<bool> TakeStopMark();

  // Versions of the shard's cuts, the oldest first.
  std::vector<uint64_t> Versions(const std::string& job_id, uint32_t shard) const
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Cut {
    uint64_t number = 0;
    uint64_t version = 0;
    bool damaged = false;  // It has a manifest that cannot be read.
  };

  explicit CutStore(std::unique_ptr<Database> database);

  absl::Status FindCuts();
  absl::StatusOr<absl::optional<Cut>> FindCut(const CutKey& key);
  absl::Status DeleteLeftovers();
  absl::Status WriteBlocks(const std::string& shard_key, uint64_t cut, const ShardState& state,
                           CutManifest* manifest);
  absl::Status WriteHeld(const std::string& shard_key, uint64_t cut, const BlockLayout& layout,
                         const PushAssembly& push, CutManifest* manifest);
  absl::Status Commit(const std::string& shard_key, const Cut& cut, const CutManifest& manifest);
  // Leaves a damaged cut out; what is stored of it goes when its number, or that of a later one, is
  // deleted.
  void Forget(const std::string& shard_key, uint64_t number) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<ShardContents> ReadCut(const ShardPlan& plan, uint64_t cut, BlockPool* pool);
  absl::StatusOr<CutManifest> ReadManifest(const ShardPlan& plan, uint64_t cut);
  absl::StatusOr<StatePtr> ReadState(const ShardPlan& plan, uint64_t cut,
                                     const CutManifest& manifest, BlockPool* pool);
  // The version before, if `cut` is that. nullptr: it is not, or damaged.
  absl::StatusOr<StatePtr> ReadPrevious(const ShardPlan& plan, const Cut& cut, uint64_t version,
                                        BlockPool* pool);
  absl::StatusOr<PushPtr> ReadHeld(const ShardPlan& plan, const std::string& shard_key,
                                   uint64_t cut, const HeldContribution& held);
  // The value of a key, whose CRC-32 must be `crc32`.
  absl::StatusOr<std::string> ReadChecked(const std::string& key, size_t bytes, uint32_t crc32);
  std::vector<Cut> Cuts(const std::string& shard_key) const ABSL_LOCKS_EXCLUDED(mutex_);

  const std::unique_ptr<Database> database_;
  mutable Mutex mutex_;
  // By shard key; the oldest first.
  absl::flat_hash_map<std::string, std::vector<Cut>> cuts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_CUT_CUT_STORE_H_
