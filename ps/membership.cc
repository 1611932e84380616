#include "ps/membership.h"

#include <utility>

#include "absl/time/time.h"
#include "common/version.h"
#include "glog/logging.h"
#include "protos/cluster.pb.h"

namespace millrace::ps {
namespace {

constexpr absl::Duration kFarewellTimeout = absl::Seconds(3);

MemberMessage Registration(const MembershipOptions& options) {
  MemberMessage message;
  RegisterPs& ps = *message.mutable_register_ps();
  ps.set_name(options.name);
  ps.set_directory_id(options.directory_id);
  ps.set_incarnation(options.incarnation);
  ps.set_address(options.address);
  ps.set_version(Version());
  for (ShardStatus& status : options.shards()) *ps.add_shards() = std::move(status);
  return message;
}

MemberSessionOptions ForSession(const MembershipOptions& options) {
  MemberSessionOptions session;
  session.coordinator_address = options.coordinator_address;
  session.name = options.name;
  session.registration = [&options] { return Registration(options); };
  session.clock = options.clock;
  return session;
}

}  // namespace

Membership::Membership(MembershipOptions options)
    : options_(std::move(options)), session_(ForSession(options_), this) {
  session_.Start();
}

Membership::~Membership() { Leave(); }

void Membership::Drain(absl::Duration timeout) {
  const absl::Time deadline = options_.clock->Now() + timeout;
  {
    MutexLock lock(&mutex_);
    if (!joined_) return;
    draining_ = true;
  }
  MemberMessage message;
  message.mutable_draining();
  session_.Send(std::move(message));
  MutexLock lock(&mutex_);
  while (!may_leave_) {
    if (!options_.clock->WaitUntil(&changed_, &mutex_, deadline)) continue;
    LOG(WARNING) << options_.name << " stops although the coordinator at "
                 << options_.coordinator_address << " has not agreed to that within "
                 << absl::FormatDuration(timeout)
                 << ": the newest steps of its jobs may be in no checkpoint";
    return;
  }
}

void Membership::Welcomed() {
  MutexLock lock(&mutex_);
  joined_ = true;
}

void Membership::Received(CoordinatorMessage message) {
  if (!message.has_may_leave()) return;
  MutexLock lock(&mutex_);
  may_leave_ = true;
  changed_.SignalAll();
}

void Membership::Lost() {
  MutexLock lock(&mutex_);
  joined_ = false;
  may_leave_ = draining_;  // Nobody answers any more.
  changed_.SignalAll();
}

void Membership::Leave() { session_.Leave(kFarewellTimeout); }

void Membership::Refused(const absl::Status& reason) {
  {
    // A coordinator of an earlier version knows no ps server that is about to stop.
    MutexLock lock(&mutex_);
    if (draining_) return;
  }
  LOG(ERROR) << reason.message();
  if (options_.on_rejected) options_.on_rejected(reason);
}

}  // namespace millrace::ps
