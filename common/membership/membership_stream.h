// One Join stream to the coordinator, from its start to its end.
#ifndef MILLRACE_COMMON_MEMBERSHIP_MEMBERSHIP_STREAM_H_
#define MILLRACE_COMMON_MEMBERSHIP_MEMBERSHIP_STREAM_H_

#include <deque>
#include <functional>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "common/mutex.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/client_callback.h"
#include "protos/cluster.grpc.pb.h"

namespace millrace {

// Turns the callbacks of gRPC into two queues and an end, for one thread that looks at them. All
// methods may be called from any thread, and none of them blocks.
class MembershipStream final : private grpc::ClientBidiReactor<MemberMessage, CoordinatorMessage> {
 public:
  // Dials. `changed` is called from gRPC's threads, without locks, whenever Next or end may have
  // something new; it must not block. `stub` must outlive this object.
  MembershipStream(Membership::Stub* stub, std::function<void()> changed);

  // Cancels the call if it has not ended, and waits for its end (no network traffic is waited for).
  ~MembershipStream() override;

  MembershipStream(const MembershipStream&) = delete;
  MembershipStream& operator=(const MembershipStream&) = delete;

  // Queues a message. What comes after the stream's end, or has not been sent by then, is left for
  // TakeUnsent; what comes after CloseWhenSent is dropped.
  void Send(MemberMessage message) ABSL_LOCKS_EXCLUDED(mutex_);

  // Ends our side of the stream once what is queued is sent.
  void CloseWhenSent() ABSL_LOCKS_EXCLUDED(mutex_);

  // The next message that has arrived, if any.
  absl::optional<CoordinatorMessage> Next() ABSL_LOCKS_EXCLUDED(mutex_);

  // How the stream ended; none as long as it is open.
  absl::optional<absl::Status> end() const ABSL_LOCKS_EXCLUDED(mutex_);

  // The messages that were not handed to the network when the stream ended.
  // REQUIRES: end().has_value().
  std::deque<MemberMessage> TakeUnsent() ABSL_LOCKS_EXCLUDED(mutex_);

  void Cancel() { context_.TryCancel(); }

 private:
  void OnReadDone(bool ok) override ABSL_LOCKS_EXCLUDED(mutex_);
  void OnWriteDone(bool ok) override ABSL_LOCKS_EXCLUDED(mutex_);
  void OnDone(const grpc::Status& status) override ABSL_LOCKS_EXCLUDED(mutex_);

  // Starts the next write, or the end of writes, if it is time for one.
  void Advance() ABSL_LOCKS_EXCLUDED(mutex_);

  const std::function<void()> changed_;
  grpc::ClientContext context_;
  CoordinatorMessage incoming_;  // Belongs to gRPC while a read is under way.

  mutable Mutex mutex_;  // Guards what follows; never held while gRPC is called.
  CondVar done_cond_;
  std::deque<CoordinatorMessage> received_ ABSL_GUARDED_BY(mutex_);
  // The front belongs to gRPC while writing_.
  std::deque<MemberMessage> unsent_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;  // No operation may start any more.
  bool close_wanted_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;  // Our side.
  absl::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  bool done_ ABSL_GUARDED_BY(mutex_) = false;  // The last callback has returned.
};

}  // namespace millrace

#endif  // MILLRACE_COMMON_MEMBERSHIP_MEMBERSHIP_STREAM_H_
