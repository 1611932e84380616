// What a job's directory of checkpoints keeps, as common/checkpoint promises it.
#ifndef MILLRACE_TESTING_SIMULATION_SIMULATED_CHECKPOINTS_H_
#define MILLRACE_TESTING_SIMULATION_SIMULATED_CHECKPOINTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "protos/checkpoint.pb.h"
#include "protos/parameter_server.pb.h"

namespace millrace::simulation {

// What a shard has written: of each block its arrays.
using ShardFile = std::vector<std::vector<std::vector<float>>>;

// A model of CheckpointDirectory and of what ps servers do there: folders by their numbers, each a
// checkpoint from the moment when its manifest is there. Each call is done wholly or not at all.
class SimulatedCheckpoints {
 public:
  struct Found {
    ShardRestore reference;
    CheckpointManifest manifest;
  };

  // Makes a folder, above all that are there and at least `at_least`. Returns its number.
  uint64_t Begin(uint64_t at_least);
  // All that has no manifest goes, but for the folder that is being filled; 0: there is none.
  void CollectGarbage(uint64_t in_progress);
  // It counts from now on. FAILED_PRECONDITION: the folder, or a file, is not there; or it does.
  absl::Status Commit(CheckpointManifest manifest);
  // What has no manifest goes.
  void GiveUp(uint64_t number);
  // All but the newest `keep` go.
  void RemoveOld(uint32_t keep);

  // Those that count, by number.
  std::vector<CheckpointDirectory::Listed> List() const;
  // REQUIRES: it counts.
  Found Find(uint64_t number) const;
  // The one with the most steps, of several the newest.
  absl::optional<Found> Furthest() const;
  // Whether it counts, and is this one.
  bool Counts(const ShardRestore& checkpoint) const;
  // What has ever counted, for whoever checks; nullptr: that did not.
  const CheckpointManifest* HasCounted(const ShardRestore& checkpoint) const;

  // NOT_FOUND: there is no such folder. ALREADY_EXISTS: the shard's file is there.
  absl::Status Write(uint64_t number, uint32_t shard, ShardFile file);
  struct Read {
    CheckpointShard shard;
    ShardFile file;
  };
  // NOT_FOUND: it does not count, or is another one. DATA_LOSS: it lacks the shard.
  absl::StatusOr<Read> ReadShard(const ShardRestore& checkpoint, uint32_t shard) const;

  static constexpr char kPath[] = "/checkpoints";

 private:
  struct Folder {
    absl::optional<CheckpointManifest> manifest;
    std::map<uint32_t, ShardFile> files;
  };

  std::map<uint64_t, Folder> folders_;
  std::map<std::string, CheckpointManifest> committed_;  // Ever, by their checksums.
};

}  // namespace millrace::simulation

#endif  // MILLRACE_TESTING_SIMULATION_SIMULATED_CHECKPOINTS_H_
