#include "coordinator/jobs/member_list.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "common/job_state.h"
#include "common/proto_duration.h"
#include "common/version.h"
#include "coordinator/membership/member_registry.h"

namespace millrace::coordinator {
namespace {

class MemberLister {
 public:
  MemberLister(const RunnerEnvironment& environment, const std::vector<std::shared_ptr<Job>>& jobs)
      : registry_(*environment.registry),
        view_(registry_.View()),
        now_(environment.clock->Now()) {  // After what it is compared with.
    for (const auto& job : jobs) {
      job->AddPlaced(&placed_);
      if (!HasEnded(job->state())) not_ended_.insert(job->id());
    }
    if (environment.evacuated != nullptr) evacuated_ = environment.evacuated->names();
    std::sort(view_.there.begin(), view_.there.end(),
              [](const MemberNews& a, const MemberNews& b) { return a.name < b.name; });
  }

  ListMembersResponse List() {
    ListMembersResponse list;
    for (const MemberNews& member : view_.there) {
      *(member.is_worker ? list.add_workers() : list.add_ps_servers()) = ReportOf(member);
    }
    for (const Departure& gone : view_.gone) *list.add_departed() = ReportOf(gone);
    AddAbsent(&list);
    list.set_coordinator_version(Version());
    *list.mutable_coordinator_since() = ToProto(now_ - registry_.began());
    *list.mutable_heartbeat_period() = ToProto(registry_.heartbeat_period());
    return list;
  }

 private:
  MemberReport ReportOf(const MemberNews& member) {
    MemberReport report;
    report.set_name(member.name);
    report.set_version(member.version);
    *report.mutable_since() = ToProto(now_ - member.joined);
    *report.mutable_silent() = ToProto(now_ - member.heard);
    report.set_draining(member.draining);
    if (member.is_worker) {
      report.set_device(member.device);
      if (member.device_use) *report.mutable_device_use() = *member.device_use;
      for (const std::string& id : JobsOf(member)) report.add_job_ids(id);
    } else {
      report.set_address(member.address);
      report.set_directory_id(member.directory_id);
      TakeKnown(&report);
    }
    return report;
  }

  DepartedMember ReportOf(const Departure& gone) {
    DepartedMember report;
    report.set_name(gone.name);
    report.set_is_worker(gone.is_worker);
    *report.mutable_since() = ToProto(now_ - gone.at);
    report.set_reason(gone.reason);
    report.set_in_good_order(gone.in_good_order);
    report.set_address(gone.address);
    report.set_directory_id(gone.directory_id);
    TakeKnown(&report);
    return report;
  }

  // What a worker tells may name anything.
  std::set<std::string> JobsOf(const MemberNews& worker) const {
    std::set<std::string> ids;
    for (const Activity& activity : worker.activities) {
      if (not_ended_.contains(activity.job_id())) ids.insert(activity.job_id());
    }
    return ids;
  }

  // What is left in `placed_` is placed on servers that are in no list yet, and what is left in
  // `evacuated_` are such servers.
  template <typename Report>
  void TakeKnown(Report* report) {
    report->set_evacuated(evacuated_.erase(report->directory_id()) > 0);
    const auto placed = placed_.find(report->directory_id());
    if (placed == placed_.end()) return;
    report->set_shards(placed->second.shards);
    report->set_elements(placed->second.elements);
    placed_.erase(placed);
  }

  // Servers that hold shards before all others, by name.
  void AddAbsent(ListMembersResponse* list) {
    for (const auto& [directory_id, placed] : placed_) {
      DepartedMember& absent = *list->add_departed();
      absent.set_name(placed.server);
      absent.set_address(placed.address);
      absent.set_directory_id(directory_id);
      absent.set_shards(placed.shards);
      absent.set_elements(placed.elements);
      absent.set_evacuated(evacuated_.erase(directory_id) > 0);
    }
    for (const auto& [directory_id, name] : evacuated_) {
      DepartedMember& absent = *list->add_departed();
      absent.set_name(name);
      absent.set_directory_id(directory_id);
      absent.set_evacuated(true);
    }
    auto& departed = *list->mutable_departed();
    const auto first =
        std::stable_partition(departed.begin(), departed.end(),
                              [](const DepartedMember& gone) { return gone.shards() > 0; });
    std::sort(departed.begin(), first, [](const DepartedMember& a, const DepartedMember& b) {
      return std::make_pair(a.name(), a.directory_id()) <
             std::make_pair(b.name(), b.directory_id());
    });
  }

  const MemberRegistry& registry_;
  MembersView view_;
  const absl::Time now_;
  PlacedByDirectory placed_;
  std::map<std::string, std::string> evacuated_;  // See EvacuatedServers::names.
  absl::flat_hash_set<std::string> not_ended_;
};

}  // namespace

ListMembersResponse ListMembers(const RunnerEnvironment& environment,
                                const std::vector<std::shared_ptr<Job>>& jobs) {
  return MemberLister(environment, jobs).List();
}

}  // namespace millrace::coordinator
