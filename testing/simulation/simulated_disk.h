// What a ps server's data directory keeps of a shard, as ps/cut promises it.
#ifndef MILLRACE_TESTING_SIMULATION_SIMULATED_DISK_H_
#define MILLRACE_TESTING_SIMULATION_SIMULATED_DISK_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "protos/parameter_server.pb.h"
#include "ps/dense/shard_contents.h"
#include "ps/shard/shard.h"

namespace millrace::simulation {

struct SimulatedCut {
  uint64_t number = 0;
  uint64_t epoch = 0;
  ps::StatePtr state;
  std::vector<ps::PushPtr> held = {};
  bool of_stop = false;
};

// A model of CutStore that can be read at a glance: what its header says, in memory. Each call is
// done wholly or not at all; a kill comes between two. Copied, it is a backup of the directory.
class SimulatedDisk {
 public:
  bool has_shard() const { return has_shard_; }
  const ShardSpec& spec() const { return spec_; }
  const ps::ShardTerm& term() const { return term_; }

  // See CutStore::WriteRecord, CommitCut, CommitFirstCut, Prune and DropShard.
  void WriteRecord(const ShardSpec& spec, const ps::ShardTerm& term);
  uint64_t BeginCut() { return next_number_++; }  // Its number.
  absl::Status CommitCut(SimulatedCut cut);
  void CommitFirstCut(const ShardSpec& spec, const ps::ShardTerm& term, SimulatedCut cut);
  void DropShard();
  void Prune(bool synchronous, const absl::optional<CutName>& common, uint64_t stops_before = 0);

  // The newest cut, and the version before where there is one; no state: the initial values, or of
  // a shard that was made from a checkpoint nothing.
  ps::ShardContents ReadShard() const;
  // Nothing: the initial values, which are no cut of a shard that was made from a checkpoint.
  absl::StatusOr<absl::optional<ps::StatePtr>> ReadCut(const CutName& cut) const;

  // The oldest first, without those of stops.
  std::vector<CutName> Names() const;
  bool Has(uint64_t epoch, uint64_t version) const;
  uint64_t NewestVersion() const;
  uint64_t NextNumber() const { return next_number_; }

  void MarkStopped() { stopped_ = true; }
  bool TakeStopMark() { return std::exchange(stopped_, false); }

 private:
  // Sorted: greater for the later one.
  std::vector<const SimulatedCut*> Sorted() const;

  bool HasInitialValues() const;

  bool has_shard_ = false;
  ShardSpec spec_;
  ps::ShardTerm term_;
  std::vector<SimulatedCut> cuts_;
  uint64_t next_number_ = 1;
  bool stopped_ = false;
};

}  // namespace millrace::simulation

#endif  // MILLRACE_TESTING_SIMULATION_SIMULATED_DISK_H_
