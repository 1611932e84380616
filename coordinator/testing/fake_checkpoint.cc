#include "coordinator/testing/fake_checkpoint.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/checkpoint/shard_writer.h"
#include "common/job_spec.h"
#include "common/status_macros.h"
#include "coordinator/placement/placement.h"
#include "glog/logging.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

constexpr uint32_t kMostOfBlock = 1 << 18;

class Zeros final : public BlockSource {
 public:
  explicit Zeros(const ShardImage* image) : image_(*image) {}

  absl::StatusOr<absl::string_view> Read(size_t block, int /*array*/) override {
    zeros_.assign(image_.blocks[block].elements * sizeof(float), '\0');
    return zeros_;
  }

 private:
  const ShardImage& image_;
  std::string zeros_;
};

ShardImage ImageOf(const FakeCheckpoint& checkpoint, uint32_t shard, const ShardSlices& slices) {
  const uint64_t replicas = std::max<uint64_t>(Replicas(checkpoint.spec), 1);
  ShardImage image;
  image.job_id = checkpoint.job_id;
  image.shard = shard;
  image.epoch = checkpoint.epoch;
  image.version = checkpoint.applied[shard].size() / replicas;
  image.applied = checkpoint.applied[shard].ToProto();
  for (const Slice& slice : slices) {
    const VariableSpec& variable = checkpoint.plan.variables(static_cast<int>(slice.variable()));
    for (uint64_t done = 0; done < slice.length(); done += kMostOfBlock) {
      image.blocks.push_back(
          {static_cast<uint32_t>(image.slices.size()), done,
           static_cast<uint32_t>(std::min<uint64_t>(slice.length() - done, kMostOfBlock))});
    }
    image.slices.push_back(
        {variable.name(), {variable.shape().begin(), variable.shape().end()}, slice.offset()});
  }
  return image;
}

}  // namespace

AppliedSet StepsBefore(uint64_t watermark, const std::vector<uint64_t>& above) {
  StepSet steps;
  steps.set_watermark(watermark);
  steps.mutable_above()->Assign(above.begin(), above.end());
  return AppliedSet::FromProto(steps).value();
}

std::string NewCheckpointDirectory() {
  static int count = 0;
  std::string path = absl::StrCat(testing::TempDir(), "/checkpoints-", getpid(), "-", ++count);
  std::filesystem::remove_all(path);
  return path;
}

namespace {

// Above all that are there.
uint64_t NextNumber(const std::string& directory) {
  uint64_t next = 1;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const auto number = ParseCheckpointFolder(entry.path().filename().string());
    next = std::max(next, number.value_or(0) + 1);
  }
  return next;
}

// Elsewhere, so that it comes whole: the directory's job collects what is not finished, at times of
// its own, and the checkpoint had another number then than tests say.
absl::StatusOr<uint64_t> WriteBeside(const std::string& directory, const std::string& beside,
                                     const FakeCheckpoint& checkpoint) {
  CheckpointDirectory checkpoints(RealFileSystem(), beside);
  CheckpointManifest manifest;
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t number, checkpoints.Begin(NextNumber(directory)));
  manifest.set_number(number);
  manifest.set_job_id(checkpoint.job_id);
  *manifest.mutable_spec() = checkpoint.spec;
  *manifest.mutable_plan() = checkpoint.plan;
  manifest.set_total_steps(TotalSteps(checkpoint.spec, checkpoint.plan.train_examples()));
  AppliedSet common = checkpoint.applied[0];
  bool exact = common.above().empty();
  for (const AppliedSet& applied : checkpoint.applied) {
    exact = exact && applied == checkpoint.applied[0];
    common = AppliedSet::Intersection(common, applied);
  }
  manifest.set_step(common.watermark());
  manifest.set_exact(exact);
  const auto shards = DivideIntoShards(checkpoint.plan.variables(), checkpoint.applied.size());
  for (uint32_t shard = 0; shard < shards.size(); ++shard) {
    const ShardImage image = ImageOf(checkpoint, shard, shards[shard]);
    Zeros zeros(&image);
    ShardWriteOptions options;
    options.directory = beside;
    options.number = manifest.number();
    MILLRACE_ASSIGN_OR_RETURN(*manifest.add_shards(), WriteShard(options, image, &zeros));
  }
  MILLRACE_RETURN_IF_ERROR(checkpoints.Commit(&manifest));
  return number;
}

}  // namespace

uint64_t WriteFakeCheckpoint(const std::string& directory, const FakeCheckpoint& checkpoint) {
  const std::string beside = directory + ".beside";
  std::filesystem::create_directories(directory);
  std::filesystem::remove_all(beside);
  const absl::StatusOr<uint64_t> number = WriteBeside(directory, beside, checkpoint);
  CHECK(number.ok()) << number.status();
  const std::string folder = CheckpointFolder(*number);
  std::filesystem::rename(beside + "/" + folder, directory + "/" + folder);
  std::filesystem::remove_all(beside);
  return *number;
}

}  // namespace millrace::coordinator
