// What the shards of a job that trains say when they are polled: what is told of it, and whether
// they are still the ones that training began with.
#ifndef MILLRACE_COORDINATOR_SHARDS_SHARD_WATCH_H_
#define MILLRACE_COORDINATOR_SHARDS_SHARD_WATCH_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "coordinator/job/job.h"
#include "coordinator/shards/shard_group.h"
#include "coordinator/shards/shard_servers.h"
#include "protos/parameter_server.pb.h"

namespace millrace::coordinator {

// A poll is begun (Begin), may have shards that do not answer it for a while (NoteUnanswered), and
// ends with an answer or an error of each (the others). Times are numbers to it; it calls nobody.
// Not thread-safe.
class ShardWatch {
 public:
  // Training begins in this generation; `shards` are what all of them say. `epoch`: theirs, in a
  // synchronous job; nothing in an asynchronous one, where it means nothing.
  void Start(uint64_t generation, absl::optional<uint64_t> epoch,
             const std::vector<ShardStatus>& shards);

  // A poll begins.
  void Begin(absl::Time now);
  // Whether the last poll was begun since Start. Another one's answers may be of shards as they
  // were before.
  bool has_begun() const { return polled_generation_ == generation_; }

  // What each shard said last, by shard.
  const std::vector<ShardNews>& news() const { return news_; }

  // Of the poll, these have not answered yet. Returns whether that is news: once it has lasted.
  bool NoteUnanswered(const std::vector<uint32_t>& shards, absl::Time now);

  // The poll has ended. Returns whether that is news: not where a call was cancelled.
  bool NoteAnswers(const ShardGroup::Poll& poll, absl::Time now);

  // Of the shards that were noticed to be silent 1 s ago or before, and have not answered since,
  // the one that was noticed first. It counts from the notice, not from the poll: after the
  // coordinator itself stood still, shards seem silent until their answers are read.
  absl::optional<uint32_t> SilentLongest(absl::Time now) const;

  // Of the shards that could not be called in the last polls (UNAVAILABLE), the one of which that
  // was noticed first, when, and when it was seen last. Polls that we stood still between are not
  // in a row.
  struct Unserved {
    uint32_t shard = 0;
    absl::Time since;
    absl::Time last;
  };
  absl::optional<Unserved> UnservedLongest() const;

  // What people are warned of, by server or by shard: a server's own trouble, and errors of shards
  // that failed in the poll before, too; one that fails once may be started again just now. Nothing
  // where a call was cancelled. Once for each poll.
  absl::optional<std::map<std::string, std::string>> TakeWarnings(const ShardGroup::Poll& poll,
                                                                  const ShardServers& servers);

  // Why the shards must be attached again: one that has answered is not open, not at our
  // generation, or not in the epoch that it was in. Empty: all that have answered are.
  std::string WhyNotOurs(const ShardGroup::Poll& poll, const ShardServers& servers) const;

 private:
  std::string WhyNotOurs(const ShardStatus& status, const std::string& name) const;

  uint64_t generation_ = 0;
  absl::optional<uint64_t> epoch_;
  std::vector<ShardNews> news_;
  absl::Time polled_at_;
  absl::Time answered_at_ = absl::InfinitePast();  // When the last poll ended.
  absl::optional<uint64_t> polled_generation_;
  std::map<uint32_t, absl::Time> noticed_;  // Silent shards, and when that was first noticed.
  std::map<uint32_t, absl::Time> unserved_;
  std::set<uint32_t> failed_;  // Shards, in the last poll.
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_SHARDS_SHARD_WATCH_H_
