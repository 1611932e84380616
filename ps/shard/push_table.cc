#include "ps/shard/push_table.h"

#include <utility>

namespace millrace::ps {
namespace {

constexpr size_t kRememberedPushes = 4096;

}  // namespace

PushPtr PushTable::Find(uint64_t push_id) const {
  auto it = pushes_.find(push_id);
  return it == pushes_.end() ? nullptr : it->second.push;
}

PushPtr PushTable::Start(uint64_t push_id, uint64_t step, uint32_t examples, uint64_t stream) {
  auto push = std::make_shared<PushAssembly>(push_id, step, examples);
  Entry& entry = pushes_[push_id];
  entry.push = push;
  entry.stream = stream;
  ++started_[stream];
  return push;
}

void PushTable::Carried(uint64_t push_id, absl::Time now) {
  Entry& entry = pushes_.at(push_id);
  entry.last_message = now;
  memory_bytes_ -= entry.bytes;
  entry.bytes = entry.push->bookkeeping_bytes();
  memory_bytes_ += entry.bytes;
}

size_t PushTable::started_by(uint64_t stream) const {
  auto it = started_.find(stream);
  return it == started_.end() ? 0 : it->second;
}

PushPtr PushTable::Remove(uint64_t push_id) {
  auto it = pushes_.find(push_id);
  if (it == pushes_.end()) return nullptr;
  auto started = started_.find(it->second.stream);
  if (--started->second == 0) started_.erase(started);
  memory_bytes_ -= it->second.bytes;
  PushPtr push = std::move(it->second.push);
  pushes_.erase(it);
  return push;
}

PushPtr PushTable::Void(uint64_t push_id) {
  PushPtr push = Remove(push_id);
  if (voided_.emplace(push_id, push == nullptr ? 0 : push->arrived()).second) {
    voided_order_.push_back(push_id);
    if (voided_order_.size() > kRememberedPushes) {
      voided_.erase(voided_order_.front());
      voided_order_.pop_front();
    }
  }
  return push;
}

uint64_t PushTable::arrived_of_voided(uint64_t push_id) const {
  const auto found = voided_.find(push_id);
  return found == voided_.end() ? 0 : found->second;
}

std::vector<PushPtr> PushTable::VoidCarriedBy(uint64_t stream) {
  std::vector<PushPtr> voided;
  for (const auto& [push_id, entry] : pushes_) {
    if (entry.push->carried_by(stream)) voided.push_back(entry.push);
  }
  for (const PushPtr& push : voided) Void(push->push_id());
  return voided;
}

std::vector<PushPtr> PushTable::VoidStalled(absl::Time now, absl::Duration silence) {
  std::vector<PushPtr> voided;
  for (auto& [push_id, entry] : pushes_) {
    if (entry.last_message == absl::InfinitePast()) entry.last_message = now;
    if (entry.last_message + silence < now) voided.push_back(entry.push);
  }
  for (const PushPtr& push : voided) Void(push->push_id());
  return voided;
}

std::vector<PushPtr> PushTable::Clear() {
  std::vector<PushPtr> pushes;
  for (auto& [push_id, entry] : pushes_) pushes.push_back(std::move(entry.push));
  pushes_.clear();
  started_.clear();
  memory_bytes_ = 0;
  return pushes;
}

}  // namespace millrace::ps
