// One ParameterServer.Pull stream.
#ifndef MILLRACE_PS_SERVICE_PULL_STREAM_H_
#define MILLRACE_PS_SERVICE_PULL_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "common/net/server_stream.h"
#include "protos/parameter_server.pb.h"
#include "ps/service/deadline_queue.h"
#include "ps/service/pull_pieces.h"
#include "ps/shard/held_states.h"
#include "ps/shard/shard.h"
#include "ps/shard/shard_map.h"

namespace millrace::ps {

// Serves one request after the other: finds its state, waiting without a thread where it must, and
// sends references to the state's blocks, a message at a time.
class PullStream final : public ServerStream {
 public:
  // `context`: the call's. The others must outlive it.
  PullStream(grpc::CallbackServerContext* context, const ShardMap* shards, DeadlineQueue* deadlines,
             Clock* clock)
      : context_(context), shards_(shards), deadlines_(deadlines), clock_(clock) {}

 private:
  // A request that waits for its version.
  struct Wait {
    std::shared_ptr<Shard> shard;
    uint64_t waiter = 0;
    DeadlineQueue::Key deadline;
  };

  void OnMessage(const grpc::ByteBuffer& message) override;
  void OnLastMessage() override;
  void OnIdle() override;
  void OnEnding() override;
  void OnEnded() override;

  // Sets wanted_. INVALID_ARGUMENT: see PullRequest.rows.
  absl::Status FindWanted(const ShardPlan& plan);
  void Serve(const std::shared_ptr<Shard>& shard) ABSL_LOCKS_EXCLUDED(mutex_);
  void Begin(const std::shared_ptr<Shard>& shard, absl::StatusOr<StatePtr> state)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Refuse(const absl::Status& status);
  void SendNext() ABSL_LOCKS_EXCLUDED(mutex_);
  void SendWatched(grpc::ByteBuffer&& message) ABSL_LOCKS_EXCLUDED(mutex_);
  // Until when the message that is being written, and all of them, must be read.
  absl::Time ReadBy() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Lets go of the state where the client has not read for too long, and then of the client.
  void CheckProgress() ABSL_LOCKS_EXCLUDED(mutex_);
  void CheckProgressAt(absl::Time when) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  grpc::CallbackServerContext* const context_;  // There until OnEnded.
  const ShardMap* const shards_;
  DeadlineQueue* const deadlines_;
  Clock* const clock_;

  // The request that is served; see the .cc file for why no lock guards all this.
  PullRequest request_;
  WantedBySlice wanted_;
  std::shared_ptr<Shard> shard_;  // nullptr: there is nothing more to send.
  std::shared_ptr<StateHold> state_;
  size_t next_block_ = 0;
  size_t end_block_ = 0;

  Mutex mutex_;
  uint64_t requests_ ABSL_GUARDED_BY(mutex_) = 0;  // That came.
  uint64_t found_ ABSL_GUARDED_BY(mutex_) = 0;     // That have found their state, or an error.
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;    // Or ended.
  bool sending_ ABSL_GUARDED_BY(mutex_) = false;   // A message is being written,
  absl::Time sent_ ABSL_GUARDED_BY(mutex_);        // since then;
  absl::Time read_all_by_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  bool watched_ ABSL_GUARDED_BY(mutex_) = false;  // CheckProgress is to be called:
  DeadlineQueue::Key progress_check_ ABSL_GUARDED_BY(mutex_);
  bool gave_up_ ABSL_GUARDED_BY(mutex_) = false;  // It has let go of the state.
  absl::optional<Wait> wait_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_SERVICE_PULL_STREAM_H_
