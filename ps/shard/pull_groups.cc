#include "ps/shard/pull_groups.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace millrace::ps {
namespace {

constexpr size_t kMaxGroups = 1024;
constexpr size_t kRemembered = 4096;

}  // namespace

absl::StatusOr<StatePtr> PullGroups::Find(const PullRequest& request, const StatePtr& newest,
                                          absl::Time now) {
  const uint64_t number = request.pull_group();
  if (over_.contains(number)) {
    return absl::AbortedError(
        absl::StrCat("pull_group ", number, " is over: all its parts were asked for, or its time ",
                     "has passed; pull all parts again under another number"));
  }
  auto it = groups_.find(number);
  if (it == groups_.end()) {
    if (groups_.size() >= kMaxGroups) {
      return absl::ResourceExhaustedError(
          absl::StrCat("pull_group ", number, ": ", kMaxGroups,
                       " groups of which parts were not asked for are open; try again"));
    }
    it = groups_.emplace(number, Group{newest, request.parts(), {}, now}).first;
  }
  Group& group = it->second;
  if (group.parts != request.parts()) {
    return absl::InvalidArgumentError(absl::StrCat("parts: ", request.parts(), "; pull_group ",
                                                   number, " began with ", group.parts));
  }
  group.asked.insert(request.part());
  StatePtr state = group.state;
  if (group.asked.size() == group.parts) {
    groups_.erase(it);
    Remember(number);
  }
  return state;
}

void PullGroups::End(absl::Time since, std::vector<StatePtr>* released) {
  for (auto it = groups_.begin(); it != groups_.end();) {
    const auto here = it++;
    if (here->second.begun >= since) continue;
    released->push_back(std::move(here->second.state));
    Remember(here->first);
    groups_.erase(here);
  }
}

std::vector<StatePtr> PullGroups::States() const {
  std::vector<StatePtr> states;
  for (const auto& [number, group] : groups_) states.push_back(group.state);
  return states;
}

void PullGroups::Remember(uint64_t number) {
  if (!over_.insert(number).second) return;
  over_order_.push_back(number);
  if (over_order_.size() <= kRemembered) return;
  over_.erase(over_order_.front());
  over_order_.pop_front();
}

}  // namespace millrace::ps
