#include "ps/store/checkpoint_test_util.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/applied_set.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/checkpoint_records.h"
#include "common/checkpoint/checksum.h"
#include "common/job_spec.h"
#include "common/storage/durable_file.h"
#include "glog/logging.h"

namespace millrace::testing {

TestJob::TestJob(std::vector<uint64_t> lengths, OptimizerSpec optimizer, uint32_t replicas)
    : lengths_(std::move(lengths)), optimizer_(std::move(optimizer)), replicas_(replicas) {}

uint64_t TestJob::elements() const {
  return std::accumulate(lengths_.begin(), lengths_.end(), uint64_t{0});
}

std::vector<ShardSpec> TestJob::Shards(int shards) const {
  const uint64_t count = static_cast<uint64_t>(shards);
  std::vector<ShardSpec> specs;
  for (uint64_t shard = 0; shard < count; ++shard) {
    ShardSpec spec;
    spec.set_job_id("job");
    spec.set_shard(static_cast<uint32_t>(shard));
    spec.set_replicas(replicas_);
    spec.set_total_steps(1'000'000);
    spec.set_seed(7);
    *spec.mutable_optimizer() = optimizer_;
    spec.mutable_cut_period()->set_seconds(100'000);
    const uint64_t begin = elements() * shard / count;
    const uint64_t end = elements() * (shard + 1) / count;
    uint64_t first = 0;  // Of the variable, among all elements.
    for (size_t i = 0; i < lengths_.size(); first += lengths_[i], ++i) {
      const uint64_t from = std::max(begin, first);
      const uint64_t to = std::min(end, first + lengths_[i]);
      if (from >= to) continue;
      ShardSlice& slice = *spec.add_slices();
      slice.mutable_slice()->set_variable(static_cast<uint32_t>(i));
      slice.mutable_slice()->set_offset(from - first);
      slice.mutable_slice()->set_length(to - from);
      slice.set_variable_name(absl::StrCat("layer/variable_", i));
      slice.add_shape(lengths_[i]);
      slice.mutable_initial_value()->mutable_uniform()->set_high(1);
    }
    specs.push_back(std::move(spec));
  }
  return specs;
}

std::vector<ShardSpec> TestJob::Restored(std::vector<ShardSpec> shards,
                                         const std::string& directory, uint64_t checkpoint) {
  // One that is damaged has none that could be compared.
  const auto manifest = ReadManifest(RealFileSystem(), directory, checkpoint);
  const std::string checksum =
      manifest.ok() ? manifest->checksum() : std::string(kChecksumDigits, '0');
  for (ShardSpec& spec : shards) {
    spec.mutable_restore()->set_directory(directory);
    spec.mutable_restore()->set_checkpoint(checkpoint);
    spec.mutable_restore()->set_manifest_checksum(checksum);
  }
  return shards;
}

void TestJob::Commit(const std::string& directory, uint64_t number,
                     const std::vector<CheckpointShard>& shards) const {
  CheckpointManifest manifest;
  manifest.set_number(number);
  manifest.set_job_id("job");
  *manifest.mutable_spec()->mutable_optimizer() = optimizer_;
  for (size_t i = 0; i < lengths_.size(); ++i) {
    VariableSpec& variable = *manifest.mutable_plan()->add_variables();
    variable.set_name(absl::StrCat("layer/variable_", i));
    variable.add_shape(lengths_[i]);
  }
  manifest.set_total_steps(1'000'000);
  uint64_t step = manifest.total_steps();
  for (const CheckpointShard& shard : shards) {
    step = std::min(step, shard.applied().watermark());
    *manifest.add_shards() = shard;
  }
  manifest.set_step(step);
  for (const std::string& slot : OptimizerSlots(optimizer_)) manifest.add_slots(slot);
  const absl::Status status = CheckpointDirectory(RealFileSystem(), directory).Commit(&manifest);
  CHECK(status.ok()) << status;
}

uint64_t BeginCheckpoint(const std::string& directory) {
  const auto number = CheckpointDirectory(RealFileSystem(), directory).Begin();
  CHECK(number.ok()) << number.status();
  return *number;
}

WriteCheckpointRequest MakeCheckpointRequest(uint32_t shard, const std::string& directory,
                                             uint64_t number) {
  WriteCheckpointRequest request;
  request.set_job_id("job");
  request.set_shard(shard);
  request.set_generation(1);
  request.set_directory(directory);
  request.set_checkpoint(number);
  return request;
}

uint64_t WriteWholeCheckpoint(ps::ShardStore* store, const TestJob& job, int shards,
                              const std::string& directory, uint64_t base) {
  const uint64_t number = BeginCheckpoint(directory);
  std::vector<CheckpointShard> written;
  for (int shard = 0; shard < shards; ++shard) {
    WriteCheckpointRequest request =
        MakeCheckpointRequest(static_cast<uint32_t>(shard), directory, number);
    request.set_base(base);
    const auto response = store->WriteCheckpoint(request, [] { return false; });
    CHECK(response.ok()) << response.status();
    written.push_back(response->shard());
  }
  job.Commit(directory, number, written);
  return number;
}

std::vector<std::vector<float>> Arrays(const std::vector<ps::StatePtr>& states) {
  std::vector<std::vector<float>> arrays;
  for (const ps::StatePtr& state : states) {
    for (const auto& block : state->blocks) {
      arrays.resize(static_cast<size_t>(block->slots()) + 1);
      for (int i = 0; i <= block->slots(); ++i) {
        std::vector<float>& array = arrays[static_cast<size_t>(i)];
        array.insert(array.end(), block->array(i), block->array(i) + block->elements());
      }
    }
  }
  return arrays;
}

}  // namespace millrace::testing
