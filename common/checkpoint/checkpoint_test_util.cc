#include "common/checkpoint/checkpoint_test_util.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/safetensors/safetensors_header.h"
#include "common/status_macros.h"
#include "gtest/gtest.h"
#include "testing/faults/fault_file_system.h"

namespace millrace::testing {
namespace {

namespace fs = std::filesystem;

}  // namespace

TestJob MakeTestJob(int seed) {
  TestJob job;
  job.variables = {{"dense/kernel", {3, 5}, {}}, {"dense/bias", {4}, {}}, {"scale", {}, {}}};
  job.slots = {"momentum"};
  float next = static_cast<float>(seed) * 1000.0f;
  for (TestVariable& variable : job.variables) {
    for (size_t array = 0; array < 2; ++array) {
      std::vector<float> elements(*ElementsOf(variable.shape));
      for (float& element : elements) element = next += 0.5f;
      variable.arrays.push_back(std::move(elements));
    }
  }
  return job;
}

void TrainTestJob(TestJob* job) {
  for (TestVariable& variable : job->variables) {
    for (std::vector<float>& array : variable.arrays) {
      for (float& element : array) element += 100.0f;
    }
  }
  ++job->step;
}

// The variables one after the other, cut evenly.
ShardImage ImageOf(const TestJob& job, uint32_t shard) {
  ShardImage image;
  image.job_id = "j1";
  image.shard = shard;
  image.epoch = 1;
  image.version = job.step;
  image.applied.set_watermark(job.step);
  image.slots = job.slots;
  uint64_t all = 0;
  for (const TestVariable& variable : job.variables) all += *ElementsOf(variable.shape);
  const uint64_t begin = all * shard / job.shards;
  const uint64_t end = all * (shard + 1) / job.shards;
  uint64_t at = 0;
  for (const TestVariable& variable : job.variables) {
    const uint64_t elements = *ElementsOf(variable.shape);
    const uint64_t first = std::clamp(begin, at, at + elements) - at;
    const uint64_t last = std::clamp(end, at, at + elements) - at;
    at += elements;
    if (first == last) continue;
    const auto slice = static_cast<uint32_t>(image.slices.size());
    image.slices.push_back({variable.name, variable.shape, first});
    for (uint64_t offset = 0; offset < last - first; offset += job.block_elements) {
      image.blocks.push_back(
          {slice, offset,
           static_cast<uint32_t>(std::min<uint64_t>(job.block_elements, last - first - offset))});
    }
  }
  return image;
}

TestSource::TestSource(const TestJob* job, uint32_t shard)
    : job_(*job), image_(ImageOf(*job, shard)) {}

absl::StatusOr<absl::string_view> TestSource::Read(size_t block, int array) {
  const ShardImage::Block& place = image_.blocks[block];
  const ShardImage::Slice& slice = image_.slices[place.slice];
  const auto variable =
      std::find_if(job_.variables.begin(), job_.variables.end(),
                   [&](const TestVariable& one) { return one.name == slice.variable; });
  const float* elements =
      variable->arrays[static_cast<size_t>(array)].data() + slice.offset + place.offset;
  return absl::string_view(reinterpret_cast<const char*>(elements), place.elements * sizeof(float));
}

absl::optional<std::string> TestSource::KnownChecksum(size_t /*block*/, int /*array*/) {
  return known;
}

absl::StatusOr<CheckpointManifest> WriteShards(const FileSystemPtr& file_system,
                                               const std::string& directory, uint64_t number,
                                               const TestJob& job, uint64_t base) {
  CheckpointManifest manifest;
  manifest.set_number(number);
  manifest.mutable_written()->set_seconds(1'800'000'000 + static_cast<int64_t>(number));
  manifest.set_job_id("j1");
  manifest.mutable_spec()->set_name("test");
  for (const TestVariable& variable : job.variables) {
    VariableSpec* spec = manifest.mutable_plan()->add_variables();
    spec->set_name(variable.name);
    spec->mutable_shape()->Add(variable.shape.begin(), variable.shape.end());
  }
  manifest.set_step(job.step);
  manifest.set_exact(true);
  for (const std::string& slot : job.slots) manifest.add_slots(slot);
  ShardWriteOptions options;
  options.file_system = file_system;
  options.directory = directory;
  options.number = number;
  options.base = base;
  for (uint32_t shard = 0; shard < job.shards; ++shard) {
    TestSource source(&job, shard);
    MILLRACE_ASSIGN_OR_RETURN(*manifest.add_shards(),
                              WriteShard(options, ImageOf(job, shard), &source));
  }
  return manifest;
}

absl::StatusOr<uint64_t> WriteTestCheckpoint(const FileSystemPtr& file_system,
                                             const std::string& directory, const TestJob& job,
                                             uint64_t base) {
  CheckpointDirectory checkpoints(file_system, directory);
  MILLRACE_RETURN_IF_ERROR(checkpoints.CollectGarbage(0).status());
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t number, checkpoints.Begin());
  absl::StatusOr<CheckpointManifest> manifest =
      WriteShards(file_system, directory, number, job, base);
  absl::Status status = manifest.status();
  if (status.ok()) status = checkpoints.Commit(&*manifest);
  if (status.ok()) return number;
  checkpoints.CollectGarbage(0).status().IgnoreError();
  return status;
}

absl::Status Compare(const FileSystemPtr& file_system, const std::string& directory,
                     uint64_t number, const TestJob& job) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> checkpoint,
                            Checkpoint::Open(file_system, directory, number));
  if (checkpoint->manifest().step() != job.step) {
    return absl::FailedPreconditionError(
        absl::StrCat("step ", checkpoint->manifest().step(), ", not ", job.step));
  }
  for (const TestVariable& expected : job.variables) {
    const absl::optional<size_t> variable = checkpoint->Find(expected.name);
    if (!variable.has_value()) return absl::FailedPreconditionError("no " + expected.name);
    for (size_t array = 0; array < expected.arrays.size(); ++array) {
      std::vector<float> values(expected.arrays[array].size());
      MILLRACE_RETURN_IF_ERROR(
          checkpoint->Read(*variable, static_cast<int>(array), 0, absl::MakeSpan(values)));
      if (values != expected.arrays[array]) {
        return absl::FailedPreconditionError(
            absl::StrCat("array ", array, " of ", expected.name, " differs"));
      }
    }
  }
  return absl::OkStatus();
}

FileSystemPtr Files() { return std::make_shared<FaultFileSystem>(); }

std::map<std::string, std::string> FilesIn(const std::string& directory) {
  std::map<std::string, std::string> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(directory)) {
    const bool is_kept_aside = absl::StrContains(entry.path().string(), ".aside-");
    const bool is_mark = entry.path().filename() == kRemovalMark;  // No file of a checkpoint.
    if (!entry.is_regular_file() || is_kept_aside || is_mark) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    files[fs::relative(entry.path(), directory).string()] =
        std::string(std::istreambuf_iterator<char>(file), {});
  }
  return files;
}

std::string EmptyDirectory(const std::string& name) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/", name);
  fs::remove_all(path);
  fs::create_directories(path);
  return path;
}

}  // namespace millrace::testing
