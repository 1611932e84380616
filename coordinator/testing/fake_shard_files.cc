#include "coordinator/testing/fake_shard_files.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/checkpoint/shard_writer.h"
#include "common/job_spec.h"

namespace millrace::coordinator {
namespace {

// Blocks of one value.
class OneValue final : public BlockSource {
 public:
  OneValue(const ShardImage& image, float value) : image_(image), value_(value) {}

  absl::StatusOr<absl::string_view> Read(size_t block, int /*array*/) override {
    values_.assign(image_.blocks[block].elements, value_);
    return absl::string_view(reinterpret_cast<const char*>(values_.data()),
                             values_.size() * sizeof(float));
  }

 private:
  const ShardImage& image_;
  const float value_;
  std::vector<float> values_;
};

}  // namespace

absl::StatusOr<CheckpointShard> WriteFakeShard(const WriteCheckpointRequest& request,
                                               const ShardSpec& spec, const ShardStatus& state,
                                               const FileSystemPtr& file_system) {
  constexpr uint64_t kBlock = 1 << 18;
  ShardImage image;
  image.job_id = spec.job_id();
  image.shard = spec.shard();
  image.epoch = state.epoch();
  image.version = state.version();
  image.applied = state.applied();
  image.slots = OptimizerSlots(spec.optimizer());
  for (const ShardSlice& slice : spec.slices()) {
    const auto index = static_cast<uint32_t>(image.slices.size());
    const uint64_t length = slice.slice().length();
    image.slices.push_back({.variable = slice.variable_name(),
                            .shape = {slice.shape().begin(), slice.shape().end()},
                            .offset = slice.slice().offset()});
    for (uint64_t offset = 0; offset < length; offset += kBlock) {
      image.blocks.push_back(
          {.slice = index,
           .offset = offset,
           .elements = static_cast<uint32_t>(std::min(kBlock, length - offset))});
    }
  }
  OneValue values(image, static_cast<float>(state.applied().watermark()));
  ShardWriteOptions options;
  options.file_system = file_system;
  options.directory = request.directory();
  options.number = request.checkpoint();
  options.base = request.base();
  return WriteShard(options, image, &values);
}

}  // namespace millrace::coordinator
