#include "coordinator/membership/member_registry.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/member_name.h"
#include "common/net/address.h"
#include "common/proto_duration.h"
#include "common/status_macros.h"
#include "glog/logging.h"

namespace millrace::coordinator {
namespace {

constexpr size_t kMaxTextLength = 100;     // Of what is for people.
constexpr size_t kMaxAddressLength = 261;  // A host name of 253, brackets, and the port.
constexpr uint32_t kMaxLeaseSlots = 1024;
constexpr size_t kMaxReplaced = 8;  // That are remembered of a directory.
constexpr size_t kMaxDepartures = 64;
constexpr int kMaxActivities = 64;
constexpr char kLeaves[] = "leaves";
// With more than that, those that nobody serves are forgotten.
constexpr size_t kManyDirectories = 4096;

absl::Status CheckText(absl::string_view field, const std::string& text) {
  const bool valid =
      text.size() <= kMaxTextLength &&
      std::all_of(text.begin(), text.end(), [](unsigned char c) { return absl::ascii_isprint(c); });
  if (valid) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": '", absl::CHexEscape(text.substr(0, kMaxTextLength)),
                   "'; must be at most ", kMaxTextLength, " printable characters"));
}

// Workers dial it: neither port 0 nor all addresses of a machine can be meant.
absl::Status CheckAddress(const std::string& text) {
  const bool printable =
      std::all_of(text.begin(), text.end(), [](unsigned char c) { return absl::ascii_isgraph(c); });
  if (printable && text.size() <= kMaxAddressLength) {
    MILLRACE_RETURN_IF_ERROR(CheckDialable("register_ps.address", text));
    if (!ParseAddress(text)->IsWildcard()) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "register_ps.address: '", absl::CHexEscape(text.substr(0, kMaxAddressLength)),
      "'; must be the HOST:PORT that workers dial, at most ", kMaxAddressLength, " characters"));
}

absl::Status CheckWorker(const RegisterWorker& worker) {
  MILLRACE_RETURN_IF_ERROR(CheckMemberName("register_worker.name", worker.name()));
  MILLRACE_RETURN_IF_ERROR(CheckText("register_worker.device", worker.device()));
  MILLRACE_RETURN_IF_ERROR(CheckText("register_worker.version", worker.version()));
  if (worker.lease_slots() >= 1 && worker.lease_slots() <= kMaxLeaseSlots) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "register_worker.lease_slots: ", worker.lease_slots(), "; must be 1 to ", kMaxLeaseSlots));
}

absl::Status CheckPs(const RegisterPs& ps) {
  MILLRACE_RETURN_IF_ERROR(CheckMemberName("register_ps.name", ps.name()));
  MILLRACE_RETURN_IF_ERROR(CheckMemberName("register_ps.directory_id", ps.directory_id()));
  MILLRACE_RETURN_IF_ERROR(CheckText("register_ps.version", ps.version()));
  return CheckAddress(ps.address());
}

// For people; a name that is no job's finds none.
std::vector<Activity> ActivitiesOf(const Heartbeat& heartbeat) {
  const int count = std::min(heartbeat.activities_size(), kMaxActivities);
  std::vector<Activity> activities(heartbeat.activities().begin(),
                                   heartbeat.activities().begin() + count);
  for (Activity& activity : activities) activity.DiscardUnknownFields();
  return activities;
}

// Nothing, where it cannot be true.
absl::optional<DeviceUse> DeviceUseOf(const Heartbeat& heartbeat) {
  DeviceUse use = heartbeat.device_use();
  use.DiscardUnknownFields();
  const bool is_share = use.busy() >= 0 && use.busy() <= 1;
  if (!is_share || use.memory() == 0 || use.memory_used() > use.memory()) return absl::nullopt;
  return use;
}

std::string CopiesOfOneDirectory(const RegisterPs& ps, const RegisterPs& holder) {
  return absl::StrCat(
      "'", ps.name(), "' at ", ps.address(), " and '", holder.name(), "' at ", holder.address(),
      " run on copies of one data directory (its id is '", ps.directory_id(), "'), and '",
      holder.name(), "' at ", holder.address(),
      " came last and keeps the place until it stops; start each on a directory of ",
      "its own: give one of them an empty --data_dir");
}

}  // namespace

MemberRegistry::MemberRegistry(absl::Duration heartbeat_period, Clock* clock)
    : heartbeat_period_(heartbeat_period), clock_(clock), began_(clock->Now()) {}

absl::StatusOr<uint64_t> MemberRegistry::AddWorker(const RegisterWorker& registration,
                                                   std::shared_ptr<MemberLink> link) {
  MILLRACE_RETURN_IF_ERROR(CheckWorker(registration));
  Member member;
  member.is_worker = true;
  member.worker = registration;
  member.worker.DiscardUnknownFields();
  member.link = std::move(link);
  return Add(std::move(member));
}

absl::StatusOr<uint64_t> MemberRegistry::AddPs(const RegisterPs& registration,
                                               std::shared_ptr<MemberLink> link) {
  MILLRACE_RETURN_IF_ERROR(CheckPs(registration));
  Member member;
  member.ps = registration;
  member.ps.clear_shards();
  member.ps.DiscardUnknownFields();
  member.link = std::move(link);
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t id, Add(std::move(member)));
  if (observer_ != nullptr) observer_->OnPsJoined(registration);
  return id;
}

bool MemberRegistry::Replaces(const Member& newcomer, const Member& other) {
  if (newcomer.is_worker != other.is_worker) return false;
  if (newcomer.is_worker) {
    return newcomer.name() == other.name() &&
           newcomer.worker.incarnation() == other.worker.incarnation();
  }
  return newcomer.ps.directory_id() == other.ps.directory_id();
}

absl::Status MemberRegistry::CheckName(const Member& newcomer) const {
  for (const auto& [id, other] : members_) {
    if (other.name() != newcomer.name() || Replaces(newcomer, other)) continue;
    return absl::AlreadyExistsError(absl::StrCat(
        "a live ", other.is_worker ? "worker" : "ps server", " is called '", newcomer.name(),
        "' already; give this one another --name, or stop the other one"));
  }
  return absl::OkStatus();
}

// What is at a ps server's address is called in its name.
absl::Status MemberRegistry::CheckAddress(const Member& newcomer) const {
  for (const auto& [id, other] : members_) {
    if (newcomer.is_worker || other.is_worker || Replaces(newcomer, other)) continue;
    if (other.ps.address() != newcomer.ps.address()) continue;
    return absl::AlreadyExistsError(absl::StrCat(
        "register_ps.address: ", newcomer.ps.address(), "; that is the address of the live ps '",
        other.name(), "', which has another data directory; '", newcomer.name(),
        "' must have an --advertise of its own"));
  }
  return absl::OkStatus();
}

// A directory is locked while it is served, so who lost its place to another process is dead, and
// what comes from it was sent before. Or both live, and one of them has a copy; they would take the
// place from each other without end. That the other one lives is certain once it has spoken. The
// one that is refused may be started again, as another process: from then on nobody takes the place
// of a live one, which costs a server whose machine died the time until that is noticed.
absl::Status MemberRegistry::CheckDirectory(const Member& newcomer) {
  const RegisterPs& ps = newcomer.ps;
  const auto served = directories_.find(ps.directory_id());
  if (newcomer.is_worker || served == directories_.end()) return absl::OkStatus();
  Directory& directory = served->second;
  const auto& replaced = directory.replaced;
  const bool lost_its_place = std::count(replaced.begin(), replaced.end(), ps.incarnation()) > 0;
  if (!lost_its_place && !directory.has_copies) return absl::OkStatus();
  for (const auto& [id, other] : members_) {
    if (!Replaces(newcomer, other) || other.ps.incarnation() == ps.incarnation()) continue;
    const std::string error = CopiesOfOneDirectory(ps, other.ps);
    if (!lost_its_place || !other.spoke) return absl::AlreadyExistsError(error);
    directory.has_copies = true;
    return absl::FailedPreconditionError(error);
  }
  return absl::OkStatus();
}

std::vector<std::shared_ptr<MemberLink>> MemberRegistry::RemoveReplaced(const Member& newcomer) {
  std::vector<std::shared_ptr<MemberLink>> links;
  for (auto other = members_.begin(); other != members_.end();) {
    if (!Replaces(newcomer, other->second)) {
      ++other;
      continue;
    }
    links.push_back(other->second.link);
    other = members_.erase(other);
  }
  return links;
}

// Also one that was gone when the next one came: it may have been cut off, and come back.
void MemberRegistry::NoteServed(const RegisterPs& ps) {
  Directory& directory = directories_[ps.directory_id()];
  const absl::optional<uint64_t> before = std::exchange(directory.last, ps.incarnation());
  if (before && *before != ps.incarnation()) directory.replaced.push_back(*before);
  if (directory.replaced.size() > kMaxReplaced) directory.replaced.pop_front();
  if (directories_.size() <= kManyDirectories) return;
  absl::flat_hash_set<std::string> served;
  for (const auto& [id, member] : members_) {
    if (!member.is_worker) served.insert(member.ps.directory_id());
  }
  std::erase_if(directories_, [&served](const auto& each) { return !served.contains(each.first); });
}

absl::StatusOr<uint64_t> MemberRegistry::Add(Member member) {
  std::vector<std::shared_ptr<MemberLink>> replaced;
  uint64_t id = 0;
  const std::string name = member.name();
  {
    MutexLock lock(&mutex_);
    if (shut_down_) return absl::UnavailableError("the coordinator stops");
    MILLRACE_RETURN_IF_ERROR(CheckDirectory(member));
    MILLRACE_RETURN_IF_ERROR(CheckName(member));
    MILLRACE_RETURN_IF_ERROR(CheckAddress(member));
    replaced = RemoveReplaced(member);
    member.joined = member.heard = clock_->Now();
    id = ++last_id_;
    std::erase_if(departures_, [&member](const Departure& gone) {
      return gone.name == member.name() ||
             (!gone.is_worker && gone.directory_id == member.ps.directory_id());
    });
    // Under the lock, so that nothing is sent before it.
    CoordinatorMessage welcome;
    *welcome.mutable_welcome()->mutable_heartbeat_period() = ToProto(heartbeat_period_);
    member.link->Send(welcome);
    const Member& added = members_.emplace(id, std::move(member)).first->second;
    if (!added.is_worker) NoteServed(added.ps);
  }
  for (const auto& link : replaced) {
    link->Close(absl::AbortedError(absl::StrCat("'", name, "' has joined again")));
  }
  LOG(INFO) << name << " joined";
  NotifyChanged();
  return id;
}

absl::Status MemberRegistry::Receive(uint64_t id, const MemberMessage& message) {
  WorkerMember worker;
  PsMember ps;
  {
    MutexLock lock(&mutex_);
    const auto member = members_.find(id);
    if (member == members_.end()) return absl::OkStatus();  // Expired a moment ago.
    member->second.heard = clock_->Now();
    member->second.forgiven = false;
    member->second.spoke = true;
    if (message.kind_case() == MemberMessage::kHeartbeat) {
      member->second.activities = ActivitiesOf(message.heartbeat());
      member->second.device_use = DeviceUseOf(message.heartbeat());
      member->second.told = member->second.heard;
      return absl::OkStatus();
    }
    if (message.kind_case() == MemberMessage::kDraining) member->second.draining = true;
    if (member->second.is_worker) worker = {id, member->second.worker};
    if (!member->second.is_worker) ps = {id, member->second.ps};
  }
  switch (message.kind_case()) {
    case MemberMessage::kLeaving:
      if (worker.id != 0 && observer_ != nullptr) observer_->OnWorkerMessage(worker, message);
      Remove(id, kLeaves);
      return absl::OkStatus();
    case MemberMessage::kPlanResult:
    case MemberMessage::kStepResult:
    case MemberMessage::kLeaseReturned:
    case MemberMessage::kEvaluationResult:
    case MemberMessage::kJobPrepared:
    case MemberMessage::kDraining:
      break;
    case MemberMessage::KIND_NOT_SET:
      return absl::InvalidArgumentError("kind: not set, or unknown to this version");
    default:
      return absl::InvalidArgumentError("a second registration on one stream");
  }
  if (message.has_draining() && ps.id != 0) {
    if (observer_ != nullptr) observer_->OnPsDraining(ps);
    return absl::OkStatus();
  }
  if (worker.id == 0) {
    return absl::InvalidArgumentError("only a worker has plans, leases and evaluations");
  }
  if (observer_ != nullptr) observer_->OnWorkerMessage(worker, message);
  return absl::OkStatus();
}

void MemberRegistry::Remove(uint64_t id, absl::string_view reason) {
  std::string name;
  {
    MutexLock lock(&mutex_);
    const auto member = members_.find(id);
    if (member == members_.end()) return;
    name = member->second.name();
    RememberDeparture(member->second, reason);
    members_.erase(member);
  }
  LOG(INFO) << name << " is gone: " << reason;
  NotifyChanged();
}

void MemberRegistry::RememberDeparture(const Member& member, absl::string_view reason) {
  std::erase_if(departures_, [&](const Departure& gone) { return gone.name == member.name(); });
  departures_.push_front({.name = member.name(),
                          .is_worker = member.is_worker,
                          .at = clock_->Now(),
                          .reason = std::string(reason.data(), reason.size()),
                          .in_good_order = reason == kLeaves,
                          .address = member.ps.address(),
                          .directory_id = member.ps.directory_id()});
  if (departures_.size() <= kMaxDepartures) return;
  // Workers that were replaced, one after the other, say less than one that was lost.
  const auto in_order = std::find_if(departures_.rbegin(), departures_.rend(),
                                     [](const Departure& gone) { return gone.in_good_order; });
  departures_.erase(in_order == departures_.rend() ? departures_.end() - 1
                                                   : std::next(in_order).base());
}

std::vector<Departure> MemberRegistry::Departures() const {
  MutexLock lock(&mutex_);
  return {departures_.begin(), departures_.end()};
}

MembersView MemberRegistry::View() const {
  MutexLock lock(&mutex_);
  return {.there = NewsLocked(), .gone = {departures_.begin(), departures_.end()}};
}

std::vector<MemberNews> MemberRegistry::News() const {
  MutexLock lock(&mutex_);
  return NewsLocked();
}

std::vector<MemberNews> MemberRegistry::NewsLocked() const {
  std::vector<MemberNews> news;
  news.reserve(members_.size());
  for (const auto& [id, member] : members_) {
    news.push_back({.id = id,
                    .name = member.name(),
                    .is_worker = member.is_worker,
                    .version = member.is_worker ? member.worker.version() : member.ps.version(),
                    .address = member.ps.address(),
                    .directory_id = member.ps.directory_id(),
                    .device = member.worker.device(),
                    .joined = member.joined,
                    .heard = member.heard,
                    .draining = member.draining,
                    .activities = member.activities,
                    .device_use = member.device_use,
                    .told = member.told});
  }
  return news;
}

void MemberRegistry::ExpireSilent(absl::Duration late) {
  std::vector<std::pair<uint64_t, std::shared_ptr<MemberLink>>> silent;
  {
    MutexLock lock(&mutex_);
    const absl::Time limit = clock_->Now() - silence_limit();
    for (auto& [id, member] : members_) {
      if (member.heard > limit) continue;
      if (late > heartbeat_period_ && !member.forgiven) {
        member.forgiven = true;
        member.heard = limit + heartbeat_period_;
        continue;
      }
      silent.emplace_back(id, member.link);
    }
  }
  const std::string reason =
      absl::StrCat("no heartbeat for ", absl::FormatDuration(silence_limit()));
  for (const auto& [id, link] : silent) {
    link->Close(absl::DeadlineExceededError(reason));
    Remove(id, reason);
  }
}

void MemberRegistry::Shutdown() {
  std::map<uint64_t, Member> members;
  {
    MutexLock lock(&mutex_);
    shut_down_ = true;
    members.swap(members_);
  }
  for (const auto& [id, member] : members) {
    member.link->Close(absl::UnavailableError("the coordinator stops"));
  }
}

void MemberRegistry::Send(uint64_t id, const CoordinatorMessage& message) {
  std::shared_ptr<MemberLink> link;
  {
    MutexLock lock(&mutex_);
    const auto member = members_.find(id);
    if (member == members_.end()) return;
    link = member->second.link;
  }
  link->Send(message);
}

std::vector<WorkerMember> MemberRegistry::Workers() const {
  MutexLock lock(&mutex_);
  std::vector<WorkerMember> workers;
  for (const auto& [id, member] : members_) {
    if (member.is_worker) workers.push_back({id, member.worker});
  }
  return workers;
}

std::vector<PsMember> MemberRegistry::PsServers() const {
  MutexLock lock(&mutex_);
  std::vector<PsMember> servers;
  for (const auto& [id, member] : members_) {
    if (!member.is_worker) servers.push_back({id, member.ps});
  }
  return servers;
}

absl::optional<PsMember> MemberRegistry::FindPs(absl::string_view directory_id) const {
  MutexLock lock(&mutex_);
  for (const auto& [id, member] : members_) {
    if (!member.is_worker && member.ps.directory_id() == directory_id) {
      return PsMember{id, member.ps};
    }
  }
  return absl::nullopt;
}

void MemberRegistry::NotifyChanged() {
  if (observer_ != nullptr) observer_->OnMembersChanged();
}

}  // namespace millrace::coordinator
