// A small job whose checkpoints tests write.
#ifndef MILLRACE_COMMON_CHECKPOINT_CHECKPOINT_TEST_UTIL_H_
#define MILLRACE_COMMON_CHECKPOINT_CHECKPOINT_TEST_UTIL_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/shard_writer.h"
#include "common/storage/durable_file.h"
#include "protos/checkpoint.pb.h"

namespace millrace::testing {

struct TestVariable {
  std::string name;
  std::vector<uint64_t> shape;
  std::vector<std::vector<float>> arrays;  // The values, and each slot.
};

struct TestJob {
  std::vector<TestVariable> variables;
  std::vector<std::string> slots;
  uint32_t shards = 2;
  uint32_t block_elements = 4;
  uint64_t step = 0;
};

// "dense/kernel" [3, 5], "dense/bias" [4] and the scalar "scale"; one slot, "momentum"; each
// element of each array another number, which follows from `seed`.
TestJob MakeTestJob(int seed = 0);

// Other numbers, everywhere; and the next step.
void TrainTestJob(TestJob* job);

ShardImage ImageOf(const TestJob& job, uint32_t shard);

// Gives the numbers of the job, which must outlive it.
class TestSource final : public BlockSource {
 public:
  TestSource(const TestJob* job, uint32_t shard);

  absl::StatusOr<absl::string_view> Read(size_t block, int array) override;
  absl::optional<std::string> KnownChecksum(size_t block, int array) override;

  // What KnownChecksum says; nothing: nothing.
  absl::optional<std::string> known;

 private:
  const TestJob& job_;
  const ShardImage image_;
};

// All shards and the manifest of a checkpoint whose folder is there.
absl::StatusOr<CheckpointManifest> WriteShards(const FileSystemPtr& file_system,
                                               const std::string& directory, uint64_t number,
                                               const TestJob& job, uint64_t base);

// Collects garbage, begins, writes and commits; collects garbage after an error. Returns the
// number.
absl::StatusOr<uint64_t> WriteTestCheckpoint(const FileSystemPtr& file_system,
                                             const std::string& directory, const TestJob& job,
                                             uint64_t base = 0);

// OK: the checkpoint has what the job has, to the bit.
absl::Status Compare(const FileSystemPtr& file_system, const std::string& directory,
                     uint64_t number, const TestJob& job);

// One that does not wait for the disk.
FileSystemPtr Files();

// Path below the directory, and bytes, of each file there.
std::map<std::string, std::string> FilesIn(const std::string& directory);

// An empty directory of this name among the test's.
std::string EmptyDirectory(const std::string& name);

}  // namespace millrace::testing

#endif  // MILLRACE_COMMON_CHECKPOINT_CHECKPOINT_TEST_UTIL_H_
