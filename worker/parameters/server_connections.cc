#include "worker/parameters/server_connections.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/net/channel.h"

namespace millrace::worker {

ServerConnections::ServerConnections(std::string address, int connections, ServerConnector connect,
                                     std::shared_ptr<Monitor> monitor, Clock* clock)
    : address_(std::move(address)),
      connections_(connections),
      connect_(std::move(connect)),
      monitor_(std::move(monitor)),
      clock_(clock),
      slots_(connections) {}

template <typename Answer>
std::shared_ptr<CallStream<Answer>> ServerConnections::LeastLoaded() {
  std::shared_ptr<CallStream<Answer>> best;
  bool opened = false;
  {
    MutexLock lock(&mutex_);
    Slot* best_slot = nullptr;
    size_t best_load = std::numeric_limits<size_t>::max();
    for (Slot& slot : slots_) {
      const auto& candidate = slot.stream<Answer>();
      const size_t load = candidate != nullptr && candidate->open() ? candidate->load() : 0;
      if (load >= best_load) continue;
      best_slot = &slot;
      best_load = load;
    }
    if (best_slot->channel == nullptr) {
      best_slot->channel =
          connect_ != nullptr ? connect_(address_) : CreateChannel(address_, /*bulk=*/true);
    }
    auto& stream = best_slot->stream<Answer>();
    opened = stream == nullptr || !stream->open();
    if (opened) stream = std::make_shared<CallStream<Answer>>(best_slot->channel, monitor_, clock_);
    best = stream;
  }
  if (opened) {
    DestroyEndedStreams();
    best->Start(best);
  }
  return best;
}

template std::shared_ptr<PushStream> ServerConnections::LeastLoaded<PushAnswer>();
template std::shared_ptr<PullStream> ServerConnections::LeastLoaded<PullAnswer>();

void ServerConnections::GiveUp(Stream& stream, absl::Time since) {
  std::vector<Slot> given_up;
  {
    MutexLock lock(&mutex_);
    const auto is_its = [&stream](const Slot& slot) {
      return slot.channel.get() == stream.channel();
    };
    const auto its = std::find_if(slots_.begin(), slots_.end(), is_its);
    const bool is_dead = its != slots_.end() && its->heard() <= since;
    for (Slot& slot : slots_) {
      if (!is_dead || !(is_its(slot) || slot.is_idle())) continue;
      given_up.push_back(std::exchange(slot, Slot()));
    }
  }
  const absl::Status reason = absl::UnavailableError("nothing comes on the connection");
  stream.Break(reason);
  for (const Slot& slot : given_up) {
    if (slot.push != nullptr) slot.push->Break(reason);
    if (slot.pull != nullptr) slot.pull->Break(reason);
  }
}

void ServerConnections::DestroyEndedStreams() {
  std::vector<std::shared_ptr<void>> ended;  // Destroyed without the lock.
  MutexLock lock(&monitor_->mutex);
  ended.swap(monitor_->ended_streams);
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
