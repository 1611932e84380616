// How cuts are read: to go on from, to step back to, and for checkpoints.
//
// A cut whose file was damaged, which RocksDB's checksum of each value tells, is passed over for an
// older one, if there is one.
#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "ps/cut/cut_file.h"
#include "ps/cut/cut_store.h"
#include "ps/cut/cut_store_internal.h"

namespace millrace::ps {
namespace {

absl::Status NoSuchCut(const ShardSpec& spec, const CutName& cut) {
  return absl::NotFoundError(absl::StrCat(NameOf(spec), " has no cut of version ", cut.version(),
                                          " of epoch ", cut.epoch()));
}

// Whether the version before it is in no cut, since it is the initial values.
bool FollowsInitialValues(const ShardPlan& plan, const ShardState& state) {
  return plan.spec.replicas() != 0 && state.version == 1 && !StartsFromFiles(plan.spec);
}

}  // namespace

absl::StatusOr<ShardContents> CutStore::ReadShard(const ShardPlan& plan, BlockPool* pool) {
  const std::string name = NameOf(plan.spec);
  const Entry entry = Find(KeyOf(plan.spec));
  std::vector<Cut> cuts = entry.cuts;
  if (cuts.empty() && (entry.had_cut || StartsFromFiles(plan.spec))) {
    return absl::DataLossError(absl::StrCat(
        name, " cannot be restored: it ", entry.had_cut ? "had a cut" : "began from files",
        ", and no cut of it is left; start the server on a whole copy of its directory"));
  }
  if (cuts.empty()) {
    ShardContents contents;
    MILLRACE_ASSIGN_OR_RETURN(contents.state, MakeInitialState(plan, pool));
    return contents;
  }
  // Damaged ones first, and the newest last; of one version, the one with held contributions.
  std::stable_sort(cuts.begin(), cuts.end(), [](const Cut& a, const Cut& b) {
    if (a.damaged != b.damaged) return a.damaged;
    return std::tie(a.epoch, a.version) < std::tie(b.epoch, b.version);
  });
  bool passed_over = cuts.front().damaged;
  absl::Status status = absl::DataLossError("they are damaged");
  for (; !cuts.empty() && !cuts.back().damaged; cuts.pop_back()) {
    absl::StatusOr<ShardContents> contents = ReadContents(plan, cuts.back(), pool);
    for (size_t i = cuts.size() - 1; contents.ok() && contents->previous == nullptr && i-- > 0;) {
      MILLRACE_ASSIGN_OR_RETURN(contents->previous, ReadPrevious(plan, cuts[i], cuts.back(), pool));
    }
    if (contents.ok()) {
      if (contents->previous == nullptr && FollowsInitialValues(plan, *contents->state)) {
        MILLRACE_ASSIGN_OR_RETURN(contents->previous, MakeInitialState(plan, pool));
      }
      contents->more_acknowledged = passed_over;
      return contents;
    }
    status = contents.status();
    if (!absl::IsDataLoss(status)) {
      return absl::Status(status.code(), absl::StrCat("cannot read a cut of ", name, ": ",
                                                      std::string(status.message())));
    }
    passed_over = true;
    GiveUp(plan, cuts.back().number, status);
  }
  MILLRACE_RETURN_IF_ERROR(entry.unreadable);
  return absl::DataLossError(absl::StrCat(
      name, " cannot be restored, no whole cut of it is left: ", std::string(status.message()),
      "; start the server on a whole copy of its directory"));
}

absl::StatusOr<StatePtr> CutStore::ReadPrevious(const ShardPlan& plan, const Cut& cut,
                                                const Cut& newest, BlockPool* pool) {
  if (plan.spec.replicas() == 0 || cut.damaged || cut.version + 1 != newest.version ||
      cut.epoch != newest.epoch) {
    return nullptr;
  }
  absl::StatusOr<ShardContents> contents = ReadContents(plan, cut, pool);
  if (contents.ok()) return contents->state;
  if (absl::IsDataLoss(contents.status())) return nullptr;
  return contents.status();
}

absl::StatusOr<StatePtr> CutStore::ReadCut(const ShardPlan& plan, const CutName& name,
                                           BlockPool* pool) {
  if (name.version() == 0 && !StartsFromFiles(plan.spec)) return MakeInitialState(plan, pool);
  for (const Cut& cut : Find(KeyOf(plan.spec)).cuts) {
    if (cut.damaged || cut.epoch != name.epoch() || cut.version != name.version()) continue;
    absl::StatusOr<ShardContents> contents = ReadContents(plan, cut, pool);
    if (contents.ok()) return contents->state;
    if (!absl::IsDataLoss(contents.status())) return contents.status();
    GiveUp(plan, cut.number, contents.status());
  }
  return NoSuchCut(plan.spec, name);
}

// It stays as one that is damaged, with its file, until there is a newer one: if it was the only
// one, the shard is lost, now and in the next process, and not one that never had a cut.
void CutStore::GiveUp(const ShardPlan& plan, uint64_t number, const absl::Status& why) {
  LOG(ERROR) << NameOf(plan.spec) << " gives up a cut: " << why;
  MutexLock lock(&mutex_);
  const auto found = entries_.find(KeyOf(plan.spec));
  if (found == entries_.end()) return;  // Dropped meanwhile.
  for (Cut& cut : found->second.cuts) {
    if (cut.number == number) cut.damaged = true;
  }
}

absl::StatusOr<std::unique_ptr<OpenCut>> CutStore::OpenCutFile(const ShardPlan& plan,
                                                               const CutName& name) {
  for (const Cut& cut : Find(KeyOf(plan.spec)).cuts) {
    if (cut.damaged || cut.epoch != name.epoch() || cut.version != name.version()) continue;
    auto opened = OpenCutFile(plan, cut);
    if (!absl::IsNotFound(opened.status())) return opened;
  }
  return NoSuchCut(plan.spec, name);
}

// Each time that the newest one is pruned before it is open there is a newer one.
absl::StatusOr<std::unique_ptr<OpenCut>> CutStore::OpenNewestCut(const ShardPlan& plan) {
  while (true) {
    std::vector<Cut> cuts = Find(KeyOf(plan.spec)).cuts;
    const bool had_some = !cuts.empty();
    std::erase_if(cuts, [](const Cut& cut) { return cut.damaged; });
    if (had_some && cuts.empty()) {
      return absl::DataLossError(absl::StrCat("no whole cut of ", NameOf(plan.spec), " is left"));
    }
    const auto newest = std::max_element(
        cuts.begin(), cuts.end(), [](const Cut& a, const Cut& b) { return Rank(a) < Rank(b); });
    if (newest == cuts.end()) {
      return absl::NotFoundError(absl::StrCat(NameOf(plan.spec), " has no cut"));
    }
    auto opened = OpenCutFile(plan, *newest);
    if (!absl::IsNotFound(opened.status())) return opened;
  }
}

// NOT_FOUND: it was removed meanwhile. Cuts are taken out before their files go.
absl::StatusOr<std::unique_ptr<OpenCut>> CutStore::OpenCutFile(const ShardPlan& plan,
                                                               const Cut& cut) {
  const std::string shard_key = KeyOf(plan.spec);
  auto opened = CutReader(database_.get(), shard_key, cut.number).Open(plan);
  if (opened.ok() || !absl::IsDataLoss(opened.status())) return opened;
  const std::vector<Cut> cuts = Find(shard_key).cuts;
  const bool there = std::any_of(cuts.begin(), cuts.end(), [&cut](const Cut& each) {
    return each.number == cut.number && !each.damaged;
  });
  if (!there) return absl::NotFoundError(absl::StrCat(NameOf(plan.spec), " has pruned the cut"));
  GiveUp(plan, cut.number, opened.status());
  return opened;
}

absl::StatusOr<ShardContents> CutStore::ReadContents(const ShardPlan& plan, const Cut& cut,
                                                     BlockPool* pool) {
  return CutReader(database_.get(), KeyOf(plan.spec), cut.number).Contents(plan, pool);
}

}  // namespace millrace::ps
