// A ps server with place for one shard, whose processes and data directories come and go.
#ifndef MILLRACE_TESTING_SIMULATION_SIMULATED_PS_H_
#define MILLRACE_TESTING_SIMULATION_SIMULATED_PS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "common/wire/tensor_codec.h"
#include "protos/parameter_server.pb.h"
#include "ps/block/block.h"
#include "ps/dense/shard_root.h"
#include "ps/shard/shard.h"
#include "ps/store/shards_to_come.h"
#include "testing/simulation/oracle.h"
#include "testing/simulation/simulated_checkpoints.h"
#include "testing/simulation/simulated_disk.h"
#include "testing/simulation/world.h"

namespace millrace::simulation {

// Takes what comes of a call.
template <typename Response>
using Answer = std::function<void(absl::StatusOr<Response>)>;

// The shard is the real one; what it computes takes no time. What is around it (ShardStore,
// Flusher) is a model: a call changes the shard first, then the disk writes, and then it is
// answered, all at moments of their own, and a kill may come between any two. A disk that fails
// does so now and then. Who may make a shard, and what is dropped meanwhile, is real too
// (ShardsToCome).
class SimulatedPs {
 public:
  // None is owned. `number`: of the shard that it has place for.
  SimulatedPs(World* world, const Oracle* oracle, SimulatedCheckpoints* checkpoints,
              uint32_t number, std::string name)
      : world_(world),
        oracle_(oracle),
        checkpoints_(checkpoints),
        number_(number),
        name_(std::move(name)) {}
  ~SimulatedPs() { Kill(); }

  bool running() const { return process_ != nullptr; }
  // Of the process; another one for each.
  uint64_t incarnation() const { return incarnation_; }
  const std::string& name() const { return name_; }
  uint32_t number() const { return number_; }
  // Of the data directory.
  std::string directory_id() const;

  // REQUIRES: it does not run.
  void Start(bool with_arena = true);
  void Kill();
  // As SIGTERM does it.
  void Stop();
  // What the machine's memory has is lost. REQUIRES: it does not run.
  void LoseArena() { arena_.reset(); }
  const SimulatedDisk& disk() const { return disk_; }
  void SetDiskFails(bool fails) { disk_fails_ = fails; }
  // The data directory is a copy of earlier. REQUIRES: it does not run.
  void PutDiskBack(const SimulatedDisk& copy);
  // How often that was done.
  int disks() const { return disks_; }
  // It has another data directory from now on: an empty one, or one that it had before, as it was
  // then; `back`: the one that it had last. REQUIRES: it does not run; `back`: it had one before.
  void ReplaceDirectory(bool back = false);

  // Whether what it has of its shard is nobody's any more; asked when that is dropped.
  void SetMayBeDropped(std::function<bool()> may_be) { may_be_dropped_ = std::move(may_be); }

  // How often it came back without something that it may have acknowledged.
  int losses() const { return losses_; }

  // The calls of ParameterServerAdmin. REQUIRES: it runs.
  using Answer = simulation::Answer<ShardStatus>;
  void Create(const CreateShardRequest& request, Answer answer);
  void SetGeneration(const SetGenerationRequest& request, Answer answer);
  void Get(Answer answer);
  void PlanCuts(const PlanCutsRequest& request, Answer answer);
  void StepBack(const StepBackRequest& request, Answer answer);
  void PinCut(uint64_t generation, const std::string& cut_id, Answer answer);
  void UnpinCut(uint64_t generation, const std::string& cut_id, Answer answer);
  void Flush(uint64_t generation, Answer answer);
  void Retire(uint64_t generation, Answer answer);
  void Drop(const DropShardRequest& request, Answer answer);
  // Reads the shard from `source` meanwhile.
  void CopyFrom(const CopyShardRequest& request, SimulatedPs* source, Answer answer);
  void WriteCheckpoint(const WriteCheckpointRequest& request,
                       simulation::Answer<WriteCheckpointResponse> answer);
  void MeasureVersion(const MeasureVersionRequest& request,
                      simulation::Answer<MeasureVersionResponse> answer);
  void ApplyVersion(const ApplyVersionRequest& request,
                    simulation::Answer<ApplyVersionResponse> answer);

  // The data plane. nullptr: it has no shard.
  std::shared_ptr<ps::Shard> shard() const;

 private:
  class Root;
  // Work of one kind, one thing after the other.
  struct Lane {
    absl::Time free = absl::InfinitePast();
  };
  struct Process {
    std::shared_ptr<ps::Shard> shard;
    std::shared_ptr<ps::ShardsToCome> to_come;
    bool writes_checkpoint = false;
    absl::optional<CutName> common;  // See Flusher::SetCommon.
    Lane records;
    Lane cuts;
  };
  using ShardPtr = std::shared_ptr<ps::Shard>;
  // A data directory that the server does not have now.
  struct Drawer {
    uint64_t number = 0;
    SimulatedDisk disk;
  };
  // What another server reads of a shard.
  struct Snapshot {
    ShardSpec spec;
    ps::ShardContents contents;
  };
  // The right to make a shard, which must go before what has given it.
  struct Making {
    std::shared_ptr<ps::ShardsToCome> to_come;
    ps::ShardsToCome::Making right;
  };

  void Do(Lane& lane, std::function<void()> work);
  void Advance(uint64_t generation, Answer answer);
  ps::ShardPlan Plan(const ShardSpec& spec) const { return *ps::PlanShard(spec); }
  ps::ShardsToCome::Key Key() const { return {oracle_->SpecOf(number_).job_id(), number_}; }
  bool synchronous() const { return oracle_->SpecOf(number_).replicas() > 0; }
  ShardPtr MakeShard(const ShardSpec& spec, uint64_t generation, ps::ShardContents contents);
  void Make(const ShardSpec& spec, uint64_t generation, const Making& making, Answer answer);
  void MakeOfCheckpoint(const ShardSpec& spec, uint64_t generation, const Making& making,
                        Answer answer);
  ps::ShardContents ContentsOf(const ps::ShardPlan& plan, const SimulatedCheckpoints::Read& read);
  absl::StatusOr<Snapshot> ReadAt(uint64_t generation, const std::string& directory_id) const;
  absl::StatusOr<ShardPtr> FindCopy(uint64_t generation) const;
  void TakeCopy(const CopyShardRequest& request, const Snapshot& snapshot, const Answer& answer);
  void MakeCopy(const CopyShardRequest& request, const Snapshot& snapshot, const Answer& answer);
  ps::ShardContents ContentsOf(const Snapshot& snapshot);
  void Serve(const ShardPtr& shard);
  void WriteFile(const ShardPtr& shard, const WriteCheckpointRequest& request, uint64_t epoch,
                 const ps::StatePtr& state, simulation::Answer<WriteCheckpointResponse> answer);
  ShardPtr FromArena(const ps::ShardTerm& term);
  ShardPtr FromDisk(const ps::ShardTerm& term, bool whole);
  void CheckState(const ps::ShardState& state);
  void StoreTerm(const ShardPtr& shard, bool retirement, Answer answer);
  void Report(const ShardPtr& shard);
  void FlushNow(const ShardPtr& shard, Answer answer);
  void WriteCut(const ShardPtr& shard, SimulatedCut cut, std::function<void(absl::Status)> done);
  bool DiskFails() { return disk_fails_ && world_->OneIn(3); }
  bool HasRegularCut(uint64_t epoch, uint64_t version) const;
  void KeepCuts();
  void KeepTime();
  absl::Status WriteForStop();

  World* const world_;
  const Oracle* const oracle_;
  SimulatedCheckpoints* const checkpoints_;
  const uint32_t number_;
  const std::string name_;
  ps::BlockPool pool_;  // Whatever outlives a process has blocks of it.
  SimulatedDisk disk_;
  uint64_t directory_ = 1;
  uint64_t directories_ = 1;  // How many there were.
  std::vector<Drawer> drawers_;
  int disks_ = 0;
  bool disk_fails_ = false;
  absl::optional<ps::RootContents> arena_;
  bool has_arena_ = true;
  int losses_ = 0;
  uint64_t incarnation_ = 0;
  std::function<bool()> may_be_dropped_;
  std::shared_ptr<Process> process_;
};

}  // namespace millrace::simulation

#endif  // MILLRACE_TESTING_SIMULATION_SIMULATED_PS_H_
