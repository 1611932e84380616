#include "testing/simulation/simulated_disk.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "ps/dense/shard_plan.h"

namespace millrace::simulation {
namespace {

// Newer than the common one, of a synchronous shard.
constexpr size_t kMostNewerCuts = 3;

using Name = std::pair<uint64_t, uint64_t>;  // Epoch and version.

Name NameOf(const SimulatedCut& cut) { return {cut.epoch, cut.state->version}; }

// A life of the server takes them into its own bookkeeping, and the disk keeps them.
std::vector<ps::PushPtr> CopyOf(const std::vector<ps::PushPtr>& held) {
  std::vector<ps::PushPtr> copy;
  for (const ps::PushPtr& push : held) copy.push_back(std::make_shared<ps::PushAssembly>(*push));
  return copy;
}

}  // namespace

void SimulatedDisk::WriteRecord(const ShardSpec& spec, const ps::ShardTerm& term) {
  if (term_.epoch < term.epoch) {
    const uint64_t version = term.stepped_back_to.version();
    const auto is_gone = [&](const SimulatedCut& cut) {
      return cut.epoch < term.epoch && cut.state->version > version;
    };
    cuts_.erase(std::remove_if(cuts_.begin(), cuts_.end(), is_gone), cuts_.end());
  }
  has_shard_ = true;
  spec_ = spec;
  term_ = term;
}

void SimulatedDisk::CommitFirstCut(const ShardSpec& spec, const ps::ShardTerm& term,
                                   SimulatedCut cut) {
  cuts_.push_back(std::move(cut));
  WriteRecord(spec, term);
}

void SimulatedDisk::DropShard() {
  has_shard_ = false;
  spec_.Clear();
  term_ = {};
  cuts_.clear();
}

bool SimulatedDisk::HasInitialValues() const { return !ps::StartsFromFiles(spec_); }

absl::Status SimulatedDisk::CommitCut(SimulatedCut cut) {
  if (cut.epoch != term_.epoch) return absl::CancelledError("the shard has stepped back");
  cut.held = CopyOf(cut.held);
  cuts_.push_back(std::move(cut));
  return absl::OkStatus();
}

std::vector<const SimulatedCut*> SimulatedDisk::Sorted() const {
  std::vector<const SimulatedCut*> sorted;
  for (const SimulatedCut& cut : cuts_) sorted.push_back(&cut);
  std::sort(sorted.begin(), sorted.end(), [](const SimulatedCut* a, const SimulatedCut* b) {
    return std::make_tuple(NameOf(*a), a->number) < std::make_tuple(NameOf(*b), b->number);
  });
  return sorted;
}

void SimulatedDisk::Prune(bool synchronous, const absl::optional<CutName>& common,
                          uint64_t stops_before) {
  std::vector<SimulatedCut> regular;
  for (const SimulatedCut* cut : Sorted()) {
    if (!cut->of_stop) regular.push_back(*cut);
  }
  const auto is_surplus = [&](const SimulatedCut& cut) {
    if (regular.empty()) return false;
    if (!synchronous) return NameOf(cut) < NameOf(regular.back());
    if (!common.has_value()) return false;
    const Name name(common->epoch(), common->version());
    const bool is_there = std::any_of(regular.begin(), regular.end(),
                                      [&](const auto& each) { return NameOf(each) == name; });
    const bool is_initial = name.second == 0 && HasInitialValues();
    if (!is_initial && !is_there) return false;
    if (NameOf(cut) <= name) return NameOf(cut) < name;
    return regular.size() > kMostNewerCuts &&
           NameOf(cut) < NameOf(regular[regular.size() - kMostNewerCuts]);
  };
  const auto is_gone = [&](const SimulatedCut& cut) {
    if (!cut.of_stop) return is_surplus(cut);
    return cut.number < stops_before ||
           std::any_of(regular.begin(), regular.end(), [&](const SimulatedCut& other) {
             return other.number > cut.number && NameOf(other) > NameOf(cut);
           });
  };
  cuts_.erase(std::remove_if(cuts_.begin(), cuts_.end(), is_gone), cuts_.end());
}

ps::ShardContents SimulatedDisk::ReadShard() const {
  ps::ShardContents contents;
  const auto sorted = Sorted();
  if (sorted.empty()) return contents;
  const SimulatedCut& newest = *sorted.back();
  contents.state = newest.state;
  contents.held = CopyOf(newest.held);
  for (const SimulatedCut* cut : sorted) {
    const bool is_before =
        cut->epoch == newest.epoch && cut->state->version + 1 == newest.state->version;
    if (is_before) contents.previous = cut->state;
  }
  return contents;
}

absl::StatusOr<absl::optional<ps::StatePtr>> SimulatedDisk::ReadCut(const CutName& cut) const {
  if (cut.version() == 0 && HasInitialValues()) return absl::optional<ps::StatePtr>();
  for (const SimulatedCut& each : cuts_) {
    if (NameOf(each) == Name(cut.epoch(), cut.version())) return absl::make_optional(each.state);
  }
  return absl::NotFoundError("there is no such cut");
}

std::vector<CutName> SimulatedDisk::Names() const {
  std::vector<CutName> names;
  for (const SimulatedCut* cut : Sorted()) {
    if (cut->of_stop) continue;
    names.emplace_back();
    names.back().set_epoch(cut->epoch);
    names.back().set_version(cut->state->version);
  }
  return names;
}

bool SimulatedDisk::Has(uint64_t epoch, uint64_t version) const {
  if (version == 0 && HasInitialValues()) return true;
  return std::any_of(cuts_.begin(), cuts_.end(),
                     [&](const SimulatedCut& cut) { return NameOf(cut) == Name(epoch, version); });
}

uint64_t SimulatedDisk::NewestVersion() const {
  const auto sorted = Sorted();
  return sorted.empty() ? 0 : sorted.back()->state->version;
}

}  // namespace millrace::simulation
