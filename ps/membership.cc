#include "ps/membership.h"

#include <utility>

#include "absl/time/time.h"
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

void Membership::Leave() { session_.Leave(kFarewellTimeout); }

void Membership::Refused(const absl::Status& reason) {
  LOG(ERROR) << reason.message();
  if (options_.on_rejected) options_.on_rejected(reason);
}

}  // namespace millrace::ps
