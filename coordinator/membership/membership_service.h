// The Membership service: a stream for each member, between the wire and the registry.
#ifndef MILLRACE_COORDINATOR_MEMBERSHIP_MEMBERSHIP_SERVICE_H_
#define MILLRACE_COORDINATOR_MEMBERSHIP_MEMBERSHIP_SERVICE_H_

#include <memory>
#include <thread>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "common/net/server_stream.h"
#include "coordinator/membership/member_registry.h"
#include "protos/cluster.grpc.pb.h"

namespace millrace::coordinator {

class MemberStream;

// Thread-safe.
class MembershipService final : public Membership::WithRawCallbackMethod_Join<Membership::Service> {
 public:
  // A thread expires silent members, and streams that do not register. `registry` is not owned.
  MembershipService(MemberRegistry* registry, Clock* clock);
  ~MembershipService() override;

  // Ends all streams with UNAVAILABLE, now and later, and the registry with them. Does not wait for
  // the streams: the server's shutdown does.
  void Shutdown() ABSL_LOCKS_EXCLUDED(mutex_);

  // Called by a stream that has registered or ended.
  void NoLongerUnregistered(const std::shared_ptr<MemberStream>& stream)
      ABSL_LOCKS_EXCLUDED(mutex_);

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Join(
      grpc::CallbackServerContext* context) override;

 private:
  void ExpireInLoop() ABSL_LOCKS_EXCLUDED(mutex_);
  void CloseUnregistered(absl::Time opened_before) ABSL_LOCKS_EXCLUDED(mutex_);

  MemberRegistry* const registry_;
  Clock* const clock_;
  StreamRegistry streams_{absl::UnavailableError("the coordinator stops")};

  Mutex mutex_;
  CondVar stopped_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::flat_hash_set<std::shared_ptr<MemberStream>> unregistered_ ABSL_GUARDED_BY(mutex_);
  std::thread expiry_thread_;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_MEMBERSHIP_MEMBERSHIP_SERVICE_H_
