// Which failures are worth another try, and when to make it. One answer for all of Millrace.
#ifndef MILLRACE_COMMON_RETRY_H_
#define MILLRACE_COMMON_RETRY_H_

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace millrace {

// What a server's answer says of another try.
enum class Failure {
  kNone,     // OK.
  kPassing,  // The server cannot now: repeat the request as it is.
  kFull,     // It has no room: repeat the request later, or elsewhere.
  kStale,    // The caller's picture is old (routes, generations, cuts): look again, then ask again.
  kFinal,    // The request is wrong, or what it needs is lost.
};
Failure Classify(absl::StatusCode code);

// kNone, kPassing and kStale: what comes from members that come and go and from shards that move.
// Who has its picture renewed all the time treats them alike.
bool IsTransient(absl::StatusCode code);

// What none of our ps servers ends a call or a stream with: a connection that broke, in some of
// gRPC's words for it; or something else has answered, between us or at the address that was the
// server's (gRPC makes UNAUTHENTICATED, PERMISSION_DENIED and UNIMPLEMENTED of a proxy's 401, 403
// and 404). As good as UNAVAILABLE.
bool IsNoAnswerOfOurs(absl::StatusCode code);

// Whether a stream or call that ended so may do better when it is opened again: the server or the
// network went away, whatever gRPC makes of that. The others say that a server has refused it.
bool IsBrokenConnection(absl::StatusCode code);

// How long to wait before each further try: `first`, and then twice as long each time, up to
// `longest`. A value type.
class Backoff {
 public:
  Backoff(absl::Duration first, absl::Duration longest);

  // The pause before the next try.
  absl::Duration Next();

  // It has gone well: the next pause is the first again.
  void Reset() { next_ = first_; }

 private:
  absl::Duration first_;
  absl::Duration longest_;
  absl::Duration next_;
};

}  // namespace millrace

#endif  // MILLRACE_COMMON_RETRY_H_
