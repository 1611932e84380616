// Why a cut survives wholly or not at all.
//
// A cut is one file, whose last value is its manifest. The file is written and synced under another
// name, and then adopted by the database, all values at once (see database.cc). So a cut that has
// its name is whole, whatever happens, and older ones are deleted only after that.
//
// Why stepping back is one moment, although it makes cuts disappear whose files are large.
//
// The shard's record has the epoch, and the numbers of the cuts that are none since it began. It is
// written first, in one small write; the files go afterwards, and whoever opens the database
// finishes that. Numbers are never given twice, to whichever shards, so the list hits no other cut,
// and neither does whoever still has one of a shard that was dropped and made again.
//
// A shard that does not begin as its initial values has its first cut before its record, and before
// that the mark that files of its name go, which its record takes away: whenever that ends there is
// a whole shard or none.
#include "ps/cut/cut_store.h"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "ps/cut/cut_keys.h"
#include "ps/cut/cut_record.pb.h"
#include "ps/cut/cut_store_internal.h"

namespace millrace::ps {
namespace {

// Than the common one, of a synchronous shard: those that a shard takes by itself, and the one that
// is asked for.
constexpr size_t kMostNewerCuts = 3;
// From one line in the log about files that stay to the next.
constexpr int kLogSeconds = 60;

std::vector<std::string> FilesOf(const std::string& shard_key, const std::vector<uint64_t>& cuts) {
  std::vector<std::string> files;
  for (const uint64_t cut : cuts) files.push_back(CutFileName(shard_key, cut));
  return files;
}

}  // namespace

CutStore::CutStore(std::unique_ptr<Database> database) : database_(std::move(database)) {}

CutStore::~CutStore() = default;

CutStore::Entry CutStore::Find(const std::string& shard_key) const {
  MutexLock lock(&mutex_);
  const auto it = entries_.find(shard_key);
  return it == entries_.end() ? Entry() : it->second;
}

std::vector<CutName> CutStore::Names(const std::string& job_id, uint32_t shard) const {
  std::vector<CutName> names;
  for (const Cut& cut : Find(ShardKey(job_id, shard)).cuts) {
    if (cut.of_stop || cut.damaged) continue;
    names.emplace_back();
    names.back().set_epoch(cut.epoch);
    names.back().set_version(cut.version);
  }
  return names;
}

bool CutStore::Knows(const std::string& job_id, uint32_t shard) const {
  return Find(ShardKey(job_id, shard)).life != 0;
}

bool CutStore::Has(const ShardSpec& spec, uint64_t epoch, uint64_t version) const {
  if (version == 0 && !StartsFromFiles(spec)) return true;
  const std::vector<Cut> cuts = Find(KeyOf(spec)).cuts;
  return std::any_of(cuts.begin(), cuts.end(), [&](const Cut& cut) {
    return !cut.damaged && cut.epoch == epoch && cut.version == version;
  });
}

uint64_t CutStore::NewestVersion(const std::string& job_id, uint32_t shard) const {
  std::pair<uint64_t, uint64_t> newest;
  for (const Cut& cut : Find(ShardKey(job_id, shard)).cuts) {
    if (!cut.damaged) newest = std::max(newest, std::make_pair(cut.epoch, cut.version));
  }
  return newest.second;
}

uint64_t CutStore::NextNumber() const {
  MutexLock lock(&mutex_);
  return next_number_;
}

absl::StatusOr<std::vector<StoredShard>> CutStore::ListShards() {
  MILLRACE_ASSIGN_OR_RETURN(const auto records, database_->List(RecordPrefix()));
  std::vector<StoredShard> shards;
  for (const auto& [key, value] : records) {
    const absl::optional<ShardId> id = ParseRecordKey(key);
    if (!id.has_value()) continue;
    ShardRecord record;
    StoredShard shard;
    shard.damaged = !record.ParseFromString(value) || record.spec().job_id() != id->job_id ||
                    record.spec().shard() != id->shard;
    if (!shard.damaged) {
      shard = {record.spec(),
               {record.generation(), record.epoch(), record.stepped_back_to(), record.retired(),
                record.retired_version(), record.retired_applied()}};
    }
    shard.spec.set_job_id(id->job_id);
    shard.spec.set_shard(id->shard);
    shard.unreadable = Find(KeyOf(shard.spec)).unreadable;
    shards.push_back(std::move(shard));
  }
  return shards;
}

absl::Status CutStore::WriteRecord(const ShardSpec& spec, const ShardTerm& term) {
  return WriteRecord(spec, term, /*has_cut=*/false);
}

absl::Status CutStore::WriteRecord(const ShardSpec& spec, const ShardTerm& term, bool has_cut) {
  const std::string shard_key = KeyOf(spec);
  const Entry entry = Find(shard_key);
  const auto gone = [&](const Cut& cut) {
    // A damaged one may be found whole another time.
    return entry.epoch < term.epoch &&
           (cut.damaged ||
            (cut.epoch < term.epoch && cut.version > term.stepped_back_to.version()));
  };
  ShardRecord record;
  *record.mutable_spec() = spec;
  record.set_generation(term.generation);
  record.set_epoch(term.epoch);
  *record.mutable_stepped_back_to() = term.stepped_back_to;
  record.set_retired(term.retired);
  record.set_retired_version(term.retired_version);
  *record.mutable_retired_applied() = term.retired_applied;
  for (const uint64_t number : entry.removed) record.add_removed_cuts(number);
  for (const Cut& cut : entry.cuts) {
    if (gone(cut)) record.add_removed_cuts(cut.number);
  }
  Database::Changes changes;
  changes.put.emplace_back(RecordKey(shard_key), record.SerializeAsString());
  const bool steps_to_the_beginning =
      entry.epoch < term.epoch && term.stepped_back_to.version() == 0;
  const bool begins_anew = entry.life == 0 || steps_to_the_beginning;
  if (begins_anew) changes.remove = {DroppedKey(shard_key)};
  if (begins_anew && !has_cut) changes.remove.push_back(HadCutKey(shard_key));
  if (has_cut) changes.put.emplace_back(HadCutKey(shard_key), "");
  MILLRACE_RETURN_IF_ERROR(database_->Commit(changes));
  TakeOut(shard_key, gone);
  {
    MutexLock lock(&mutex_);
    Entry& written = entries_[shard_key];
    if (written.life == 0) written.life = ++lives_;
    written.epoch = term.epoch;
    if (begins_anew) written.had_cut = false;
    written.had_cut |= has_cut;
  }
  const absl::Status removed = RemoveFiles(shard_key);
  if (!removed.ok()) {
    LOG_EVERY_T(WARNING, kLogSeconds) << NameOf(spec) << " keeps old cuts for now: " << removed;
  }
  return absl::OkStatus();
}

void CutStore::TakeOut(const std::string& shard_key, const IsGone& gone) {
  MutexLock lock(&mutex_);
  const auto found = entries_.find(shard_key);
  if (found == entries_.end()) return;  // Dropped meanwhile.
  Entry& entry = found->second;
  const auto kept = std::stable_partition(entry.cuts.begin(), entry.cuts.end(), std::not_fn(gone));
  for (auto it = kept; it != entry.cuts.end(); ++it) entry.removed.push_back(it->number);
  entry.cuts.erase(kept, entry.cuts.end());
}

absl::Status CutStore::RemoveFiles(const std::string& shard_key) {
  const std::vector<uint64_t> numbers = Find(shard_key).removed;
  MILLRACE_RETURN_IF_ERROR(database_->RemoveFiles(FilesOf(shard_key, numbers)));
  MutexLock lock(&mutex_);
  const auto it = entries_.find(shard_key);
  if (it == entries_.end()) return absl::OkStatus();
  std::vector<uint64_t>& removed = it->second.removed;  // Readers may have added some since.
  const auto is_gone = [&numbers](uint64_t number) {
    return std::count(numbers.begin(), numbers.end(), number) > 0;
  };
  removed.erase(std::remove_if(removed.begin(), removed.end(), is_gone), removed.end());
  return absl::OkStatus();
}

absl::Status CutStore::WriteCut(const ShardPlan& plan, const CutContents& contents) {
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<StagedCut> cut, StageCut(plan, contents));
  return CommitCut(std::move(cut));
}

absl::StatusOr<std::unique_ptr<CutStore::StagedCut>> CutStore::StageCut(
    const ShardPlan& plan, const CutContents& contents) {
  return Stage(plan, contents, /*first=*/false);
}

absl::StatusOr<std::unique_ptr<CutStore::StagedCut>> CutStore::StageFirstCut(
    const ShardPlan& plan, const CutContents& contents) {
  return Stage(plan, contents, /*first=*/true);
}

absl::StatusOr<std::unique_ptr<CutStore::StagedCut>> CutStore::Stage(const ShardPlan& plan,
                                                                     const CutContents& contents,
                                                                     bool first) {
  auto staged = std::make_unique<StagedCut>();
  staged->shard_key = KeyOf(plan.spec);
  {
    MutexLock lock(&mutex_);
    const auto known = entries_.find(staged->shard_key);
    const bool there = known != entries_.end() && known->second.life != 0;
    if (!there && !first) {
      return absl::CancelledError(absl::StrCat(NameOf(plan.spec), " was dropped"));
    }
    CHECK(!there || !first) << NameOf(plan.spec);
    Entry& entry = entries_[staged->shard_key];
    staged->life = entry.life;
    staged->cut = {next_number_++, contents.epoch, contents.state->version, contents.of_stop};
  }
  const auto fill = [&](const Database::Put& put) {
    return PutCut(plan, staged->cut.number, contents, put);
  };
  MILLRACE_ASSIGN_OR_RETURN(staged->file, database_->Stage(CutFileBytes(plan, contents), fill));
  return staged;
}

absl::Status CutStore::CommitCut(std::unique_ptr<StagedCut> staged) {
  const Entry entry = Find(staged->shard_key);
  if (entry.life != staged->life || entry.epoch != staged->cut.epoch) {
    return absl::CancelledError(
        absl::StrCat("a cut of version ", staged->cut.version,
                     " is of no more use: its shard was dropped or stepped back"));
  }
  const absl::Status adopted =
      database_->Adopt(std::move(staged->file), CutFileName(staged->shard_key, staged->cut.number));
  {
    MutexLock lock(&mutex_);
    if (!adopted.ok()) {
      entries_[staged->shard_key].removed.push_back(staged->cut.number);
      return adopted;
    }
    // In the order of their numbers, whoever was committed first.
    std::vector<Cut>& cuts = entries_[staged->shard_key].cuts;
    const auto place = std::find_if(cuts.begin(), cuts.end(), [&staged](const Cut& cut) {
      return cut.number > staged->cut.number;
    });
    cuts.insert(place, staged->cut);
  }
  if (!entry.had_cut) NoteFirstCut(staged->shard_key);
  return absl::OkStatus();
}

// The cut is there, whatever becomes of this. After an error the next cut notes it.
void CutStore::NoteFirstCut(const std::string& shard_key) {
  Database::Changes changes;
  changes.put.emplace_back(HadCutKey(shard_key), "");
  const absl::Status noted = database_->Commit(changes);
  LOG_IF(WARNING, !noted.ok()) << "it is not noted yet that a shard has a cut: " << noted;
  MutexLock lock(&mutex_);
  entries_[shard_key].had_cut = noted.ok();
}

// After an error of the record it may be on the disk all the same. So the file stays where it is:
// the next process finds a whole shard, or a file of none. In this one the cut is none.
absl::Status CutStore::CommitFirstCut(const ShardSpec& spec, const ShardTerm& term,
                                      std::unique_ptr<StagedCut> staged) {
  Database::Changes changes;
  changes.put.emplace_back(DroppedKey(staged->shard_key), absl::StrCat(staged->cut.number + 1));
  absl::Status status = database_->Commit(changes);
  if (status.ok()) {
    status = database_->Adopt(std::move(staged->file),
                              CutFileName(staged->shard_key, staged->cut.number));
  }
  if (status.ok()) status = WriteRecord(spec, term, /*has_cut=*/true);
  MutexLock lock(&mutex_);
  Entry& entry = entries_[staged->shard_key];
  if (status.ok()) {
    entry.cuts.push_back(staged->cut);
  } else {
    entry.removed.push_back(staged->cut.number);
  }
  return status;
}

bool CutStore::HasLeftovers(const ShardSpec& spec) const {
  return !Find(KeyOf(spec)).removed.empty();
}

absl::Status CutStore::RemoveLeftovers(const ShardSpec& spec) { return RemoveFiles(KeyOf(spec)); }

// Numbers say what was written later, and not what is later: an older version may be written last.
absl::Status CutStore::Prune(const ShardPlan& plan, const absl::optional<CutName>& common,
                             uint64_t stops_before) {
  const std::string shard_key = KeyOf(plan.spec);
  std::vector<Cut> cuts = Find(shard_key).cuts;  // Whole ones for other shards too; by version.
  cuts.erase(std::remove_if(cuts.begin(), cuts.end(),
                            [](const Cut& cut) { return cut.damaged || cut.of_stop; }),
             cuts.end());
  std::sort(cuts.begin(), cuts.end(), [](const Cut& a, const Cut& b) { return Rank(a) < Rank(b); });
  const bool synchronous = plan.spec.replicas() != 0;
  TakeOut(shard_key, [&](const Cut& cut) {
    if (cut.of_stop) {
      return cut.number < stops_before ||
             std::any_of(cuts.begin(), cuts.end(), [&cut](const Cut& other) {
               return other.number > cut.number && Rank(other) > Rank(cut);
             });
    }
    if (synchronous) return common.has_value() && IsSurplus(plan.spec, cut, cuts, *common);
    if (cuts.empty()) return false;
    return cut.damaged ? cut.number < cuts.back().number : Rank(cut) < Rank(cuts.back());
  });
  return RemoveFiles(shard_key);
}

std::tuple<uint64_t, uint64_t, uint64_t> CutStore::Rank(const Cut& cut) {
  return {cut.epoch, cut.version, cut.number};
}

bool CutStore::IsSurplus(const ShardSpec& spec, const Cut& cut, const std::vector<Cut>& cuts,
                         const CutName& common) {
  const auto version = std::make_pair(common.epoch(), common.version());
  const auto is_common = [&version](const Cut& each) {
    return std::make_pair(each.epoch, each.version) == version;
  };
  const bool initial_values = common.version() == 0 && !StartsFromFiles(spec);
  if (!initial_values && std::none_of(cuts.begin(), cuts.end(), is_common)) return false;
  if (std::make_pair(cut.epoch, cut.version) <= version) {
    return std::make_pair(cut.epoch, cut.version) < version;
  }
  return cuts.size() > kMostNewerCuts && Rank(cut) < Rank(cuts[cuts.size() - kMostNewerCuts]);
}

absl::Status CutStore::MarkStopped() {
  Database::Changes changes;
  changes.put.emplace_back(CleanStopKey(), "");
  return database_->Commit(changes);
}

absl::StatusOr<bool> CutStore::TakeStopMark() {
  MILLRACE_ASSIGN_OR_RETURN(const absl::optional<std::string> mark, database_->Get(CleanStopKey()));
  if (!mark.has_value()) return false;
  Database::Changes changes;
  changes.remove.push_back(CleanStopKey());
  MILLRACE_RETURN_IF_ERROR(database_->Commit(changes));
  return true;
}

// The record goes first, and with it comes the mark that its files go.
absl::Status CutStore::DropShard(const std::string& job_id, uint32_t shard) {
  const std::string shard_key = ShardKey(job_id, shard);
  const Entry entry = Find(shard_key);
  Database::Changes changes;
  changes.remove = {RecordKey(shard_key), HadCutKey(shard_key)};
  if (!entry.cuts.empty() || !entry.removed.empty()) {
    changes.put.emplace_back(DroppedKey(shard_key), absl::StrCat(NextNumber()));
  }
  MILLRACE_RETURN_IF_ERROR(database_->Commit(changes));
  TakeOut(shard_key, [](const Cut& /*cut*/) { return true; });
  Entry left;  // What a shard of the same name must not take for its own.
  {
    MutexLock lock(&mutex_);
    const auto found = entries_.find(shard_key);
    if (found == entries_.end()) return absl::OkStatus();
    left.removed = std::move(found->second.removed);
    entries_.erase(found);
  }
  const absl::Status removed = database_->RemoveFiles(FilesOf(shard_key, left.removed));
  if (removed.ok()) return absl::OkStatus();
  LOG_EVERY_T(WARNING, kLogSeconds)
      << ShardName(job_id, shard) << " was dropped, and its cuts stay for now: " << removed;
  MutexLock lock(&mutex_);
  entries_.emplace(shard_key, std::move(left));
  return absl::OkStatus();
}

}  // namespace millrace::ps
