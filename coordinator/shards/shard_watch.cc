#include "coordinator/shards/shard_watch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/printable.h"
#include "coordinator/shards/attach_decision.h"

namespace millrace::coordinator {
namespace {

using Noticed = std::map<uint32_t, absl::Time>;

// Of the earliest notice; end: there is none.
Noticed::const_iterator First(const Noticed& noticed) {
  return std::min_element(noticed.begin(), noticed.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; });
}

// A shard that has not answered for this long is silent.
constexpr absl::Duration kSilence = absl::Seconds(2);
// A poll that ends so long after the one before is not the next one: calls of a poll take 10 s.
constexpr absl::Duration kStoodStill = absl::Seconds(30);
// One that was noticed to be so this long ago, and has not answered since, keeps a job waiting.
constexpr absl::Duration kSureAfter = absl::Seconds(1);

}  // namespace

void ShardWatch::Start(uint64_t generation, absl::optional<uint64_t> epoch,
                       const std::vector<ShardStatus>& shards) {
  generation_ = generation;
  epoch_ = epoch;
  noticed_.clear();
  unserved_.clear();
  news_.assign(shards.size(), ShardNews());
  for (const ShardStatus& shard : shards) news_.at(shard.shard()).status = shard;
}

void ShardWatch::Begin(absl::Time now) {
  polled_at_ = now;
  polled_generation_ = generation_;
}

bool ShardWatch::NoteUnanswered(const std::vector<uint32_t>& shards, absl::Time now) {
  if (now - polled_at_ < kSilence) return false;
  for (const uint32_t shard : shards) {
    news_.at(shard).silent_since = std::min(news_[shard].silent_since, polled_at_);
    noticed_.emplace(shard, now);
  }
  return true;
}

bool ShardWatch::NoteAnswers(const ShardGroup::Poll& poll, absl::Time now) {
  if (now - std::exchange(answered_at_, now) > kStoodStill) unserved_.clear();
  for (uint32_t shard = 0; shard < poll.shards.size(); ++shard) {
    ShardNews& news = news_.at(shard);
    const absl::Status& error = poll.errors[shard];
    if (absl::IsCancelled(error)) return false;
    if (absl::IsUnavailable(error)) {
      unserved_.emplace(shard, now);
    } else {
      unserved_.erase(shard);
    }
    if (error.ok()) {
      news = ShardNews();
      news.status = poll.shards[shard];
      noticed_.erase(shard);
    } else {
      news.error = std::string(error.message());
      news.silent_since = std::min(news.silent_since, polled_at_);
      noticed_.emplace(shard, now);
    }
  }
  return true;
}

absl::optional<uint32_t> ShardWatch::SilentLongest(absl::Time now) const {
  const auto first = First(noticed_);
  if (first == noticed_.end() || now - first->second < kSureAfter) return absl::nullopt;
  return first->first;
}

absl::optional<ShardWatch::Unserved> ShardWatch::UnservedLongest() const {
  const auto first = First(unserved_);
  if (first == unserved_.end()) return absl::nullopt;
  return Unserved{first->first, first->second, answered_at_};
}

absl::optional<std::map<std::string, std::string>> ShardWatch::TakeWarnings(
    const ShardGroup::Poll& poll, const ShardServers& servers) {
  std::map<std::string, std::string> warnings;
  const std::set<uint32_t> failed_before = std::exchange(failed_, {});
  for (uint32_t shard = 0; shard < poll.shards.size(); ++shard) {
    const absl::Status& error = poll.errors[shard];
    if (absl::IsCancelled(error)) return absl::nullopt;
    if (!error.ok()) failed_.insert(shard);
    if (!error.ok() && failed_before.contains(shard)) {
      warnings[servers.NameOf(shard)] = std::string(error.message());
    } else if (!poll.shards[shard].trouble().empty()) {
      warnings[servers.placements()[shard].server()] = Printable(poll.shards[shard].trouble());
    }
  }
  return warnings;
}

std::string ShardWatch::WhyNotOurs(const ShardGroup::Poll& poll,
                                   const ShardServers& servers) const {
  for (uint32_t shard = 0; shard < poll.shards.size(); ++shard) {
    const absl::Status& error = poll.errors[shard];
    if (absl::IsFailedPrecondition(error) || absl::IsNotFound(error)) {
      return std::string(error.message());
    }
    if (!error.ok()) continue;
    std::string why = WhyNotOurs(poll.shards[shard], servers.NameOf(shard));
    if (!why.empty()) return why;
  }
  return "";
}

std::string ShardWatch::WhyNotOurs(const ShardStatus& status, const std::string& name) const {
  if (status.closed()) return absl::StrCat(name, " was made anew ", DescribeOrigin(status));
  if (status.generation() != generation_) {
    return absl::StrCat(name, " is at generation ", status.generation(),
                        ", which this coordinator did not set");
  }
  if (epoch_ && status.epoch() != *epoch_) {
    return absl::StrCat(name, " is in epoch ", status.epoch(), ", not ", *epoch_);
  }
  return "";
}

}  // namespace millrace::coordinator
