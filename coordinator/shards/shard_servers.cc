#include "coordinator/shards/shard_servers.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/job_state.h"
#include "common/net/channel.h"
#include "glog/logging.h"

namespace millrace::coordinator {
namespace {

// What people can do where a server has lost the job's shard.
std::string RemedyOf(const JobRecord& record) {
  const std::string start = "start it on its old one";
  if (!HasEnded(record.state())) return absl::StrCat(start, ", or cancel the job");
  const CheckpointInfo& last = record.checkpoint();
  if (last.number() == 0) return start;
  return absl::StrCat(start, ", or take its last checkpoint: millrace checkpoints export ",
                      CheckpointPath(last.directory(), last.number()));
}

}  // namespace

ShardServers::ShardServers(const JobRecord& record, const MemberRegistry* registry)
    : remedy_(RemedyOf(record)),
      registry_(registry),
      placements_(record.shards().begin(), record.shards().end()),
      servers_(placements_.size()) {
  CHECK(!placements_.empty());
}

// Whether a server of the shard's old name or address is there, with another directory.
bool ShardServers::IsServedOtherwise(const ShardPlacement& placement) const {
  const std::vector<PsMember> servers = registry_->PsServers();
  return std::any_of(servers.begin(), servers.end(), [&](const PsMember& server) {
    return server.registration.name() == placement.server() ||
           server.registration.address() == placement.address();
  });
}

void ShardServers::Miss(uint32_t shard) {
  const ShardPlacement& placement = placements_[shard];
  const bool directory_is_lost = IsServedOtherwise(placement);
  servers_[shard].directory_is_lost = directory_is_lost;
  gone_ += directory_is_lost ? 0 : 1;
  missing_[placement.server()] =
      directory_is_lost ? absl::StrCat(DescribeServer(shard), ", which is back with another data ",
                                       "directory (", remedy_, ")")
                        : absl::StrCat(DescribeServer(shard), ", gone");
}

std::string ShardServers::Locate() {
  missing_.clear();
  gone_ = 0;
  for (uint32_t shard = 0; shard < count(); ++shard) {
    ShardPlacement& placement = placements_[shard];
    if (placement.dropped()) continue;  // There may be tens of thousands.
    Server& server = servers_[shard];
    const auto member = registry_->FindPs(placement.directory_id());
    server.member = member ? member->id : 0;
    if (!member) {
      Miss(shard);
      continue;
    }
    server.directory_is_lost = false;
    server.moved |= server.last_member != 0 && server.last_member != member->id;
    server.last_member = member->id;
    placement.set_server(member->registration.name());
    placement.set_address(member->registration.address());
    if (server.stub != nullptr && server.address == placement.address()) continue;
    server.address = placement.address();
    server.stub = ParameterServerAdmin::NewStub(CreateChannel(server.address));
  }
  return absl::StrJoin(missing_, ", ",
                       [](std::string* out, const auto& server) { out->append(server.second); });
}

bool ShardServers::IsThere(uint32_t shard) const {
  const auto member = registry_->FindPs(placements_[shard].directory_id());
  return member && member->id == servers_[shard].member;
}

std::string ShardServers::Moved() const {
  std::set<std::string> moved;
  for (uint32_t shard = 0; shard < count(); ++shard) {
    if (!IsThere(shard)) moved.insert(placements_[shard].server());
  }
  return absl::StrJoin(moved, ", ");
}

void ShardServers::ForgetMoves() {
  for (Server& server : servers_) server.moved = false;
}

Routing RoutingOf(absl::Span<const ShardPlacement> placements, uint64_t generation) {
  Routing routing;
  routing.set_generation(generation);
  for (uint32_t shard = 0; shard < placements.size(); ++shard) {
    ShardRoute& route = *routing.add_shards();
    route.set_shard(shard);
    route.set_server(placements[shard].server());
    route.set_address(placements[shard].address());
    *route.mutable_slices() = placements[shard].slices();
  }
  return routing;
}

std::string ShardServers::NameOf(uint32_t shard) const {
  return absl::StrCat("shard ", shard, " on ", placements_[shard].server());
}

std::string ShardServers::DescribeServer(uint32_t shard) const {
  return absl::StrCat(placements_[shard].server(), " (", placements_[shard].address(), ")");
}

}  // namespace millrace::coordinator
