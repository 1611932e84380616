// Servers within a cluster: health checking and reflection on each, and a way to stop.
#ifndef MILLRACE_COMMON_NET_SERVER_H_
#define MILLRACE_COMMON_NET_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "grpcpp/channel.h"
#include "grpcpp/impl/service_type.h"
#include "grpcpp/server.h"

namespace millrace {

struct ServerOptions {
  // HOST:PORT; port 0 takes a free one. A host that is not a loopback address is refused unless
  // connections are secured (SecureConnections), or `allow_insecure_remote`.
  std::string listen = "127.0.0.1:0";
  bool allow_insecure_remote = false;
  // As CreateChannel's: clients' messages and pings may be late.
  bool bulk = false;
  // Bytes of messages that gRPC may hold, until whoever takes them lets go of them. With more it
  // takes no new connections, reads less at a time, and in the end breaks streams, with
  // RESOURCE_EXHAUSTED. 0: without a limit.
  uint64_t message_memory = 0;
  Clock* clock = Clock::Real();  // Of what it logs while it shuts down.
};

// A running gRPC server with the standard health and reflection services. A process that has had
// one ends when it can accept no further connections (deaf_listener.h).
class RpcServer {
 public:
  // Starts serving `services` (not owned; they must outlive the server).
  // INVALID_ARGUMENT: `listen` is malformed, or not loopback and not allowed; the certificate of
  // SecureConnections may not be shown by servers. UNAVAILABLE: the port is in use (the message
  // names it and says what to do).
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(
      const ServerOptions& options, const std::vector<grpc::Service*>& services);

  // Shuts down at once if that was not done. Where somebody holds an in-process channel all the
  // same it leaves gRPC's server to the end of the process, and says so in the log; the services
  // must live as long then.
  ~RpcServer();

  // HOST:PORT with the real port.
  const std::string& address() const { return address_; }

  // A channel to this server without a socket, for clients in the same process: messages are handed
  // over by reference, nothing is copied. A later server needs a channel of its own.
  // gRPC 1.51 does not survive calls on it once the server shuts down: see Shutdown. Thread-safe.
  // REQUIRES: Shutdown is not called yet.
  std::shared_ptr<grpc::Channel> InProcessChannel() ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether somebody holds an in-process channel, or a call on one. Thread-safe.
  bool HasInProcessCallers() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Serves on until there are no in-process callers. Then stops taking calls, waits up to `grace`
  // for those under way, and cancels them. Blocks until all handlers have ended. Neither is given
  // up, since what callers and handlers use may go once it returns; once a minute the log says
  // which of them is waited for. Whoever cannot wait for ever calls it on a thread of its own and
  // keeps all that they use (PsServer), or ends the process (StopSignal::LimitStopping).
  void Shutdown(absl::Duration grace) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  RpcServer(std::unique_ptr<grpc::Server> server, std::string address, Clock* clock);

  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  Clock* const clock_;
  mutable Mutex mutex_;
  // gRPC's own references to a channel, such as those of calls, keep it alive too.
  std::vector<std::weak_ptr<grpc::Channel>> in_process_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millrace

#endif  // MILLRACE_COMMON_NET_SERVER_H_
