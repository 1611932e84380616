#include "coordinator/run/worker_waits.h"

#include "common/proto_duration.h"

namespace millrace::coordinator {

bool WorkersWaitFor(const std::string& directory_id, const std::string& job_id,
                    const std::vector<ShardPlacement>& placements,
                    const std::vector<MemberNews>& members, absl::Time now,
                    const WorkerWaitsLimits& limits) {
  bool waits = false;
  for (const MemberNews& member : members) {
    for (const Activity& activity : member.activities) {
      if (activity.job_id() != job_id) continue;
      const absl::Duration since = FromProto(activity.since()) + (now - member.told);
      switch (activity.kind()) {
        case Activity::READING:
        case Activity::COMPUTING:
          if (since < limits.longest_work) return false;
          break;
        case Activity::PULLING:
        case Activity::PUSHING:
          if (!activity.has_shard() || activity.shard() >= placements.size()) break;
          waits |=
              since >= limits.sure && placements[activity.shard()].directory_id() == directory_id;
          break;
        default:
          break;
      }
    }
  }
  return waits;
}

}  // namespace millrace::coordinator
