// A worker's or a ps server's membership of its cluster: dials the coordinator for as long as the
// member lives, registers, sends heartbeats, and carries messages both ways.
#ifndef MILLRACE_COMMON_MEMBERSHIP_MEMBER_SESSION_H_
#define MILLRACE_COMMON_MEMBERSHIP_MEMBER_SESSION_H_

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/clock.h"
#include "common/membership/membership_stream.h"
#include "common/mutex.h"
#include "grpcpp/channel.h"
#include "protos/cluster.grpc.pb.h"

namespace millrace {

struct MemberSessionOptions {
  std::string coordinator_address;  // HOST:PORT.
  std::string name;                 // Of the member, for messages.
  // Makes the registration, anew for each stream. Called by the session's thread; must not block
  // for long.
  std::function<MemberMessage()> registration;
  Clock* clock = Clock::Real();  // Must outlive the session.
  // Between one attempt to connect and the next: doubles from the first to the last. A coordinator
  // that was started again has all its members within about the last, however long it was away. A
  // stream that had lasted for longer is dialled again at once.
  absl::Duration first_backoff = absl::Milliseconds(50);
  absl::Duration last_backoff = absl::Milliseconds(250);
  // How long a coordinator may take to answer a registration before it is dialled again.
  absl::Duration welcome_timeout = absl::Seconds(10);
};

// Called by the session's thread alone; must not block, since heartbeats wait meanwhile.
class MemberListener {
 public:
  virtual ~MemberListener() = default;

  // The coordinator has welcomed this member. Whatever it asked for on an earlier stream is void;
  // answers to that which are sent before this returns are dropped.
  virtual void Welcomed() {}

  virtual void Received(CoordinatorMessage /*message*/) {}

  // A heartbeat is about to be sent: adds what it is to say.
  virtual void FillHeartbeat(Heartbeat& /*heartbeat*/) {}

  // The stream on which the member was welcomed has ended. It is dialled again, unless Refused
  // follows or the member leaves.
  virtual void Lost() {}

  // Whether a message that was queued, but not sent when its stream broke, is sent on the next one.
  // The others answer what is void by then.
  virtual bool OutlivesItsStream(const MemberMessage& /*message*/) { return false; }

  // The coordinator refuses the member for good, and the session ends: INVALID_ARGUMENT (its
  // registration, or a message of it) or FAILED_PRECONDITION (it is a ps server, and another one
  // serves a copy of its directory), with the coordinator's reason.
  virtual void Refused(const absl::Status& /*reason*/) {}
};

// Thread-safe.
class MemberSession {
 public:
  // Does not dial yet. `listener` must outlive the session.
  MemberSession(MemberSessionOptions options, MemberListener* listener);

  // Leaves at once if that was not done.
  ~MemberSession();

  MemberSession(const MemberSession&) = delete;
  MemberSession& operator=(const MemberSession&) = delete;

  // Starts the session's thread. REQUIRES: called once, before Leave.
  void Start();

  // Queues a message; does not block. Where the stream breaks before it is sent, the listener says
  // whether it is sent on the next one or dropped.
  void Send(MemberMessage message) ABSL_LOCKS_EXCLUDED(mutex_);

  // Sends what is queued, says goodbye and ends. Waits up to `grace` for the coordinator to take
  // note. Idempotent.
  void Leave(absl::Duration grace) ABSL_LOCKS_EXCLUDED(mutex_);

  // Blocks until the session has ended. OK: it left; others: what Refused was told.
  absl::Status Wait() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);

  // Serves one stream until it ends; says how.
  absl::Status ServeStream() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status ServeUntilEnd(MembershipStream* stream) ABSL_LOCKS_EXCLUDED(mutex_);
  void Take(CoordinatorMessage message) ABSL_LOCKS_EXCLUDED(mutex_);
  void DropWhatIsVoid() ABSL_LOCKS_EXCLUDED(mutex_);
  void DoWhatIsDue(MembershipStream* stream);
  void SayGoodbye(MembershipStream* stream, absl::Time leave_by);
  void SendQueued(MembershipStream* stream) ABSL_LOCKS_EXCLUDED(mutex_);
  void KeepUndelivered(std::deque<MemberMessage> unsent) ABSL_LOCKS_EXCLUDED(mutex_);

  // Waits for a change or the time; does not wait when something changed since the last call.
  void WaitForChange(absl::Time until) ABSL_LOCKS_EXCLUDED(mutex_);
  void NoteChange() ABSL_LOCKS_EXCLUDED(mutex_);
  void Pause(absl::Duration backoff) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::optional<absl::Time> LeaveBy() const ABSL_LOCKS_EXCLUDED(mutex_);
  void LogLoss(const absl::Status& status);

  const MemberSessionOptions options_;
  MemberListener* const listener_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<Membership::Stub> stub_;
  std::thread thread_;

  // The session's thread alone uses these. The first five are about the present stream.
  bool welcomed_ = false;
  bool closing_ = false;  // The goodbye is said.
  bool overdue_ = false;  // Given up: the welcome did not come in time.
  absl::Time dialled_;
  // When the next heartbeat is due; before the welcome and after the goodbye: when to give up.
  absl::Time due_;
  absl::Duration heartbeat_period_;
  absl::Time next_log_ = absl::InfinitePast();    // Not before then.
  absl::Time next_grace_ = absl::InfinitePast();  // Nor is it put off again before then.

  mutable Mutex mutex_;  // Guards what follows.
  CondVar changed_cond_;
  CondVar ended_;
  bool changed_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<MemberMessage> outbox_ ABSL_GUARDED_BY(mutex_);
  // Set by Leave: when waiting for the coordinator ends.
  absl::optional<absl::Time> leave_by_ ABSL_GUARDED_BY(mutex_);
  absl::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millrace

#endif  // MILLRACE_COMMON_MEMBERSHIP_MEMBER_SESSION_H_
