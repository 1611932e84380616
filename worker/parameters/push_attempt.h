// One attempt to push one step to one shard: everything sent under one push_id.
#ifndef MILLRACE_WORKER_PARAMETERS_PUSH_ATTEMPT_H_
#define MILLRACE_WORKER_PARAMETERS_PUSH_ATTEMPT_H_

#include <memory>

#include "absl/types/span.h"
#include "common/wire/tensor_codec.h"
#include "protos/parameter_server.pb.h"
#include "worker/parameters/attempt.h"

namespace millrace::worker {

// When it is closed unsettled, all streams that carried a part are to be broken: were only one of
// them, parts that arrive later on the others would stay at the server until those end.
class PushAttempt final : public StreamAttempt<PushAnswer> {
 public:
  // `header`: all but the pieces.
  PushAttempt(PushRequest header, ServerConnections* connections, std::shared_ptr<Monitor> monitor,
              Clock* clock);

  // Sends pieces in as many messages as it takes, spread over the connections. No pieces: one
  // message, which is a whole push to a shard that is frozen altogether.
  void Send(absl::Span<const OutgoingPiece> pieces) ABSL_LOCKS_EXCLUDED(monitor_->mutex);

  // The push contained pieces with rows and was refused as what a server refuses that does not know
  // them; it is to be made again without.
  bool refused_with_rows() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(monitor_->mutex) {
    return refused_with_rows_;
  }

 private:
  void OnAnswer(PushAnswer answer) override ABSL_LOCKS_EXCLUDED(monitor_->mutex);

  const PushRequest header_;
  bool with_rows_ ABSL_GUARDED_BY(monitor_->mutex) = false;
  bool refused_with_rows_ ABSL_GUARDED_BY(monitor_->mutex) = false;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_PARAMETERS_PUSH_ATTEMPT_H_
