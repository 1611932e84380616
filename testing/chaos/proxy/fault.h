// What a bad network does to messages.
#ifndef MILLRACE_TESTING_CHAOS_PROXY_FAULT_H_
#define MILLRACE_TESTING_CHAOS_PROXY_FAULT_H_

#include <atomic>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace millrace::chaos {

enum class FaultKind {
  kNone,
  // The message is gone, and so is its call, which ends with UNAVAILABLE: what becomes of a stream
  // whose connection breaks.
  kDrop,
  // The message is gone, and nobody is told.
  kLose,
  // The message comes later, and those behind it wait.
  kDelay,
  // The message comes twice: at once, and a little later.
  kDuplicate,
  // The message comes later, after some of those behind it.
  kReorder,
};

enum class Direction { kRequests, kReplies };

struct FaultOptions {
  FaultKind kind = FaultKind::kNone;
  Direction direction = Direction::kRequests;
  // Of a message, to be hit.
  double probability = 0.25;
  // Decides which messages of a call are hit. (Which call is which depends on the order in which
  // they come.)
  uint64_t seed = 1;
  // Messages come later by a random time up to this.
  absl::Duration longest_delay = absl::Milliseconds(20);
  // Calls whose methods ("/millrace.ParameterServer/Push") begin otherwise are left alone.
  std::string methods = "/";
};

// Counts what happened. Thread-safe.
struct FaultCounts {
  std::atomic<uint64_t> requests{0};
  std::atomic<uint64_t> replies{0};
  std::atomic<uint64_t> faults{0};
};

// Decides what becomes of the messages of one direction of one call. Not thread-safe.
class MessageFaults {
 public:
  // `call`: its number.
  MessageFaults(const FaultOptions& options, const std::string& method, Direction direction,
                uint64_t call, FaultCounts* counts);

  struct Fate {
    // When the message is passed on: never, once or twice.
    std::vector<absl::Time> deliveries;
    bool break_call = false;
  };
  // Of the next message, which has come at `now`.
  Fate Next(absl::Time now);

 private:
  absl::Time Later(absl::Time now);

  const FaultOptions options_;
  const bool faulty_;
  std::atomic<uint64_t>* const messages_;
  std::atomic<uint64_t>* const faults_;
  std::mt19937_64 random_;
  absl::Time last_delivery_ = absl::InfinitePast();
};

}  // namespace millrace::chaos

#endif  // MILLRACE_TESTING_CHAOS_PROXY_FAULT_H_
