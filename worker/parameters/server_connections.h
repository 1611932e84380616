// A few connections to one ps server, each with a stream for pushes and one for pulls.
#ifndef MILLRACE_WORKER_PARAMETERS_SERVER_CONNECTIONS_H_
#define MILLRACE_WORKER_PARAMETERS_SERVER_CONNECTIONS_H_

#include <algorithm>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "grpcpp/channel.h"
#include "worker/parameters/call_stream.h"
#include "worker/parameters/monitor.h"
#include "worker/parameters/parameter_client.h"

namespace millrace::worker {

// Opens connections and streams when they are first asked for, and streams again when they are
// broken. Thread-safe.
class ServerConnections {
 public:
  // REQUIRES: connections >= 1.
  ServerConnections(std::string address, int connections, ServerConnector connect,
                    std::shared_ptr<Monitor> monitor, Clock* clock);

  // REQUIRES: Cancel was called.
  ~ServerConnections() = default;

  // The stream that will be idle first: LeastLoaded<PushAnswer>() or LeastLoaded<PullAnswer>().
  template <typename Answer>
  std::shared_ptr<CallStream<Answer>> LeastLoaded() ABSL_LOCKS_EXCLUDED(mutex_);

  // A request on that stream has heard nothing since then, for too long. Where nothing else has
  // come on its connection either, that may be dead, which the system finds out much later, and
  // until then it sends what it holds again more and more rarely: what comes next is sent on a new
  // one, and other requests on the old one are broken. Connections without requests may be dead
  // too, and are replaced as well. Otherwise the stream alone is broken.
  void GiveUp(Stream& stream, absl::Time since) ABSL_LOCKS_EXCLUDED(mutex_);

  int connections() const { return connections_; }

  // Breaks all streams.
  void Cancel() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Slot {
    template <typename Answer>
    std::shared_ptr<CallStream<Answer>>& stream() {
      if constexpr (std::is_same_v<Answer, PushAnswer>) {
        return push;
      } else {
        return pull;
      }
    }

    // Nobody waits for anything.
    bool is_idle() const {
      return (push == nullptr || push->calls() == 0) && (pull == nullptr || pull->calls() == 0);
    }

    // When something came last.
    absl::Time heard() const {
      return std::max(push == nullptr ? absl::InfinitePast() : push->heard(),
                      pull == nullptr ? absl::InfinitePast() : pull->heard());
    }

    std::shared_ptr<grpc::Channel> channel;
    std::shared_ptr<PushStream> push;
    std::shared_ptr<PullStream> pull;
  };

  void DestroyEndedStreams() ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string address_;
  const int connections_;
  const ServerConnector connect_;  // Empty: over the network.
  const std::shared_ptr<Monitor> monitor_;
  Clock* const clock_;
  Mutex mutex_;
  std::vector<Slot> slots_ ABSL_GUARDED_BY(mutex_);  // One for each connection.
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_PARAMETERS_SERVER_CONNECTIONS_H_
