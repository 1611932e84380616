// A ps server without variables: it keeps books of steps and cuts.
#ifndef MILLRACE_COORDINATOR_TESTING_FAKE_PS_H_
#define MILLRACE_COORDINATOR_TESTING_FAKE_PS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "common/applied_set.h"
#include "common/mutex.h"
#include "common/net/server.h"
#include "coordinator/testing/member_connection.h"
#include "protos/parameter_server.grpc.pb.h"

namespace millrace::coordinator {

// Fake workers push to it by a call. Thread-safe but for Start and Kill.
class FakePs final : public ParameterServerAdmin::Service {
 public:
  explicit FakePs(const std::string& name) : name_(name) {}
  ~FakePs() override { Kill(); }

  // Serves on a free port and joins the coordinator at `coordinator`, with what was flushed.
  void Start(const std::string& coordinator);
  // Joins another life of the coordinator.
  void Join(const std::string& coordinator);
  // Like kill -9: what was not flushed is lost.
  void Kill();
  // Loses the database as well.
  void Wipe();
  // The same, and is another directory to the coordinator.
  void ReplaceDisk();

  std::string address() const;

  // What a push does. Statuses as in the .proto.
  absl::Status Push(const std::string& job_id, uint32_t shard, uint64_t generation, uint64_t step);

  // Writes the state of all shards to the "database".
  void FlushAll();
  // Whether steps are flushed as they are applied. Off at first.
  void set_flush_always(bool flush_always);

  // The shards of a job, in order.
  std::vector<ShardStatus> Shards(const std::string& job_id) const;
  // The spec that a shard was made with.
  absl::optional<ShardSpec> SpecOf(const std::string& job_id, uint32_t shard) const;
  // Steps that were applied in this life, on any shard, in their order.
  std::vector<uint64_t> AppliedInThisLife() const;
  // Steps that the pinned cut of a shard holds; none where it is not pinned.
  absl::optional<uint64_t> PinnedSteps(const std::string& job_id, uint32_t shard,
                                       const std::string& cut_id) const;
  int flushes() const;

  // Waits until no shard of the job is there.
  void AwaitDropped(const std::string& job_id);
  // Calls of DropShard, in all lives.
  int drops() const;

  // Runs when a call comes, before it does anything, and may block. Errors are the call's answer.
  // REQUIRES: no call under way.
  void set_on_create(std::function<grpc::Status()> on_create) { on_create_ = std::move(on_create); }
  void set_on_drop(std::function<grpc::Status()> on_drop) { on_drop_ = std::move(on_drop); }

  grpc::Status CreateShard(grpc::ServerContext*, const CreateShardRequest* request,
                           ShardStatus* response) override;
  grpc::Status GetShard(grpc::ServerContext*, const GetShardRequest* request,
                        ShardStatus* response) override;
  grpc::Status SetGeneration(grpc::ServerContext*, const SetGenerationRequest* request,
                             ShardStatus* response) override;
  grpc::Status PinCut(grpc::ServerContext*, const PinCutRequest* request,
                      ShardStatus* response) override;
  grpc::Status UnpinCut(grpc::ServerContext*, const UnpinCutRequest* request,
                        UnpinCutResponse* response) override;
  grpc::Status FlushCut(grpc::ServerContext*, const FlushCutRequest* request,
                        ShardStatus* response) override;
  grpc::Status DropShard(grpc::ServerContext*, const DropShardRequest* request,
                         DropShardResponse* response) override;

 private:
  struct Shard {
    ShardSpec spec;
    uint64_t generation = 0;
    uint64_t version = 0;
    AppliedSet applied;
    AppliedSet held;  // Contributions of the version under way; their numbers are steps.
    std::map<std::string, uint64_t> pins;  // Steps, by cut.
  };
  using Key = std::pair<std::string, uint32_t>;

  static ShardStatus StatusOf(const Key& key, const Shard& shard);
  static void Apply(uint64_t step, Shard& shard);
  grpc::Status Find(const std::string& job_id, uint32_t shard, ShardStatus* response, Shard** found)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string name_;
  uint64_t incarnation_ = 0;
  int disk_ = 1;
  std::function<grpc::Status()> on_create_;
  std::function<grpc::Status()> on_drop_;
  std::unique_ptr<RpcServer> server_;
  std::unique_ptr<MemberConnection> connection_;

  mutable Mutex mutex_;
  CondVar dropped_;
  std::string address_ ABSL_GUARDED_BY(mutex_);
  std::map<Key, Shard> shards_ ABSL_GUARDED_BY(mutex_);
  std::map<Key, Shard> flushed_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> applied_in_this_life_ ABSL_GUARDED_BY(mutex_);
  bool flush_always_ ABSL_GUARDED_BY(mutex_) = false;
  int flushes_ ABSL_GUARDED_BY(mutex_) = 0;
  int drops_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_TESTING_FAKE_PS_H_
