// A ps server's place in its cluster: the Join stream to the coordinator.
#ifndef MILLRACE_PS_MEMBERSHIP_H_
#define MILLRACE_PS_MEMBERSHIP_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/clock.h"
#include "common/membership/member_session.h"
#include "protos/parameter_server.pb.h"

namespace millrace::ps {

struct MembershipOptions {
  std::string coordinator_address;  // HOST:PORT
  std::string name;
  std::string directory_id;
  uint64_t incarnation = 0;
  std::string address;  // Of the data plane, as workers reach it.
  // What the server holds, asked for at each registration.
  std::function<std::vector<ShardStatus>()> shards;
  // The coordinator has refused the registration for good; the status says which coordinator and
  // why. Called once at most, on the thread of the membership; may be empty.
  std::function<void(const absl::Status&)> on_rejected;
  Clock* clock = Clock::Real();
};

// Registers, and sends heartbeats as often as the coordinator wants them. When the stream breaks,
// or there is no coordinator, it dials again for ever, and says so in the log at most every 10 s.
// What the coordinator sends is for workers, and ignored. Thread-safe.
class Membership final : private MemberListener {
 public:
  // Starts dialling; does not wait.
  explicit Membership(MembershipOptions options);

  // As Leave().
  ~Membership() override;

  // Tells the coordinator, if it can be reached, that the server stops in good order, and ends.
  // Blocks for at most a few seconds.
  void Leave();

 private:
  void Refused(const absl::Status& reason) override;

  const MembershipOptions options_;
  MemberSession session_;  // The last member: its thread uses the others.
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_MEMBERSHIP_H_
