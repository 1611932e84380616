// A ps server's place in its cluster: the Join stream to the coordinator.
#ifndef MILLRACE_PS_MEMBERSHIP_H_
#define MILLRACE_PS_MEMBERSHIP_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/membership/member_session.h"
#include "common/mutex.h"
#include "protos/cluster.pb.h"
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
// Of what the coordinator sends all but MayLeave is for workers, and ignored. Thread-safe.
class Membership final : private MemberListener {
 public:
  // Starts dialling; does not wait.
  explicit Membership(MembershipOptions options);

  // As Leave().
  ~Membership() override;

  // Tells the coordinator that the server is about to stop, and waits until it may: for MayLeave,
  // or `timeout`. Returns at once where there is no coordinator that the server has joined, or that
  // goes away meanwhile or knows nothing of this.
  void Drain(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_);

  // Tells the coordinator, if it can be reached, that the server stops in good order, and ends.
  // Blocks for at most a few seconds.
  void Leave();

 private:
  void Welcomed() override ABSL_LOCKS_EXCLUDED(mutex_);
  void Received(CoordinatorMessage message) override ABSL_LOCKS_EXCLUDED(mutex_);
  void Lost() override ABSL_LOCKS_EXCLUDED(mutex_);
  void Refused(const absl::Status& reason) override ABSL_LOCKS_EXCLUDED(mutex_);

  const MembershipOptions options_;
  Mutex mutex_;
  CondVar changed_;  // may_leave_
  bool joined_ ABSL_GUARDED_BY(mutex_) = false;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool may_leave_ ABSL_GUARDED_BY(mutex_) = false;
  MemberSession session_;  // The last member: its thread uses the others.
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_MEMBERSHIP_H_
