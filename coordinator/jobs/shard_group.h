// The shards of one job, and the calls to the ps servers that hold them.
#ifndef MILLRACE_COORDINATOR_JOBS_SHARD_GROUP_H_
#define MILLRACE_COORDINATOR_JOBS_SHARD_GROUP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "coordinator/journal/job_record.pb.h"
#include "coordinator/membership/member_registry.h"
#include "grpcpp/client_context.h"
#include "protos/job.pb.h"
#include "protos/parameter_server.grpc.pb.h"

namespace millrace::coordinator {

// Used by one thread, but for Cancel. Calls go to the shards one after the other and block, each
// with a deadline of its own; the first error ends them, with the server and the shard in its
// message.
class ShardGroup {
 public:
  // REQUIRES: `record` has shards. `registry` is not owned.
  ShardGroup(const JobRecord& record, const MemberRegistry* registry);
  ~ShardGroup();

  // Finds the servers that hold the shards now; calls go to these. Returns those that are not
  // there, as a person would name them: "ps-1 (127.0.0.1:2223), gone"; empty: all are there.
  std::string Locate();

  // Whether Locate found a server of the old name or address that serves another directory: what
  // was in the old one may be lost.
  bool lost_directory() const { return lost_directory_; }

  // The server of the last call that failed: "ps-1 (127.0.0.1:2223)".
  const std::string& failed_server() const { return failed_server_; }

  // Whether a server has left, or left and come back, since Locate.
  bool Moved() const;

  // The shards' records with the servers of the last Locate.
  const std::vector<ShardPlacement>& placements() const { return placements_; }
  Routing RoutingAt(uint64_t generation) const;

  // The calls of ParameterServerAdmin, for every shard.
  absl::StatusOr<std::vector<ShardStatus>> Create(uint64_t generation);
  absl::StatusOr<std::vector<ShardStatus>> SetGeneration(uint64_t generation);
  absl::Status PinCut(uint64_t generation, const std::string& cut_id);
  absl::Status FlushCut();
  // These call the servers that are there, go on after an error, and return the first.
  // SetGeneration of a job that has ended.
  absl::Status Fence(uint64_t generation);
  absl::Status UnpinCut(const std::string& cut_id);
  // Marks in placements() what is dropped, and leaves out what was.
  absl::Status Drop();

  // From any thread: ends the call under way, and later ones until Resume, with CANCELLED.
  void Cancel() ABSL_LOCKS_EXCLUDED(mutex_);
  void Resume() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Server {
    uint64_t member = 0;  // 0: not there.
    std::string address;
    std::unique_ptr<ParameterServerAdmin::Stub> stub;
  };
  using Call = std::function<grpc::Status(uint32_t shard, ParameterServerAdmin::Stub&,
                                          grpc::ClientContext*)>;

  absl::Status ForEach(const char* what, absl::Duration timeout, const Call& call)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status ForThoseThere(const char* what, absl::Duration timeout, const Call& call)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status ForOne(uint32_t shard, const char* what, absl::Duration timeout, const Call& call)
      ABSL_LOCKS_EXCLUDED(mutex_);
  bool Begin(grpc::ClientContext* context) ABSL_LOCKS_EXCLUDED(mutex_);
  void End() ABSL_LOCKS_EXCLUDED(mutex_);
  ShardSpec SpecOf(uint32_t shard) const;
  std::string DescribeMissing(const ShardPlacement& placement);

  const std::string job_id_;
  const JobSpec spec_;
  const JobPlan plan_;
  const uint64_t total_steps_;
  const MemberRegistry* const registry_;
  std::vector<ShardPlacement> placements_;
  std::vector<Server> servers_;  // By shard.
  std::string failed_server_;
  bool lost_directory_ = false;

  Mutex mutex_;
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mutex_) = nullptr;  // Of the call under way.
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_JOBS_SHARD_GROUP_H_
