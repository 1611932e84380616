// What the pushes and pulls of one ParameterClient share.
#ifndef MILLRACE_WORKER_PARAMETERS_CLIENT_CORE_H_
#define MILLRACE_WORKER_PARAMETERS_CLIENT_CORE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "worker/parameters/monitor.h"
#include "worker/parameters/parameter_client.h"
#include "worker/parameters/server_connections.h"
#include "worker/parameters/shard_layout.h"

namespace millrace::worker {

// Lives as long as the client or any push or pull of it. Thread-safe.
class ClientCore {
 public:
  ClientCore(std::string job_id, Layout layout, const ParameterClientOptions& options);
  ClientCore(const ClientCore&) = delete;
  ClientCore& operator=(const ClientCore&) = delete;

  // Cancels, and waits until gRPC has let go of all streams, for as long as the options say. Those
  // that it still holds then are destroyed when another client begins or ends.
  ~ClientCore();

  const std::string& job_id() const { return job_id_; }
  const Layout& layout() const { return layout_; }
  Clock* clock() const { return options_.clock; }
  absl::Duration call_timeout() const { return options_.call_timeout; }
  const std::shared_ptr<Monitor>& monitor() const { return monitor_; }

  // How often limits of pushes to layout().shards[shard], or of pulls, are doubled from the start,
  // since the last ones needed that: see RetriedCalls.
  enum class Call { kPush, kPull };
  int& patience(Call call, size_t shard) ABSL_EXCLUSIVE_LOCKS_REQUIRED(monitor()->mutex) {
    return (call == Call::kPush ? push_patience_ : pull_patience_)[shard];
  }

  // For those who hold the monitor's lock under another name.
  void AssertLocked() const ABSL_ASSERT_EXCLUSIVE_LOCK(monitor()->mutex) {}

  // Whether the server of layout().shards[shard] takes pieces with rows, as far as is known: what
  // was noted last. Nothing yet: it does not.
  bool knows_rows(size_t shard) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(monitor()->mutex) {
    return knows_rows_[shard];
  }
  void NoteRows(size_t shard, bool known) ABSL_EXCLUSIVE_LOCKS_REQUIRED(monitor()->mutex) {
    knows_rows_[shard] = known;
  }

  // To the server of layout().shards[shard].
  ServerConnections* connections(size_t shard) const { return by_shard_[shard]; }

  // A number that no other request has.
  uint64_t NextId() { return next_id_.fetch_add(1, std::memory_order_relaxed); }

  // Wakes everybody who waits, and breaks all streams.
  void Cancel();

  // What a cancelled push or pull returns.
  absl::Status CancelledStatus() const;

 private:
  // Whether gRPC has let go of all streams.
  bool AwaitEndOfStreams();

  const std::string job_id_;
  const Layout layout_;
  const ParameterClientOptions options_;
  const std::shared_ptr<Monitor> monitor_;
  absl::flat_hash_map<std::string, std::unique_ptr<ServerConnections>> by_address_;
  std::vector<ServerConnections*> by_shard_;
  // Of each shard.
  std::vector<int> push_patience_ ABSL_GUARDED_BY(monitor()->mutex);
  std::vector<int> pull_patience_ ABSL_GUARDED_BY(monitor()->mutex);
  std::vector<bool> knows_rows_ ABSL_GUARDED_BY(monitor()->mutex);
  // Starts at a random number: with 64 bits, no two clients' ranges meet.
  std::atomic<uint64_t> next_id_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_PARAMETERS_CLIENT_CORE_H_
