#include "coordinator/run/preparer.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "common/job_spec.h"
#include "common/status_macros.h"
#include "coordinator/checkpoint/checkpoint_finder.h"
#include "coordinator/job/plan_check.h"
#include "coordinator/placement/placement.h"
#include "coordinator/run/job_beginning.h"
#include "coordinator/run/planner.h"
#include "coordinator/run/route.h"

namespace millrace::coordinator {
namespace {

constexpr absl::Duration kPause = absl::Seconds(1);

bool MayChange(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsResourceExhausted(status);
}

std::vector<std::string> DirectoriesOf(const std::vector<ShardPlacement>& shards) {
  std::vector<std::string> directories;
  for (const ShardPlacement& shard : shards) directories.push_back(shard.directory_id());
  return directories;
}

}  // namespace

absl::Status Preparer::Plan() {
  while (!job_->record().has_plan()) {
    if (environment_.registry->Workers().empty()) {
      MILLRACE_RETURN_IF_ERROR(reporter_->WaitForMember("a worker (none is connected)", kPause));
      continue;
    }
    const auto plan = environment_.planner->Plan(
        job_->spec(), environment_.plan_timeout, [this] { return !inbox_->interrupt().ok(); },
        &lost_planners_);
    MILLRACE_RETURN_IF_ERROR(inbox_->interrupt());
    if (!plan.ok() && lost_planners_.size() >= Planner::kMostLost) {
      MILLRACE_RETURN_IF_ERROR(WaitAfterLosses());
      continue;
    }
    if (MayChange(plan.status())) {
      MILLRACE_RETURN_IF_ERROR(reporter_->WaitForMember(
          absl::StrCat("a worker that can compile the model and open the data (",
                       std::string(plan.status().message()), ")"),
          kPause));
      continue;
    }
    MILLRACE_RETURN_IF_ERROR(plan.status());
    JobRecord planned = job_->record();
    MILLRACE_RETURN_IF_ERROR(SetPlan(*plan, planned));
    MILLRACE_RETURN_IF_ERROR(reporter_->Journal([&](JobRecord& record) { record = planned; }));
    const std::string remark = RemarkOnPlan(job_->spec(), *plan);
    if (!remark.empty()) job_->AppendNotice(remark);
  }
  return absl::OkStatus();
}

absl::Status Preparer::WarmStart() {
  for (;;) {
    JobRecord record = job_->record();
    const auto notice = ResolveWarmStart(
        environment_, [this] { return !inbox_->interrupt().ok(); }, record);
    MILLRACE_RETURN_IF_ERROR(inbox_->interrupt());
    if (MayChange(notice.status())) {
      MILLRACE_RETURN_IF_ERROR(reporter_->Wait("the files that it begins with", kPause,
                                               std::string(notice.status().message())));
      continue;
    }
    MILLRACE_RETURN_IF_ERROR(notice.status());
    if (notice->empty()) return absl::OkStatus();
    MILLRACE_RETURN_IF_ERROR(reporter_->Journal([&](JobRecord& changed) { changed = record; }));
    job_->AppendNotice(*notice);
  }
}

// One loss is remembered, so that the next one ends planning again: it costs one worker each time.
absl::Status Preparer::WaitAfterLosses() {
  const absl::Duration pause = loss_pause_.Next();
  const std::string whom = absl::StrCat(
      "another try to plan it (", absl::StrJoin(lost_planners_, ", "),
      " were lost while they compiled the model and opened the data; see their logs, "
      "and whether they have memory enough for the data; another worker is asked after ",
      absl::FormatDuration(pause), "; the job can be cancelled)");
  const absl::Time until = environment_.clock->Now() + pause;
  for (absl::Time now; (now = environment_.clock->Now()) < until;) {
    MILLRACE_RETURN_IF_ERROR(reporter_->WaitForMember(whom, until - now));
  }
  lost_planners_.erase(lost_planners_.begin(), lost_planners_.end() - 1);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<PsMember>> Preparer::AwaitServers() {
  const size_t needed = std::max(environment_.min_ps, 1);
  std::vector<PsMember> servers = environment_.OpenPsServers();
  for (; servers.size() < needed; servers = environment_.OpenPsServers()) {
    const bool others = environment_.registry->PsServers().size() > servers.size();
    MILLRACE_RETURN_IF_ERROR(reporter_->WaitForMember(
        absl::StrCat(needed, " ps servers (", servers.size(), servers.size() == 1 ? " is" : " are",
                     " connected", others ? ", beside those that are evacuated" : "", ")"),
        kPause));
  }
  return servers;
}

// Where it chooses a server that is evacuated meanwhile, it chooses again.
absl::Status Preparer::Place(const AvoidedServers& avoided) {
  const JobRecord record = job_->record();
  if (record.shards_size() > 0) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(std::vector<PsMember> servers, AwaitServers());
  const auto is_avoided = [&avoided](const PsMember& server) {
    return avoided.Contains(server.registration.directory_id());
  };
  if (!std::all_of(servers.begin(), servers.end(), is_avoided)) std::erase_if(servers, is_avoided);
  const Variables& variables = record.plan().variables();
  MILLRACE_RETURN_IF_ERROR(CheckDivision(record, variables));
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t elements, CountElements(variables));
  const bool whole = NeedsWholeVariables(job_->spec().optimizer());
  const uint64_t most = whole ? static_cast<uint64_t>(variables.size()) : elements;
  const uint64_t wanted = job_->spec().placement().shards();
  const uint64_t count = wanted > 0 ? wanted : std::min<uint64_t>(servers.size(), most);
  const RestoredFrom& from = record.restored_from();
  const std::vector<ShardSlices> shards =
      whole ? DivideAtVariables(variables, count, from.boundaries())
            : DivideBetween(variables, count, from.boundaries());
  std::vector<uint64_t> held;
  for (const PsMember& server : servers) {
    held.push_back(environment_.elements_on(server.registration.directory_id()));
  }
  const std::vector<size_t> assigned = AssignShards(shards, std::move(held));
  std::vector<ShardPlacement> placements(shards.size());
  for (size_t shard = 0; shard < shards.size(); ++shard) {
    const RegisterPs& server = servers[assigned[shard]].registration;
    ShardPlacement& placement = placements[shard];
    placement.set_directory_id(server.directory_id());
    placement.set_server(server.name());
    placement.set_address(server.address());
    placement.mutable_slices()->Assign(shards[shard].begin(), shards[shard].end());
    if (from.has_checkpoint()) *placement.mutable_restore() = from.checkpoint();
    if (record.was_placed_elsewhere()) placement.set_making(ShardPlacement::TO_BE_DROPPED);
  }
  MILLRACE_RETURN_IF_ERROR(CheckRoute(record, record.plan(), placements));
  const auto arriving = environment_.Announce(job_->id(), DirectoriesOf(placements));
  if (arriving == nullptr) return Place(avoided);
  MILLRACE_RETURN_IF_ERROR(reporter_->Journal([&](JobRecord& changed) {
    changed.mutable_shards()->Assign(placements.begin(), placements.end());
  }));
  if (shards.size() > count) {
    job_->AppendNotice(
        absl::StrCat("has ", shards.size(), " shards instead of ", count, ": those of checkpoint ",
                     NameOf(from.checkpoint()),
                     " differ in the steps that they have, and no new one may lie in "
                     "two of them; an exact checkpoint can be divided in any way"));
  }
  return absl::OkStatus();
}

}  // namespace millrace::coordinator
