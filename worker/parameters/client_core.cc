#include "worker/parameters/client_core.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "glog/logging.h"

namespace millrace::worker {
namespace {

// Of clients that are gone: those whose streams gRPC has not ended. Thread-safe.
class LeftMonitors {
 public:
  static LeftMonitors& Get() {
    static auto* const left = new LeftMonitors;
    return *left;
  }

  void Add(std::shared_ptr<Monitor> monitor) {
    MutexLock lock(&mutex_);
    monitors_.push_back(std::move(monitor));
  }

  // Destroys the streams that have ended since.
  void DestroyEndedStreams() {
    std::vector<std::shared_ptr<void>> ended;  // Destroyed without the locks.
    MutexLock lock(&mutex_);
    for (auto it = monitors_.begin(); it != monitors_.end();) {
      const std::shared_ptr<Monitor> monitor = *it;
      MutexLock monitor_lock(&monitor->mutex);
      std::move(monitor->ended_streams.begin(), monitor->ended_streams.end(),
                std::back_inserter(ended));
      monitor->ended_streams.clear();
      it = monitor->live_streams == 0 ? monitors_.erase(it) : it + 1;
    }
  }

 private:
  Mutex mutex_;
  std::vector<std::shared_ptr<Monitor>> monitors_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

ClientCore::ClientCore(std::string job_id, Layout layout, const ParameterClientOptions& options)
    : job_id_(std::move(job_id)),
      layout_(std::move(layout)),
      options_(options),
      monitor_(std::make_shared<Monitor>()),
      push_patience_(layout_.shards.size()),
      pull_patience_(layout_.shards.size()),
      knows_rows_(layout_.shards.size()),
      next_id_(absl::Uniform<uint64_t>(absl::BitGen())) {
  LeftMonitors::Get().DestroyEndedStreams();
  for (const ShardLayout& shard : layout_.shards) {
    std::unique_ptr<ServerConnections>& connections = by_address_[shard.address];
    if (connections == nullptr) {
      connections =
          std::make_unique<ServerConnections>(shard.address, options_.connections_per_server,
                                              options_.connect, monitor_, options_.clock);
    }
    by_shard_.push_back(connections.get());
  }
}

ClientCore::~ClientCore() {
  LeftMonitors::Get().DestroyEndedStreams();
  Cancel();
  if (!AwaitEndOfStreams()) LeftMonitors::Get().Add(monitor_);
}

bool ClientCore::AwaitEndOfStreams() {
  const absl::Time deadline = Clock::Real()->Now() + options_.stream_patience;
  std::vector<std::shared_ptr<void>> ended;  // Destroyed without the lock.
  MutexLock lock(&monitor_->mutex);
  while (monitor_->live_streams > 0) {
    if (!Clock::Real()->WaitUntil(&monitor_->changed, &monitor_->mutex, deadline)) continue;
    LOG(WARNING) << "job " << job_id_ << ": gRPC still holds " << monitor_->live_streams
                 << " cancelled streams after " << options_.stream_patience
                 << "; they end with their connections";
    return false;
  }
  ended.swap(monitor_->ended_streams);
  return true;
}

void ClientCore::Cancel() {
  {
    MutexLock lock(&monitor_->mutex);
    monitor_->cancelled = true;
    monitor_->changed.SignalAll();
  }
  for (const auto& [address, connections] : by_address_) connections->Cancel();
}

absl::Status ClientCore::CancelledStatus() const {
  return absl::CancelledError(absl::StrCat("job ", job_id_, ": the routing of generation ",
                                           layout_.generation, " is no longer in use here"));
}

}  // namespace millrace::worker
