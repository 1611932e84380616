// A ps server with one shard, whose processes come and go.
#ifndef MILLRACE_TESTING_SIMULATION_SIMULATED_PS_H_
#define MILLRACE_TESTING_SIMULATION_SIMULATED_PS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "common/wire/tensor_codec.h"
#include "protos/parameter_server.pb.h"
#include "ps/block/block.h"
#include "ps/dense/shard_root.h"
#include "ps/shard/shard.h"
#include "testing/simulation/oracle.h"
#include "testing/simulation/simulated_disk.h"
#include "testing/simulation/world.h"

namespace millrace::simulation {

// Takes what comes of a call.
template <typename Response>
using Answer = std::function<void(absl::StatusOr<Response>)>;

// The shard is the real one; what it computes takes no time. What is around it (ShardStore,
// Flusher) is a model: a call changes the shard first, then the disk writes, and then it is
// answered, all at moments of their own, and a kill may come between any two. A disk that fails
// does so now and then.
class SimulatedPs {
 public:
  // None is owned.
  SimulatedPs(World* world, const Oracle* oracle, uint32_t number)
      : world_(world), oracle_(oracle), number_(number) {}
  ~SimulatedPs() { Kill(); }

  bool running() const { return process_ != nullptr; }
  // Of the process; another one for each.
  uint64_t incarnation() const { return incarnation_; }
  std::string name() const;

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

  // How often it came back without something that it may have acknowledged.
  int losses() const { return losses_; }

  // The calls of ParameterServerAdmin. REQUIRES: it runs.
  using Answer = simulation::Answer<ShardStatus>;
  void Create(uint64_t generation, Answer answer);
  void SetGeneration(uint64_t generation, Answer answer);
  void Get(Answer answer);
  void PlanCuts(const PlanCutsRequest& request, Answer answer);
  void StepBack(const StepBackRequest& request, Answer answer);
  void PinCut(uint64_t generation, const std::string& cut_id, Answer answer);
  void UnpinCut(uint64_t generation, const std::string& cut_id, Answer answer);
  void Flush(uint64_t generation, Answer answer);
  void Retire(uint64_t generation, Answer answer);
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
    absl::optional<CutName> common;  // See Flusher::SetCommon.
    Lane records;
    Lane cuts;
  };
  using ShardPtr = std::shared_ptr<ps::Shard>;

  void Do(Lane& lane, std::function<void()> work);
  ps::ShardPlan Plan() const { return *ps::PlanShard(oracle_->SpecOf(number_)); }
  bool synchronous() const { return oracle_->SpecOf(number_).replicas() > 0; }
  ShardPtr MakeShard(uint64_t generation, ps::ShardContents contents);
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
  const uint32_t number_;
  ps::BlockPool pool_;  // Whatever outlives a process has blocks of it.
  SimulatedDisk disk_;
  int disks_ = 0;
  bool disk_fails_ = false;
  absl::optional<ps::RootContents> arena_;
  bool has_arena_ = true;
  int losses_ = 0;
  uint64_t incarnation_ = 0;
  std::shared_ptr<Process> process_;
};

}  // namespace millrace::simulation

#endif  // MILLRACE_TESTING_SIMULATION_SIMULATED_PS_H_
