// A ps server's place in its cluster: the Join stream to the coordinator.
#ifndef MILLRACE_PS_MEMBERSHIP_H_
#define MILLRACE_PS_MEMBERSHIP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "grpcpp/client_context.h"
#include "protos/cluster.grpc.pb.h"
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
  // The coordinator has refused the registration for good. Called once at most, on the thread of
  // the membership; may be empty.
  std::function<void(const absl::Status&)> on_rejected;
  Clock* clock = Clock::Real();
};

// Registers, and sends heartbeats as often as the coordinator wants them. When the stream breaks,
// or there is no coordinator, it dials again for ever, and says so in the log at most every 10 s.
class Membership {
 public:
  // Starts dialling; does not wait.
  explicit Membership(MembershipOptions options);

  // As Leave().
  ~Membership();

  // Tells the coordinator, if it can be reached, that the server stops in good order, and ends.
  // Blocks for at most a few seconds.
  void Leave() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class Session;

  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  void Loop() ABSL_LOCKS_EXCLUDED(mutex_);
  void SetContext(grpc::ClientContext* context) ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns why the stream ended.
  absl::Status Serve(Session* session) ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns false when the server leaves.
  bool Sleep(absl::Duration duration) ABSL_LOCKS_EXCLUDED(mutex_);
  MemberMessage Registration() const;
  void LogWaiting(const absl::Status& status);

  const MembershipOptions options_;
  const std::unique_ptr<millrace::Membership::Stub> stub_;
  absl::Time last_logged_ = absl::InfinitePast();  // Of the thread.

  Mutex mutex_;
  CondVar changed_;  // Anything below, or the session's.
  bool leaving_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;  // The thread has nothing more to do.
  // Of the stream under way, or nullptr.
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::thread thread_;  // The last member: it uses the others.
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_MEMBERSHIP_H_
