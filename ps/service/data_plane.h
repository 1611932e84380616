// The ParameterServer service.
#ifndef MILLRACE_PS_SERVICE_DATA_PLANE_H_
#define MILLRACE_PS_SERVICE_DATA_PLANE_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/memory_trimmer.h"
#include "common/net/server_stream.h"
#include "grpcpp/support/byte_buffer.h"
#include "protos/parameter_server.grpc.pb.h"
#include "ps/service/deadline_queue.h"
#include "ps/store/shard_store.h"

namespace millrace::ps {

// The callback API over unparsed messages. Thread-safe.
class DataPlane final : public ParameterServer::WithRawCallbackMethod_Push<
                            ParameterServer::WithRawCallbackMethod_Pull<ParameterServer::Service>> {
 public:
  // Both must outlive it. Once a second it has all shards look for what is overdue, and the store
  // and the process for memory that they need not keep. REQUIRES: the server is shut down before it
  // is destroyed.
  DataPlane(ShardStore* store, Clock* clock);

  // Ends all streams with UNAVAILABLE, now and from now on. Does not wait for them.
  void Stop() { streams_.Stop(); }

  // Returns when nothing of it works on a shard any more. REQUIRES: the server is shut down.
  void Finish() { deadlines_.Stop(); }

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Push(
      grpc::CallbackServerContext* context) override;
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Pull(
      grpc::CallbackServerContext* context) override;

 private:
  void SweepAt(absl::Time when);
  void Sweep();

  ShardStore* const store_;
  Clock* const clock_;
  MemoryTrimmer trimmer_;  // Only sweeps use it.
  StreamRegistry streams_{
      absl::UnavailableError("the ps server stops; open a new stream when it is back")};
  std::atomic<uint64_t> last_stream_id_ = 0;
  DeadlineQueue deadlines_;
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_SERVICE_DATA_PLANE_H_
