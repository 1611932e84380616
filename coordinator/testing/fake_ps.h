// A ps server without variables: it keeps books of steps and cuts. It loses what the real one loses
// without an arena.
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
  explicit FakePs(const std::string& name) : name_(name) { ReplaceDisk(); }
  ~FakePs() override { Kill(); }

  // Serves on a free port, with what was flushed; and joins the coordinator at `coordinator`.
  void Serve();
  void Start(const std::string& coordinator);
  // Joins another life of the coordinator.
  void Join(const std::string& coordinator);
  // Like kill -9: what was not flushed is lost.
  void Kill();
  // The same, and it is back on its port before anybody has noticed.
  void Crash();
  // Loses the database as well.
  void Wipe();
  // The same, and is another directory to the coordinator.
  void ReplaceDisk();
  // Shards that were flushed cannot be read in the next life: calls to them are answered with
  // DATA_LOSS until they are dropped.
  void DamageDisk();
  // What its "database" holds now; and what it holds from then on, in the same directory. PutDisk
  // REQUIRES: it does not serve.
  struct Disk;
  std::shared_ptr<const Disk> CopyDisk() const;
  void PutDisk(const Disk& disk);
  // Its directory becomes that of `other`, whose own one is lost; it has an empty one. REQUIRES:
  // neither serves.
  void MoveDiskTo(FakePs& other);

  const std::string& name() const { return name_; }
  std::string address() const;
  // What it tells the coordinator instead of its address when it joins.
  void set_advertise(const std::string& address) { advertise_ = address; }
  const std::string& directory_id() const { return directory_id_; }

  // Tells the coordinator that it is about to stop; and waits until it may.
  void Drain();
  void AwaitMayLeave();

  // What a push does. Statuses as in the .proto.
  absl::Status Push(const std::string& job_id, uint32_t shard, uint64_t generation, uint64_t step);

  // Writes the state of all shards to the "database".
  void FlushAll();
  // Whether steps are flushed as they are applied. Off at first.
  void set_flush_always(bool flush_always);

  // Synchronous shards have no cut any more that they could step back to.
  void LoseCuts();

  // Whether the cuts that PlanCuts asks for are taken. On at first.
  void set_takes_planned_cuts(bool takes);
  // The last contribution of a version is held, and applied when this is turned off. Off at first.
  void set_slow_versions(bool slow);
  // What ShardStatus.trouble says.
  void set_trouble(const std::string& trouble);
  // A step that its shards say they have, above all others, although they do not.
  void set_says_step(absl::optional<uint64_t> step);

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

  // Waits until PlanCuts has asked a shard of the job for a cut at this version.
  void AwaitAskedForCut(const std::string& job_id, uint64_t version);
  // Waits until no shard of the job is there.
  void AwaitDropped(const std::string& job_id);
  // Waits until this shard of the job is there and open.
  void AwaitOpen(const std::string& job_id, uint32_t shard);
  // Waits until a shard of the job is retired.
  void AwaitRetired(const std::string& job_id);
  // Calls of DropShard, in all lives.
  int drops() const;

  // Runs when a call comes, before it does anything, and may block. Errors are the call's answer.
  // REQUIRES: no call under way.
  void set_on_create(std::function<grpc::Status(const std::string& job_id)> on_create) {
    on_create_ = std::move(on_create);
  }
  // The same for a shard that is made from a checkpoint.
  void set_on_restore(std::function<absl::Status(const ShardSpec& spec)> on_restore) {
    on_restore_ = std::move(on_restore);
  }
  void set_on_drop(std::function<grpc::Status()> on_drop) { on_drop_ = std::move(on_drop); }
  void set_on_pin(std::function<grpc::Status()> on_pin) { on_pin_ = std::move(on_pin); }
  void set_on_unpin(std::function<grpc::Status()> on_unpin) { on_unpin_ = std::move(on_unpin); }
  void set_on_get(std::function<grpc::Status()> on_get) { on_get_ = std::move(on_get); }
  // Of SetGeneration.
  void set_on_generation(std::function<grpc::Status()> on_generation) {
    on_generation_ = std::move(on_generation);
  }
  void set_on_step_back(std::function<grpc::Status()> on_step_back) {
    on_step_back_ = std::move(on_step_back);
  }
  // Of CopyShard, to this server.
  void set_on_copy(std::function<grpc::Status()> on_copy) { on_copy_ = std::move(on_copy); }
  void set_on_flush(std::function<grpc::Status()> on_flush) { on_flush_ = std::move(on_flush); }
  // Of MeasureVersion and ApplyVersion, for the version.
  using OnVersion = std::function<grpc::Status(uint64_t version)>;
  void set_on_measure(OnVersion on_measure) { on_measure_ = std::move(on_measure); }
  void set_on_apply(OnVersion on_apply) { on_apply_ = std::move(on_apply); }
  // With which norms a shard has made its versions, by version, in all lives; one that was made
  // twice is there twice.
  std::vector<std::pair<uint64_t, double>> Norms(const std::string& job_id, uint32_t shard) const;
  // Of WriteCheckpoint; may look at the context to see whether the call is cancelled.
  void set_on_write(std::function<grpc::Status(grpc::ServerContext* context)> on_write) {
    on_write_ = std::move(on_write);
  }

  grpc::Status CreateShard(grpc::ServerContext*, const CreateShardRequest* request,
                           ShardStatus* response) override;
  grpc::Status GetShard(grpc::ServerContext*, const GetShardRequest* request,
                        ShardStatus* response) override;
  grpc::Status SetGeneration(grpc::ServerContext*, const SetGenerationRequest* request,
                             ShardStatus* response) override;
  grpc::Status PlanCuts(grpc::ServerContext*, const PlanCutsRequest* request,
                        ShardStatus* response) override;
  grpc::Status StepBack(grpc::ServerContext*, const StepBackRequest* request,
                        ShardStatus* response) override;
  grpc::Status PinCut(grpc::ServerContext*, const PinCutRequest* request,
                      ShardStatus* response) override;
  grpc::Status UnpinCut(grpc::ServerContext*, const UnpinCutRequest* request,
                        UnpinCutResponse* response) override;
  grpc::Status FlushCut(grpc::ServerContext*, const FlushCutRequest* request,
                        ShardStatus* response) override;
  grpc::Status WriteCheckpoint(grpc::ServerContext* context, const WriteCheckpointRequest* request,
                               WriteCheckpointResponse* response) override;
  grpc::Status RetireShard(grpc::ServerContext*, const RetireShardRequest* request,
                           ShardStatus* response) override;
  grpc::Status DropShard(grpc::ServerContext*, const DropShardRequest* request,
                         DropShardResponse* response) override;
  // Each shard's part of a gradient's squares is 1.
  grpc::Status MeasureVersion(grpc::ServerContext*, const MeasureVersionRequest* request,
                              MeasureVersionResponse* response) override;
  grpc::Status ApplyVersion(grpc::ServerContext*, const ApplyVersionRequest* request,
                            ApplyVersionResponse* response) override;
  grpc::Status CopyShard(grpc::ServerContext*, const CopyShardRequest* request,
                         ShardStatus* response) override;
  grpc::Status ReadShard(grpc::ServerContext*, const ReadShardRequest* request,
                         grpc::ServerWriter<ReadShardResponse>* writer) override;

 private:
  struct Pin {
    uint64_t steps = 0;
    ShardStatus status;
  };
  struct Shard {
    ShardSpec spec;
    uint64_t generation = 0;
    uint64_t version = 0;
    AppliedSet applied;
    AppliedSet held;  // Contributions of the version under way; their numbers are steps.
    std::map<std::string, Pin> pins;  // By cut.
    ShardStatus::Origin origin = ShardStatus::CREATED;
    bool closed = false;
    bool has_previous = false;
    double norm = 0;  // That the newest version was made with.
    uint64_t flushed_version = 0;
    uint64_t epoch = 0;
    uint64_t every_versions = 0;
    uint64_t also_at = 0;
    absl::Duration load;
    bool retired = false;
    bool damaged = false;
  };
  using Name = std::pair<uint64_t, uint64_t>;  // Of a cut: epoch and version.
  using Key = std::pair<std::string, uint32_t>;

  ShardStatus StatusOf(const Key& key, const Shard& shard) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  void Apply(const Key& key, uint64_t step, Shard& shard) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Applies what is held, where that is a whole version.
  void Publish(const Key& key, Shard& shard) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The same without asking for a norm. REQUIRES: it is a whole version.
  void Make(const Key& key, Shard& shard) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static bool HoldsVersion(const Shard& shard);
  // As a worker does that pulls before it pushes: while the shard is at this generation, just
  // before the version of `step`, and waits for a norm.
  void AwaitVersionOf(const Key& key, uint64_t generation, uint64_t step)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What both calls check. FAILED_PRECONDITION.
  template <typename Request>
  grpc::Status FindVersion(const Request& request, Shard** found)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // UNAVAILABLE: the request is for another server.
  template <typename Request>
  grpc::Status CheckDirectory(const Request& request) const;
  // NOT_FOUND.
  template <typename Request>
  grpc::Status Find(const Request& request, Shard** found) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The same, and FAILED_PRECONDITION where the shard is not at the request's generation.
  template <typename Request>
  grpc::Status FindAt(const Request& request, Shard** found) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The same, and where it is closed.
  template <typename Request>
  grpc::Status FindOpen(const Request& request, Shard** found)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The state of a shard on the server that a copy is from.
  static grpc::Status ReadSnapshot(const CopyShardRequest& request, ShardSnapshot* snapshot);
  // What SetGeneration does.
  grpc::Status Advance(const Key& key, uint64_t generation, Shard& shard)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Writes what a cut holds to the "database".
  void Flush(const Key& key, Shard& shard) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The state that a checkpoint is to be of. NOT_FOUND.
  grpc::Status FindState(const WriteCheckpointRequest& request, const Key& key, const Shard& shard,
                         ShardStatus* state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives a new shard what its checkpoint says of steps.
  static absl::Status Restore(Shard& shard);
  // What a killed server comes back with.
  static Shard Reopen(const Shard& flushed);

  const std::string name_;
  uint64_t incarnation_ = 0;
  int disks_ = 0;
  std::string directory_id_;
  std::string advertise_;
  std::function<grpc::Status(const std::string& job_id)> on_create_;
  std::function<absl::Status(const ShardSpec& spec)> on_restore_;
  std::function<grpc::Status()> on_drop_;
  std::function<grpc::Status()> on_pin_;
  std::function<grpc::Status()> on_unpin_;
  std::function<grpc::Status()> on_get_;
  std::function<grpc::Status()> on_generation_;
  std::function<grpc::Status()> on_step_back_;
  std::function<grpc::Status()> on_copy_;
  std::function<grpc::Status()> on_flush_;
  std::function<grpc::Status(grpc::ServerContext* context)> on_write_;
  OnVersion on_measure_;
  OnVersion on_apply_;
  std::unique_ptr<RpcServer> server_;
  std::unique_ptr<MemberConnection> connection_;

  mutable Mutex mutex_;
  // Or open, retired, asked for a cut, allowed to leave, or at another version.
  CondVar dropped_;
  std::map<Key, std::vector<std::pair<uint64_t, double>>> norms_ ABSL_GUARDED_BY(mutex_);
  bool may_leave_ ABSL_GUARDED_BY(mutex_) = false;
  std::string address_ ABSL_GUARDED_BY(mutex_);
  std::map<Key, Shard> shards_ ABSL_GUARDED_BY(mutex_);
  std::map<Key, Shard> flushed_ ABSL_GUARDED_BY(mutex_);
  std::map<Key, std::map<Name, Shard>> cuts_ ABSL_GUARDED_BY(mutex_);  // Synchronous.
  bool takes_planned_cuts_ ABSL_GUARDED_BY(mutex_) = true;
  bool slow_versions_ ABSL_GUARDED_BY(mutex_) = false;
  std::string trouble_ ABSL_GUARDED_BY(mutex_);
  absl::optional<uint64_t> says_step_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> applied_in_this_life_ ABSL_GUARDED_BY(mutex_);
  bool flush_always_ ABSL_GUARDED_BY(mutex_) = false;
  int flushes_ ABSL_GUARDED_BY(mutex_) = 0;
  int drops_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_TESTING_FAKE_PS_H_
