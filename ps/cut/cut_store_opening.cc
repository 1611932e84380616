// What a database has when it is opened: which shards, and which cuts of each.
//
// Files of shards that were dropped, and of cuts that a record says are none, are what a process
// left that ended between a record and the files that go after it; they go now. Files of shards
// that nothing is said of stay: a log of the database that was damaged, or cut short with the
// machine, may have had their record, and they may be all that is left of them. A cut whose
// manifest is damaged, or cannot be read, counts all the same: its shard is not one that never had
// a cut.
#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "ps/cut/cut_file.h"
#include "ps/cut/cut_keys.h"
#include "ps/cut/cut_record.pb.h"
#include "ps/cut/cut_store.h"

namespace millrace::ps {

absl::StatusOr<std::unique_ptr<CutStore>> CutStore::Open(const std::string& path,
                                                         const DatabaseOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Database> database, Database::Open(path, options));
  std::unique_ptr<CutStore> store(new CutStore(std::move(database)));
  MILLRACE_RETURN_IF_ERROR(store->ReadRecords());
  MILLRACE_RETURN_IF_ERROR(store->FindCuts());
  return store;
}

absl::Status CutStore::ReadRecords() {
  MILLRACE_ASSIGN_OR_RETURN(const auto records, database_->List(RecordPrefix()));
  MILLRACE_ASSIGN_OR_RETURN(const auto had_cut, database_->List(HadCutPrefix()));
  MILLRACE_ASSIGN_OR_RETURN(const auto next_number, database_->Get(NextNumberKey()));
  MutexLock lock(&mutex_);
  if (!absl::SimpleAtoi(next_number.value_or("0"), &next_number_)) next_number_ = 0;
  for (const auto& [key, value] : records) {
    Entry& entry = entries_[key.substr(RecordPrefix().size())];
    entry.life = ++lives_;
    ShardRecord record;
    if (!record.ParseFromString(value)) continue;  // ListShards tells.
    entry.epoch = record.epoch();
    entry.removed.assign(record.removed_cuts().begin(), record.removed_cuts().end());
    for (const uint64_t number : entry.removed) next_number_ = std::max(next_number_, number + 1);
  }
  for (const auto& [key, value] : had_cut) {
    const auto entry = entries_.find(key.substr(HadCutPrefix().size()));
    if (entry != entries_.end()) entry->second.had_cut = true;
  }
  return absl::OkStatus();
}

// By shard key: cuts with numbers below this one go.
absl::StatusOr<std::map<std::string, uint64_t>> CutStore::ListDropped() {
  MILLRACE_ASSIGN_OR_RETURN(const auto marks, database_->List(DroppedPrefix()));
  std::map<std::string, uint64_t> dropped;
  for (const auto& [key, value] : marks) {
    uint64_t limit = 0;
    if (!absl::SimpleAtoi(value, &limit)) limit = 0;  // It is damaged: nothing goes.
    MutexLock lock(&mutex_);
    next_number_ = std::max(next_number_, limit);
    dropped[key.substr(DroppedPrefix().size())] = limit;
  }
  return dropped;
}

absl::Status CutStore::FindCuts() {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> files, database_->ListFiles());
  MILLRACE_ASSIGN_OR_RETURN(const auto dropped, ListDropped());
  std::vector<CutKey> leftovers;
  for (const std::string& file : files) {
    const absl::optional<CutKey> key = ParseCutFileName(file);
    if (!key.has_value()) continue;
    {
      MutexLock lock(&mutex_);
      next_number_ = std::max(next_number_, key->cut + 1);
    }
    const Entry known = Find(key->shard_key);
    const auto mark = dropped.find(key->shard_key);
    if (known.life == 0 && (mark == dropped.end() || key->cut >= mark->second)) {
      KeepStray(*key);
      continue;
    }
    if (known.life == 0 || std::count(known.removed.begin(), known.removed.end(), key->cut) > 0) {
      leftovers.push_back(*key);
      continue;
    }
    absl::StatusOr<Cut> cut = FindCut(*key);
    if (!cut.ok() && !absl::IsUnavailable(cut.status())) return cut.status();
    MutexLock lock(&mutex_);
    Entry& entry = entries_[key->shard_key];
    if (!cut.ok()) entry.unreadable = cut.status();
    // It counts, so that its shard is not taken for one that never had a cut.
    entry.cuts.push_back(cut.ok() ? *std::move(cut) : DamagedCut(key->cut));
  }
  {
    MutexLock lock(&mutex_);
    for (auto& [shard_key, entry] : entries_) {
      std::sort(entry.cuts.begin(), entry.cuts.end(),
                [](const Cut& a, const Cut& b) { return a.number < b.number; });
    }
  }
  return RemoveLeftovers(leftovers) ? ForgetDropped(dropped) : absl::OkStatus();
}

// It is none of the next shard of its name, with whose record it goes.
void CutStore::KeepStray(const CutKey& key) {
  LOG(WARNING)
      << "the database does not know the shard of the cut " << CutFileName(key.shard_key, key.cut)
      << ": a record may have been lost; the file stays until a shard of that name is made "
         "or dropped, or somebody removes it";
  MutexLock lock(&mutex_);
  entries_[key.shard_key].removed.push_back(key.cut);
}

// No cut gets a number below theirs from then on: where a log of the database is lost they may come
// back.
absl::Status CutStore::ForgetDropped(const std::map<std::string, uint64_t>& dropped) {
  if (dropped.empty()) return absl::OkStatus();
  Database::Changes changes;
  for (const auto& [shard_key, limit] : dropped) changes.remove.push_back(DroppedKey(shard_key));
  changes.put.emplace_back(NextNumberKey(), absl::StrCat(NextNumber()));
  return database_->Commit(changes);
}

bool CutStore::RemoveLeftovers(const std::vector<CutKey>& leftovers) {
  std::vector<std::string> files;
  for (const CutKey& key : leftovers) files.push_back(CutFileName(key.shard_key, key.cut));
  const absl::Status removed = database_->RemoveFiles(files);
  if (removed.ok()) return true;
  LOG(WARNING) << "what earlier runs left cannot be removed yet: " << removed;
  MutexLock lock(&mutex_);
  for (const CutKey& key : leftovers) {
    Entry& entry = entries_[key.shard_key];
    if (entry.life != 0) continue;  // Its record tells already.
    entry.removed.push_back(key.cut);
  }
  return false;
}

CutStore::Cut CutStore::DamagedCut(uint64_t number) {
  Cut cut;
  cut.number = number;
  cut.damaged = true;
  return cut;
}

absl::StatusOr<CutStore::Cut> CutStore::FindCut(const CutKey& key) {
  const absl::StatusOr<CutManifest> manifest =
      CutReader(database_.get(), key.shard_key, key.cut).Manifest();
  if (!manifest.ok() && !absl::IsDataLoss(manifest.status())) return manifest.status();
  if (!manifest.ok()) return DamagedCut(key.cut);
  return Cut{key.cut, manifest->epoch(), manifest->version(), manifest->of_stop()};
}

}  // namespace millrace::ps
