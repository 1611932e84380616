// A coordinator that does as a test says: a real server on loopback.
#ifndef MILLRACE_COMMON_MEMBERSHIP_FAKE_COORDINATOR_H_
#define MILLRACE_COMMON_MEMBERSHIP_FAKE_COORDINATOR_H_

#include <deque>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "common/mutex.h"
#include "common/net/server.h"
#include "grpcpp/support/server_callback.h"
#include "grpcpp/support/status.h"
#include "protos/cluster.grpc.pb.h"

namespace millrace::testing {

// Serves one member: its streams come one after the other. Waits end after a minute, with the
// process: a test hangs no longer. Thread-safe.
class FakeCoordinator final : private Membership::CallbackService {
 public:
  // Listens on a free port; Restart comes back on the same one.
  FakeCoordinator();
  ~FakeCoordinator() override;

  const std::string& address() const { return address_; }

  // The next registration, of a worker or a ps, that has dialled; it is not welcome yet. Blocks
  // until it comes.
  MemberMessage AwaitMember() ABSL_LOCKS_EXCLUDED(mutex_);
  // The same of a worker.
  RegisterWorker AwaitRegistration() ABSL_LOCKS_EXCLUDED(mutex_);

  // REQUIRES: a member has registered on the present stream.
  void SendWelcome(absl::Duration heartbeat_period = absl::Hours(1)) ABSL_LOCKS_EXCLUDED(mutex_);
  void Send(const CoordinatorMessage& message) ABSL_LOCKS_EXCLUDED(mutex_);

  // The next message after the registration. Blocks until it comes.
  MemberMessage Next() ABSL_LOCKS_EXCLUDED(mutex_);

  // Ends the stream with a status, and waits until that is done.
  void End(const grpc::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);

  // Blocks until the member's stream has ended, by whatever cause.
  void AwaitEnd() ABSL_LOCKS_EXCLUDED(mutex_);

  // Goes away without a word, and comes back.
  void Shutdown();
  void Restart();

 private:
  class Reactor;

  grpc::ServerBidiReactor<MemberMessage, CoordinatorMessage>* Join(
      grpc::CallbackServerContext* context) override ABSL_LOCKS_EXCLUDED(mutex_);
  void WaitForChange() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::string address_;
  std::unique_ptr<RpcServer> server_;

  Mutex mutex_;  // Guards what follows, and the reactors. gRPC calls none of them from within.
  CondVar changed_;
  Reactor* reactor_ ABSL_GUARDED_BY(mutex_) = nullptr;  // Of the present stream.
  std::deque<MemberMessage> registrations_ ABSL_GUARDED_BY(mutex_);
  std::deque<MemberMessage> messages_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millrace::testing

#endif  // MILLRACE_COMMON_MEMBERSHIP_FAKE_COORDINATOR_H_
