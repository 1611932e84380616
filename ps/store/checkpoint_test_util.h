// What tests of checkpoints share: a job's variables in any number of shards, and whole checkpoints
// of them.
#ifndef MILLRACE_PS_STORE_CHECKPOINT_TEST_UTIL_H_
#define MILLRACE_PS_STORE_CHECKPOINT_TEST_UTIL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "protos/job.pb.h"
#include "protos/parameter_server.pb.h"
#include "ps/dense/shard_state.h"
#include "ps/store/shard_store.h"

namespace millrace::testing {

// Job "job", whose variables are in `shards` of it in order, as equal as possible.
class TestJob {
 public:
  TestJob(std::vector<uint64_t> lengths, OptimizerSpec optimizer, uint32_t replicas = 0);

  uint64_t elements() const;
  std::vector<ShardSpec> Shards(int shards) const;

  // The same, made from a checkpoint.
  static std::vector<ShardSpec> Restored(std::vector<ShardSpec> shards,
                                         const std::string& directory, uint64_t checkpoint);

  // Commits checkpoint `number`, whose folder is there.
  void Commit(const std::string& directory, uint64_t number,
              const std::vector<CheckpointShard>& shards) const;

 private:
  const std::vector<uint64_t> lengths_;
  const OptimizerSpec optimizer_;
  const uint32_t replicas_;
};

// The folder of the next checkpoint in the directory, both made.
uint64_t BeginCheckpoint(const std::string& directory);

// Of a shard of job "job" at generation 1, of its newest state.
WriteCheckpointRequest MakeCheckpointRequest(uint32_t shard, const std::string& directory,
                                             uint64_t number);

// Writes a checkpoint of all shards of the store, which are those of the job. Returns its number.
uint64_t WriteWholeCheckpoint(ps::ShardStore* store, const TestJob& job, int shards,
                              const std::string& directory, uint64_t base = 0);

// All bits of a state: values, then slots.
std::vector<std::vector<float>> Arrays(const std::vector<ps::StatePtr>& states);

}  // namespace millrace::testing

#endif  // MILLRACE_PS_STORE_CHECKPOINT_TEST_UTIL_H_
