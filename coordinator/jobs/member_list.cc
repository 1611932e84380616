#include "coordinator/jobs/member_list.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "common/job_state.h"
#include "common/proto_duration.h"
#include "common/version.h"
#include "coordinator/membership/member_registry.h"

namespace millrace::coordinator {
namespace {

using Jobs = std::vector<std::shared_ptr<Job>>;

// What a worker tells may name anything.
std::set<std::string> JobsOf(const MemberNews& worker, const Jobs& jobs) {
  std::set<std::string> told;
  for (const Activity& activity : worker.activities) told.insert(activity.job_id());
  std::set<std::string> ids;
  for (const auto& job : jobs) {
    if (told.contains(job->id()) && !HasEnded(job->state())) ids.insert(job->id());
  }
  return ids;
}

MemberReport ReportOf(const MemberNews& member, const Jobs& jobs, absl::Time now) {
  MemberReport report;
  report.set_name(member.name);
  report.set_version(member.version);
  *report.mutable_since() = ToProto(now - member.joined);
  *report.mutable_silent() = ToProto(now - member.heard);
  if (member.is_worker) {
    report.set_device(member.device);
    if (member.device_use) *report.mutable_device_use() = *member.device_use;
    for (const std::string& id : JobsOf(member, jobs)) report.add_job_ids(id);
    return report;
  }
  report.set_address(member.address);
  for (const auto& job : jobs) {
    report.set_shards(report.shards() + job->ShardsOn(member.directory_id));
    report.set_elements(report.elements() + job->ElementsOn(member.directory_id));
  }
  return report;
}

DepartedMember ReportOf(const Departure& gone, absl::Time now) {
  DepartedMember report;
  report.set_name(gone.name);
  report.set_is_worker(gone.is_worker);
  *report.mutable_since() = ToProto(now - gone.at);
  report.set_reason(gone.reason);
  return report;
}

}  // namespace

ListMembersResponse ListMembers(const RunnerEnvironment& environment, const Jobs& jobs) {
  std::vector<MemberNews> members = environment.registry->News();
  const std::vector<Departure> departures = environment.registry->Departures();
  std::sort(members.begin(), members.end(),
            [](const MemberNews& a, const MemberNews& b) { return a.name < b.name; });
  const absl::Time now = environment.clock->Now();  // After what it is compared with.
  ListMembersResponse list;
  for (const MemberNews& member : members) {
    *(member.is_worker ? list.add_workers() : list.add_ps_servers()) = ReportOf(member, jobs, now);
  }
  for (const Departure& gone : departures) *list.add_departed() = ReportOf(gone, now);
  list.set_coordinator_version(Version());
  return list;
}

}  // namespace millrace::coordinator
