// The shards of a server, in memory and in its data directory.
#ifndef MILLRACE_PS_STORE_SHARD_STORE_H_
#define MILLRACE_PS_STORE_SHARD_STORE_H_

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/clock.h"
#include "common/memory_limit.h"
#include "common/mutex.h"
#include "protos/parameter_server.pb.h"
#include "ps/block/arena.h"
#include "ps/block/block.h"
#include "ps/checkpoint/checkpoint_writer.h"
#include "ps/checkpoint/state_source.h"
#include "ps/cut/cut_store.h"
#include "ps/cut/data_directory.h"
#include "ps/cut/database.h"
#include "ps/cut/flusher.h"
#include "ps/cut/lane.h"
#include "ps/shard/shard.h"
#include "ps/shard/shard_map.h"
#include "ps/shard/spare_memory.h"
#include "ps/store/shard_source.h"
#include "ps/store/shards_to_come.h"

namespace millrace::ps {

struct ShardStoreOptions {
  Clock* clock = Clock::Real();  // Must outlive the store.
  // Bytes that the process may use for shards. A quarter is spare (see SpareMemory); the rest is
  // for what they need, all together (see MemoryNeed).
  uint64_t memory_limit = MemoryLimit();
  // A directory of a memory file system, for blocks that outlive a killed process (see Arena).
  // Empty: none.
  std::string arena = {};
  ReserveFile reserve_arena = ReserveWithFallocate;  // For tests.
  DatabaseFault fault = nullptr;
  FileSystemPtr file_system = RealFileSystem();  // For tests too.
  // See CheckpointWriterOptions::bytes_per_second.
  uint64_t checkpoint_bandwidth = 0;
};

// Thread-safe. Create, SetGeneration, StepBack, Flush and Drop wait for the disk, behind other work
// of that kind, for `timeout` at most (DEADLINE_EXCEEDED; the message names that work); nobody
// waits for a cut but Flush and WriteCheckpoint, and StepBack reads one. Create reads the files
// that a shard starts from and WriteCheckpoint writes, however long that takes. Statuses as
// documented for ParameterServerAdmin; and UNAVAILABLE once it is closed.
class ShardStore {
 public:
  static constexpr absl::Duration kTimeout = absl::Hours(1);

  // Opens the directory and restores every shard: as it was when the process before was killed,
  // where an arena has that, otherwise at its newest cut. Blocks for as long as reading those
  // takes. Statuses as for DataDirectory::Open and Database. A damaged shard keeps nobody from the
  // others: requests to it are answered with DATA_LOSS until it is dropped; and with UNAVAILABLE
  // where the disk gave an error, which the next start may not meet.
  static absl::StatusOr<std::unique_ptr<ShardStore>> Open(const std::string& data_dir,
                                                          const ShardStoreOptions& options = {});

  // Without Stop() everything is left as by a kill: what is newer than the newest cuts is in the
  // arena, or lost.
  ~ShardStore();

  const DataDirectory& directory() const { return *directory_; }
  const ShardMap& shards() const { return shards_; }

  absl::StatusOr<ShardStatus> Create(const ShardSpec& spec, uint64_t generation,
                                     absl::Duration timeout = kTimeout);
  // CopyShard, from `source`. REQUIRES: the generation is above the source's.
  absl::StatusOr<ShardStatus> Copy(const CopyShardRequest& request, ShardSource& source,
                                   absl::Duration timeout = kTimeout);
  absl::StatusOr<ShardStatus> SetGeneration(const std::string& job_id, uint32_t shard,
                                            uint64_t generation, absl::Duration timeout = kTimeout);
  absl::StatusOr<ShardStatus> Flush(const std::string& job_id, uint32_t shard, uint64_t generation,
                                    absl::Duration timeout = kTimeout);
  absl::StatusOr<ShardStatus> PlanCuts(const PlanCutsRequest& request);
  absl::StatusOr<ShardStatus> StepBack(const StepBackRequest& request,
                                       absl::Duration timeout = kTimeout);
  // `is_cancelled`: whether nobody waits for it any more. Asked often, on this thread.
  absl::StatusOr<WriteCheckpointResponse> WriteCheckpoint(const WriteCheckpointRequest& request,
                                                          const std::function<bool()>& is_cancelled,
                                                          absl::Duration timeout = kTimeout);
  absl::StatusOr<ShardStatus> Retire(const std::string& job_id, uint32_t shard, uint64_t generation,
                                     absl::Duration timeout = kTimeout);
  absl::Status Drop(const std::string& job_id, uint32_t shard, uint64_t generation,
                    absl::Duration timeout = kTimeout);

  // Calls that write or read files in other directories than the store's own, for messages:
  // "writing a checkpoint of shard 3 of job 'j' to /checkpoints".
  std::vector<std::string> FilesUnderWay() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Gives back memory that no shard needs any more. To be called every now and then.
  void GiveBackSurplus() { pool_.GiveBackSurplus(); }

  // Refuses all further requests, to its shards too, with UNAVAILABLE.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

  // Closes, and writes everything to the database; then the arena is needed no more, and its memory
  // is given back. Blocks for as long as that takes, an hour at most. REQUIRES: no Shard::Push is
  // under way.
  absl::Status Stop();

 private:
  using Key = ShardsToCome::Key;
  using Making = ShardsToCome::Making;
  // What a checkpoint is written of; from which cut, if it is from one.
  struct FoundState {
    std::unique_ptr<StateSource> source;
    absl::optional<uint64_t> cut = {};
  };

  ShardStore(std::unique_ptr<DataDirectory> directory, std::shared_ptr<Arena> arena,
             std::unique_ptr<CutStore> cuts, const ShardStoreOptions& options);

  absl::Status Restore();
  // `whole`: the shard's cuts hold all that it acknowledged.
  absl::Status RestoreShard(const StoredShard& stored, bool whole);
  // Of a shard that the disk does not give: remembers what others must not take or overrule.
  void Await(const StoredShard& stored);
  // As the process before left it in memory; nullptr: it is not there.
  std::shared_ptr<Shard> FromArena(ShardPlan* plan, const StoredShard& stored);
  absl::StatusOr<std::shared_ptr<Shard>> FromCut(ShardPlan plan, const StoredShard& stored,
                                                 bool whole);
  // A root for a shard that has none; nullptr: there is no arena.
  std::unique_ptr<ShardRoot> MakeRoot(const ShardPlan& plan) const;
  absl::Status Make(ShardPlan plan, uint64_t generation, absl::Time deadline);
  absl::Status MakeFromFiles(ShardPlan plan, uint64_t generation, absl::Time deadline,
                             const Making& making);
  // ABORTED: the shard that is being made was dropped.
  absl::Status CheckMaking(const Key& key) const ABSL_LOCKS_EXCLUDED(mutex_);
  // RESOURCE_EXHAUSTED: the shard does not fit beside the others. Otherwise there is room for it.
  absl::Status CheckMemory(const ShardPlan& plan);
  // What all shards but `key` need; those that can give up their values need nothing.
  uint64_t Taken(const Key& key) const;
  // Has retired shards give up their values, as long as `bytes` more than `taken` do not fit.
  void MakeRoom(uint64_t taken, uint64_t bytes);
  // A retired shard, without its values.
  absl::StatusOr<std::shared_ptr<Shard>> FromRecord(ShardPlan plan, const StoredShard& stored);
  void ServeReads(const std::shared_ptr<Shard>& shard);
  absl::Status ReadValues(const std::shared_ptr<Shard>& shard);
  absl::Status DropNow(const std::string& job_id, uint32_t shard, uint64_t generation);
  absl::Status AddNew(const std::shared_ptr<Shard>& shard);
  // What the disk still has of a shard of this name that was dropped. On the flusher's thread.
  absl::Status DropRest(const std::string& job_id, uint32_t shard);
  // A shard that does not begin as its initial values. Writes its first cut on the caller's thread.
  absl::Status AddWithFirstCut(ShardPlan plan, uint64_t generation, ShardContents contents,
                               absl::Time deadline, const Making& making);
  absl::Status CommitFirstCut(const std::shared_ptr<Shard>& shard,
                              std::unique_ptr<CutStore::StagedCut> cut);
  // What is here and is to be replaced by a copy. FAILED_PRECONDITION: it is not older.
  absl::Status DropOlder(const Key& key, const CopyShardRequest& request, absl::Time deadline);
  // A copy that was made at this generation; nullptr: there is none. FAILED_PRECONDITION: the shard
  // is here at a greater one, or closed.
  absl::StatusOr<std::shared_ptr<Shard>> FindCopy(const Key& key, uint64_t generation) const;
  void Serve(const std::shared_ptr<Shard>& shard);
  // FilesUnderWay() has it while this is held.
  std::shared_ptr<const void> BeginFiles(std::string what) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<FoundState> FindState(const std::shared_ptr<Shard>& shard, const ShardPlan& plan,
                                       const WriteCheckpointRequest& request, absl::Time deadline,
                                       const MayGoOn& may_go_on);
  absl::StatusOr<FoundState> FindNewest(const std::shared_ptr<Shard>& shard, const ShardPlan& plan,
                                        absl::Time deadline, const MayGoOn& may_go_on);
  absl::StatusOr<FoundState> FindCut(const ShardPlan& plan, const CutName& name);
  absl::StatusOr<FoundState> InitialState(const ShardPlan& plan, const CutName& name);
  // `retirement`: that too, of which there must be a cut. Otherwise only what a shard that goes on
  // has.
  absl::Status StoreTerm(const std::shared_ptr<Shard>& shard, absl::Time deadline,
                         bool retirement = false);
  absl::Status CheckOpen() const ABSL_LOCKS_EXCLUDED(mutex_);

  const std::unique_ptr<DataDirectory> directory_;
  const std::unique_ptr<CutStore> cuts_;
  Clock* const clock_;
  const FileSystemPtr file_system_;
  const uint64_t memory_limit_;
  const std::shared_ptr<Arena> arena_;  // nullptr: none.
  BlockPool pool_;
  SpareMemory spare_;
  ShardsToCome to_come_;
  ShardMap shards_;
  CheckpointWriter checkpoints_;
  mutable Mutex mutex_;
  std::list<std::string> files_under_way_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  // After the others, since their threads use them.
  Flusher flusher_;
  Lane reads_;  // Of retired shards' values.
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_STORE_SHARD_STORE_H_
