#include "testing/chaos/proxy/fault.h"

#include <algorithm>

#include "absl/strings/match.h"

namespace millrace::chaos {

MessageFaults::MessageFaults(const FaultOptions& options, const std::string& method,
                             Direction direction, uint64_t call, FaultCounts* counts)
    : options_(options),
      faulty_(options.kind != FaultKind::kNone && direction == options.direction &&
              absl::StartsWith(method, options.methods)),
      messages_(direction == Direction::kRequests ? &counts->requests : &counts->replies),
      faults_(&counts->faults),
      random_(options.seed * 1'000'003 + call) {}

MessageFaults::Fate MessageFaults::Next(absl::Time now) {
  ++*messages_;
  // A message does not overtake those before it, unless they are held back to be overtaken.
  const absl::Time in_order = std::max(now, last_delivery_);
  const bool hit = faulty_ && std::bernoulli_distribution(options_.probability)(random_);
  if (!hit) {
    last_delivery_ = in_order;
    return {.deliveries = {in_order}};
  }
  ++*faults_;
  switch (options_.kind) {
    case FaultKind::kNone:
    case FaultKind::kLose:
      return {};
    case FaultKind::kDrop:
      return {.deliveries = {}, .break_call = true};
    case FaultKind::kDelay:
      last_delivery_ = std::max(in_order, Later(now));
      return {.deliveries = {last_delivery_}};
    case FaultKind::kDuplicate:
      last_delivery_ = in_order;
      return {.deliveries = {in_order, Later(in_order)}};
    case FaultKind::kReorder:
      return {.deliveries = {Later(now)}};
  }
  return {};
}

absl::Time MessageFaults::Later(absl::Time now) {
  return now + options_.longest_delay * std::uniform_real_distribution<double>()(random_);
}

}  // namespace millrace::chaos
