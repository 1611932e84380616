// Where the shards of a job are: which ps servers hold them, and whether these are still there.
#ifndef MILLRACE_COORDINATOR_SHARDS_SHARD_SERVERS_H_
#define MILLRACE_COORDINATOR_SHARDS_SHARD_SERVERS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "coordinator/journal/job_record.pb.h"
#include "coordinator/membership/member_registry.h"
#include "protos/job.pb.h"
#include "protos/parameter_server.grpc.pb.h"

namespace millrace::coordinator {

// What workers and clients are told of shards that are there.
Routing RoutingOf(absl::Span<const ShardPlacement> placements, uint64_t generation);

// A shard lives in a directory; whoever serves that directory has it, under whatever name and
// address. Nothing here blocks. Not thread-safe.
class ShardServers {
 public:
  // REQUIRES: `record` has shards. `registry` is not owned.
  ShardServers(const JobRecord& record, const MemberRegistry* registry);

  uint32_t count() const { return static_cast<uint32_t>(placements_.size()); }

  // Finds the servers that hold the shards now, but those that are dropped. Returns those that are
  // not there, as a person would name them: "ps-1 (127.0.0.1:2223), gone"; empty: all are there.
  std::string Locate();
  // The same, by name: "ps-1".
  const std::map<std::string, std::string>& missing() const { return missing_; }

  // Whether all that Locate missed are servers of the old name or address that serve another
  // directory: what was in the old one may be lost.
  bool only_directories_are_lost() const { return !missing_.empty() && gone_ == 0; }

  // Whether Locate has found the server that holds the shard.
  bool IsLocated(uint32_t shard) const { return servers_[shard].member != 0; }
  // Whether it has found one of the shard's old name or address that serves another directory.
  bool HasLostDirectory(uint32_t shard) const { return servers_[shard].directory_is_lost; }
  // Whether the server that it has found has not left since, nor left and come back. False where it
  // has found none.
  bool IsThere(uint32_t shard) const;

  // Whether somebody serves that directory, which may be none of the job's.
  bool IsServed(const std::string& directory_id) const {
    return registry_->FindPs(directory_id).has_value();
  }

  // Whether Locate has found the shard's server to be another one than before, since ForgetMoves.
  bool HasMoved(uint32_t shard) const { return servers_[shard].moved; }
  void ForgetMoves();

  // The servers that have left, or left and come back, since Locate: "ps-0, ps-1". Empty: none.
  std::string Moved() const;

  // For calls to the shard's server. REQUIRES: IsLocated(shard).
  ParameterServerAdmin::Stub& stub(uint32_t shard) { return *servers_[shard].stub; }

  // The shards' records with the servers of the last Locate.
  const std::vector<ShardPlacement>& placements() const { return placements_; }
  ShardPlacement& placement(uint32_t shard) { return placements_[shard]; }
  Routing RoutingAt(uint64_t generation) const { return RoutingOf(placements_, generation); }

  // "shard 1 on ps-1".
  std::string NameOf(uint32_t shard) const;
  // "ps-1 (127.0.0.1:2223)".
  std::string DescribeServer(uint32_t shard) const;

 private:
  struct Server {
    uint64_t member = 0;       // 0: not there.
    uint64_t last_member = 0;  // The last one that was there.
    bool moved = false;
    bool directory_is_lost = false;
    std::string address;
    std::unique_ptr<ParameterServerAdmin::Stub> stub;
  };

  bool IsServedOtherwise(const ShardPlacement& placement) const;
  void Miss(uint32_t shard);

  const std::string remedy_;  // Of a server that has lost its directory.
  const MemberRegistry* const registry_;
  std::vector<ShardPlacement> placements_;
  std::vector<Server> servers_;                 // By shard.
  size_t gone_ = 0;                             // Of those missed, without a lost directory.
  std::map<std::string, std::string> missing_;  // See missing().
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_SHARDS_SHARD_SERVERS_H_
