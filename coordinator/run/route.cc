#include "coordinator/run/route.h"

#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/net/channel.h"
#include "coordinator/shards/shard_servers.h"

namespace millrace::coordinator {
namespace {

constexpr size_t kMaxRouteBytes = kMaxMessageBytes - (size_t{1} << 20);

std::string DescribeShards(const Routing& routing) {
  if (routing.shards().empty()) return "";
  int slices = 0;
  for (const ShardRoute& shard : routing.shards()) slices += shard.slices_size();
  return absl::StrCat(routing.shards_size(), " shards of ", slices, " slices (",
                      routing.ByteSizeLong(), " bytes), ");
}

}  // namespace

SetRoute MakeRoute(const JobRecord& record, const JobPlan& plan, Routing routing) {
  SetRoute route;
  route.set_job_id(record.job_id());
  *route.mutable_spec() = record.spec();
  *route.mutable_routing() = std::move(routing);
  *route.mutable_plan() = plan;
  return route;
}

absl::Status CheckRoute(const JobRecord& record, const JobPlan& plan,
                        absl::Span<const ShardPlacement> shards) {
  const SetRoute route = MakeRoute(record, plan, RoutingOf(shards, record.generation()));
  const size_t bytes = route.ByteSizeLong();
  if (bytes <= kMaxRouteBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "model, placement: workers are told of the job in one message, which would have ", bytes,
      " bytes; must be at most ", kMaxRouteBytes, ". It has ", DescribeShards(route.routing()),
      route.plan().variables_size(), " variables (", route.plan().ByteSizeLong(),
      " bytes) and a spec of ", route.spec().ByteSizeLong(),
      " bytes; have fewer shards (placement.shards), or fewer variables, or shorter names of "
      "them"));
}

}  // namespace millrace::coordinator
