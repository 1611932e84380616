#include "worker/parameters/server_connections.h"

#include <limits>
#include <utility>

#include "common/net/channel.h"

namespace millrace::worker {
namespace {

// Less is no reason to choose (and open) another stream.
constexpr size_t kLittleLoadBytes = 64 << 10;

}  // namespace

ServerConnections::ServerConnections(std::string address, int connections,
                                     std::shared_ptr<Monitor> monitor)
    : address_(std::move(address)),
      connections_(connections),
      monitor_(std::move(monitor)),
      slots_(connections) {}

template <typename StreamType, typename Load>
std::shared_ptr<StreamType> ServerConnections::LeastLoaded(
    std::shared_ptr<StreamType> Slot::*stream, Load load) {
  std::shared_ptr<StreamType> best;
  bool opened = false;
  {
    MutexLock lock(&mutex_);
    Slot* best_slot = nullptr;
    size_t best_load = std::numeric_limits<size_t>::max();
    for (Slot& slot : slots_) {
      const std::shared_ptr<StreamType>& candidate = slot.*stream;
      const size_t candidate_load =
          candidate != nullptr && candidate->open() ? load(*candidate) : size_t{0};
      if (candidate_load >= best_load) continue;
      best_slot = &slot;
      best_load = candidate_load;
    }
    if (best_slot->channel == nullptr) {
      best_slot->channel = CreateChannel(address_, /*own_connection=*/true);
    }
    opened = best_slot->*stream == nullptr || !(best_slot->*stream)->open();
    if (opened) best_slot->*stream = std::make_shared<StreamType>(best_slot->channel, monitor_);
    best = best_slot->*stream;
  }
  if (opened) {
    DestroyEndedStreams();
    best->Start(best);
  }
  return best;
}

void ServerConnections::DestroyEndedStreams() {
  std::vector<std::shared_ptr<void>> ended;  // Destroyed without the lock.
  MutexLock lock(&monitor_->mutex);
  ended.swap(monitor_->ended_streams);
}

std::shared_ptr<PushStream> ServerConnections::LeastLoadedPushStream() {
  return LeastLoaded(&Slot::push, [](const PushStream& stream) {
    return stream.queued_bytes() / kLittleLoadBytes;
  });
}

std::shared_ptr<PullStream> ServerConnections::LeastLoadedPullStream() {
  return LeastLoaded(&Slot::pull, [](const PullStream& stream) { return stream.calls(); });
}

void ServerConnections::Cancel() {
  std::vector<Slot> slots;
  {
    MutexLock lock(&mutex_);
    slots = slots_;
  }
  for (const Slot& slot : slots) {
    if (slot.push != nullptr) slot.push->Cancel();
    if (slot.pull != nullptr) slot.pull->Cancel();
  }
}

}  // namespace millrace::worker
