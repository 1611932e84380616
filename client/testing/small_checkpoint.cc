#include "client/testing/small_checkpoint.h"

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/shard_writer.h"
#include "common/proto_time.h"
#include "glog/logging.h"
#include "gtest/gtest.h"

namespace millrace::testing {
namespace {

class SmallSource final : public BlockSource {
 public:
  explicit SmallSource(const std::vector<SmallVariable>& variables) : variables_(variables) {}

  absl::StatusOr<absl::string_view> Read(size_t block, int array) override {
    const SmallVariable& variable = variables_[block];
    const std::vector<float>& values = array == 0 ? variable.values : variable.momentum;
    return absl::string_view(reinterpret_cast<const char*>(values.data()),
                             values.size() * sizeof(float));
  }

 private:
  const std::vector<SmallVariable>& variables_;
};

ShardImage ImageOf(const SmallCheckpoint& checkpoint) {
  ShardImage image;
  image.job_id = checkpoint.job_id;
  image.version = checkpoint.step;
  image.applied.set_watermark(checkpoint.step);
  image.slots = {"momentum"};
  for (const SmallVariable& variable : checkpoint.variables) {
    image.blocks.push_back({static_cast<uint32_t>(image.slices.size()), 0,
                            static_cast<uint32_t>(variable.values.size())});
    image.slices.push_back({variable.name, variable.shape, 0});
  }
  return image;
}

CheckpointManifest ManifestOf(const SmallCheckpoint& checkpoint) {
  CheckpointManifest manifest;
  *manifest.mutable_written() = ToTimestamp(absl::Now());
  manifest.set_job_id(checkpoint.job_id);
  for (const std::string& id : checkpoint.earlier_job_ids) manifest.add_earlier_job_ids(id);
  *manifest.mutable_spec() = checkpoint.spec;
  for (const SmallVariable& variable : checkpoint.variables) {
    VariableSpec& spec = *manifest.mutable_plan()->add_variables();
    spec.set_name(variable.name);
    spec.mutable_shape()->Add(variable.shape.begin(), variable.shape.end());
  }
  manifest.mutable_plan()->set_train_examples(checkpoint.train_examples);
  manifest.set_total_steps(checkpoint.total_steps);
  manifest.set_step(checkpoint.step);
  manifest.set_exact(true);
  manifest.set_ended(checkpoint.ended);
  if (checkpoint.best > 0) {
    BestEvaluation& best = *manifest.mutable_best();
    best.set_metric("eval_loss");
    best.set_value(0.25);
    best.set_step(3);
    best.mutable_checkpoint()->set_number(checkpoint.best);
  }
  if (checkpoint.stopped_early_of > 0) {
    manifest.mutable_stopped_early()->set_step(checkpoint.step);
    manifest.mutable_stopped_early()->set_total_steps(checkpoint.stopped_early_of);
    manifest.mutable_stopped_early()->set_reason("eval_loss has not been below 0.25 since step 3");
  }
  (*manifest.mutable_metrics())["loss"] = 0.5;
  manifest.add_slots("momentum");
  return manifest;
}

}  // namespace

uint64_t WriteSmallCheckpoint(const std::string& directory, const SmallCheckpoint& checkpoint) {
  CheckpointDirectory checkpoints(RealFileSystem(), directory);
  const auto number = checkpoints.Begin();
  CHECK(number.ok()) << number.status();
  ShardWriteOptions options;
  options.directory = directory;
  options.number = *number;
  options.base = checkpoint.base;
  SmallSource source(checkpoint.variables);
  const auto shard = WriteShard(options, ImageOf(checkpoint), &source);
  CHECK(shard.ok()) << shard.status();
  CheckpointManifest manifest = ManifestOf(checkpoint);
  manifest.set_number(*number);
  *manifest.add_shards() = *shard;
  const absl::Status committed = checkpoints.Commit(&manifest);
  CHECK(committed.ok()) << committed;
  return *number;
}

std::string NoDirectory(const std::string& name) {
  std::string path = absl::StrCat(::testing::TempDir(), "/", name);
  std::filesystem::remove_all(path);
  return path;
}

void FlipByte(const std::string& path, uint64_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  const int byte = file.get();
  CHECK(file.good()) << path;
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(static_cast<char>(byte ^ 1));
  CHECK(file.flush()) << path;
}

void FlipLastByte(const std::string& path) { FlipByte(path, std::filesystem::file_size(path) - 1); }

}  // namespace millrace::testing
