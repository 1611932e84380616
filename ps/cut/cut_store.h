// Cuts of shards in a database: what survives the machine's memory.
#ifndef MILLRACE_PS_CUT_CUT_STORE_H_
#define MILLRACE_PS_CUT_CUT_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "common/mutex.h"
#include "protos/parameter_server.pb.h"
#include "ps/block/block.h"
#include "ps/cut/cut_file.h"
#include "ps/cut/cut_keys.h"
#include "ps/cut/database.h"
#include "ps/dense/shard_contents.h"
#include "ps/dense/shard_plan.h"
#include "ps/dense/shard_state.h"
#include "ps/shard/shard.h"

namespace millrace::ps {

// A shard that the database knows.
struct StoredShard {
  ShardSpec spec;
  ShardTerm term;
  // What is said of the shard is damaged: the spec has its job_id and number only.
  bool damaged = false;
  // The disk does not say what one of its cuts is, which may be the newest.
  absl::Status unreadable = absl::OkStatus();
};

// Thread-safe, but calls for one shard that change something must not overlap, except StageCut.
// Every call may block on the disk. DATA_LOSS: what is stored is damaged.
class CutStore {
 public:
  // A cut's file that is on the disk and does not count yet.
  struct StagedCut;

  // Opens or makes the database, and deletes what was not committed, and what was dropped. Files of
  // shards that it does not know otherwise stay, with a line in the log: their record may have been
  // lost. They go when a shard of that name is made or dropped.
  static absl::StatusOr<std::unique_ptr<CutStore>> Open(const std::string& path,
                                                        const DatabaseOptions& options = {});
  ~CutStore();

  // In no particular order.
  absl::StatusOr<std::vector<StoredShard>> ListShards();

  // The newest cut of a shard, or its initial values if it never had one and did not start from
  // files (see StartsFromFiles); in synchronous mode the version before too, if there is a cut of
  // that, or it is the initial values. A damaged cut is passed over, with a line in the log, and
  // the contents then say that more was acknowledged. DATA_LOSS: every cut is damaged or missing.
  // With other errors, of the disk or of memory, the cuts stay as they are. An error of the disk is
  // returned where it happens three times running.
  absl::StatusOr<ShardContents> ReadShard(const ShardPlan& plan, BlockPool* pool);

  // The state of a cut; version 0 is there always, unless the shard started from files. NOT_FOUND:
  // no such cut; one that is found to be damaged is none any more.
  absl::StatusOr<StatePtr> ReadCut(const ShardPlan& plan, const CutName& cut, BlockPool* pool);

  // A cut to be read bit by bit, while others are written and removed, it too. `plan` must outlive
  // it. NOT_FOUND: there is no such cut, or none at all. DATA_LOSS: see GiveUp; or there are
  // damaged ones only.
  absl::StatusOr<std::unique_ptr<OpenCut>> OpenCutFile(const ShardPlan& plan, const CutName& cut);
  absl::StatusOr<std::unique_ptr<OpenCut>> OpenNewestCut(const ShardPlan& plan);

  // A cut that was found to be damaged is read no more.
  void GiveUp(const ShardPlan& plan, uint64_t number, const absl::Status& why);

  // Sets what ListShards says of a shard. With the first record of an epoch the cuts of earlier
  // epochs that are newer than the one that was stepped back to are none any more, wholly or not at
  // all.
  absl::Status WriteRecord(const ShardSpec& spec, const ShardTerm& term);

  // Returns when the cut is on the disk, wholly; before that it does not exist. In two parts: the
  // long one, which may overlap with other calls, and the short one. CANCELLED: the shard was
  // dropped, or has stepped back, meanwhile.
  absl::StatusOr<std::unique_ptr<StagedCut>> StageCut(const ShardPlan& plan,
                                                      const CutContents& contents);
  absl::Status CommitCut(std::unique_ptr<StagedCut> cut);

  // The same of a new shard that does not begin as its initial values: its record and its first
  // cut, both or nothing. REQUIRES: the shard is not there, and nobody else makes it meanwhile.
  absl::StatusOr<std::unique_ptr<StagedCut>> StageFirstCut(const ShardPlan& plan,
                                                           const CutContents& contents);
  absl::Status CommitFirstCut(const ShardSpec& spec, const ShardTerm& term,
                              std::unique_ptr<StagedCut> cut);

  absl::Status WriteCut(const ShardPlan& plan, const CutContents& contents);

  // Deletes the cuts that nobody needs, and their space is free: of an asynchronous shard all but
  // the newest, of a synchronous one those older than `common`, and of the newer ones all but the
  // newest three, if it is there (nullopt: nobody knows it). `stops_before`: and those of stops
  // with a lower number.
  absl::Status Prune(const ShardPlan& plan, const absl::optional<CutName>& common,
                     uint64_t stops_before = 0);

  // Files of cuts that are none any more, which could not be removed then. They have room that the
  // next cut may need.
  bool HasLeftovers(const ShardSpec& spec) const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status RemoveLeftovers(const ShardSpec& spec);

  // The number that the next cut gets, of whichever shard. They only grow.
  uint64_t NextNumber() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Deletes the record and the cuts.
  absl::Status DropShard(const std::string& job_id, uint32_t shard);

  // Remembers that every shard's cuts hold all that it acknowledged. TakeStopMark returns whether
  // that is so and forgets it, so that it holds only until the next shard is served.
  absl::Status MarkStopped();
  absl::StatusOr<bool> TakeStopMark();

  // The shard's cuts, the oldest first; without version 0 and those of stops.
  std::vector<CutName> Names(const std::string& job_id, uint32_t shard) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether the shard has a record.
  bool Knows(const std::string& job_id, uint32_t shard) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether there is such a cut, be it one of a stop. Initial values are one of version 0.
  bool Has(const ShardSpec& spec, uint64_t epoch, uint64_t version) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Of the cut that ReadShard would read.
  uint64_t NewestVersion(const std::string& job_id, uint32_t shard) const
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Cut {
    uint64_t number = 0;
    uint64_t epoch = 0;
    uint64_t version = 0;
    bool of_stop = false;
    bool damaged = false;  // Perhaps nobody knows its epoch and version.
  };
  // What is known of a shard.
  struct Entry {
    uint64_t life = 0;  // Another one for each shard that is made, of the same name too; 0: none.
    uint64_t epoch = 0;
    bool had_cut = false;           // The database says so, since the shard was made or began anew.
    std::vector<Cut> cuts;          // By number.
    std::vector<uint64_t> removed;  // Their files may still be there.
    absl::Status unreadable;        // See StoredShard.
  };
  using IsGone = std::function<bool(const Cut&)>;

  explicit CutStore(std::unique_ptr<Database> database);

  // `has_cut`: with the record the database says that the shard has had a cut.
  absl::Status WriteRecord(const ShardSpec& spec, const ShardTerm& term, bool has_cut);
  absl::Status ReadRecords();
  absl::Status FindCuts();
  // Files of dropped shards, and cuts that are none any more. Those that stay are remembered.
  // Returns whether all are gone.
  bool RemoveLeftovers(const std::vector<CutKey>& leftovers) ABSL_LOCKS_EXCLUDED(mutex_);
  void KeepStray(const CutKey& key) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<std::map<std::string, uint64_t>> ListDropped() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status ForgetDropped(const std::map<std::string, uint64_t>& dropped);
  void NoteFirstCut(const std::string& shard_key) ABSL_LOCKS_EXCLUDED(mutex_);
  static Cut DamagedCut(uint64_t number);
  // UNAVAILABLE: the disk does not say what it is, three times running.
  absl::StatusOr<Cut> FindCut(const CutKey& key);
  // UNAVAILABLE where the disk is full, and so on; `first`: the shard has no record yet.
  absl::StatusOr<std::unique_ptr<StagedCut>> Stage(const ShardPlan& plan,
                                                   const CutContents& contents, bool first);
  absl::StatusOr<std::unique_ptr<OpenCut>> OpenCutFile(const ShardPlan& plan, const Cut& cut);
  // Takes cuts out of the entry, whose files go next.
  void TakeOut(const std::string& shard_key, const IsGone& gone) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status RemoveFiles(const std::string& shard_key);
  // Epoch, version and number: greater for the later one.
  static std::tuple<uint64_t, uint64_t, uint64_t> Rank(const Cut& cut);
  // Whether a synchronous shard needs `cut` no more, of `cuts` by rank.
  static bool IsSurplus(const ShardSpec& spec, const Cut& cut, const std::vector<Cut>& cuts,
                        const CutName& common);
  absl::StatusOr<ShardContents> ReadContents(const ShardPlan& plan, const Cut& cut,
                                             BlockPool* pool);
  // The version before `newest`, if `cut` is that. nullptr: it is not, or damaged.
  absl::StatusOr<StatePtr> ReadPrevious(const ShardPlan& plan, const Cut& cut, const Cut& newest,
                                        BlockPool* pool);
  Entry Find(const std::string& shard_key) const ABSL_LOCKS_EXCLUDED(mutex_);

  const std::unique_ptr<Database> database_;
  mutable Mutex mutex_;
  uint64_t lives_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t next_number_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);  // By shard key.
};

struct CutStore::StagedCut {
  std::string shard_key;
  uint64_t life = 0;
  Cut cut;
  std::unique_ptr<StagedFile> file;
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_CUT_CUT_STORE_H_
