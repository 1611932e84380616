// Where messages to members go.
#ifndef MILLRACE_COORDINATOR_MEMBERSHIP_OUTBOX_H_
#define MILLRACE_COORDINATOR_MEMBERSHIP_OUTBOX_H_

#include <cstdint>

#include "protos/cluster.pb.h"

namespace millrace::coordinator {

// Thread-safe.
class Outbox {
 public:
  virtual ~Outbox() = default;

  // Queues a message to a member; messages to one member arrive in order. Does not block and calls
  // nobody back. Lost without a word when the member is gone or goes: its leases end with it.
  virtual void Send(uint64_t member, const CoordinatorMessage& message) = 0;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_MEMBERSHIP_OUTBOX_H_
