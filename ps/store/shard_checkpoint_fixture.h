// A store on a simulated clock and a file system that fails, and a directory of checkpoints.
#ifndef MILLRACE_PS_STORE_SHARD_CHECKPOINT_FIXTURE_H_
#define MILLRACE_PS_STORE_SHARD_CHECKPOINT_FIXTURE_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/clock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "ps/shard/shard_test_util.h"
#include "ps/store/checkpoint_test_util.h"
#include "ps/store/shard_store.h"
#include "testing/directory/test_directory.h"
#include "testing/faults/fault_file_system.h"

namespace millrace::ps {

inline OptimizerSpec MakeOptimizerSpec(const std::string& text) {
  OptimizerSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  return spec;
}

// One step subtracts its gradient.
inline OptimizerSpec PlainSgd() { return MakeOptimizerSpec("sgd { learning_rate: 1 }"); }

class ShardCheckpointTest : public ::testing::Test {
 protected:
  using TestJob = millrace::testing::TestJob;

  ShardCheckpointTest() { Open("a"); }

  // Of a data directory.
  std::vector<std::filesystem::path> CutFiles(const std::string& name) const {
    return FilesIn(absl::StrCat(root_, "/", name, "/db.bulk"), ".sst");
  }

  // Serves another data directory, or the same one again.
  void Open(const std::string& name) {
    store_.reset();
    files_ = std::make_shared<millrace::testing::FaultFileSystem>();
    ShardStoreOptions options;
    options.clock = store_clock_;
    options.memory_limit = memory_limit_;
    options.file_system = files_;
    options.fault = [this](absl::string_view operation) {
      if (operation == "flush" && before_cut_) std::exchange(before_cut_, nullptr)();
      return absl::OkStatus();
    };
    auto store = ShardStore::Open(absl::StrCat(root_, "/", name), options);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  void Create(const std::vector<ShardSpec>& shards) {
    for (const ShardSpec& spec : shards) {
      const auto status = store_->Create(spec, 1);
      ASSERT_TRUE(status.ok()) << status.status();
    }
  }

  std::shared_ptr<Shard> Find(uint32_t shard = 0) { return *store_->shards().Find("job", shard); }

  // A step of the same random gradient whatever the shards.
  void Push(uint64_t step, uint64_t elements, int shards) {
    std::mt19937 random(static_cast<unsigned>(step) + 1);
    std::normal_distribution<float> distribution;
    std::vector<float> gradient(elements);
    for (float& g : gradient) g = distribution(random);
    size_t begin = 0;
    for (int i = 0; i < shards; ++i) {
      const std::shared_ptr<Shard> shard = Find(static_cast<uint32_t>(i));
      const size_t count = shard->plan().layout.elements();
      const PushResponse response = millrace::testing::PushWhole(
          shard.get(), step, step, absl::MakeSpan(gradient).subspan(begin, count));
      ASSERT_EQ(response.code(), 0) << response.message();
      begin += count;
    }
  }

  // A step whose gradient is 1.
  void PushOnes(uint64_t step, uint32_t shard = 0) {
    const std::shared_ptr<Shard> there = Find(shard);
    const std::vector<float> ones(there->plan().layout.elements(), 1);
    ASSERT_EQ(millrace::testing::PushWhole(there.get(), step, step, ones).code(), 0);
  }

  std::vector<std::vector<float>> AllArrays(int shards) {
    std::vector<StatePtr> states;
    for (int i = 0; i < shards; ++i)
      states.push_back(millrace::testing::Newest(Find(static_cast<uint32_t>(i)).get()));
    return millrace::testing::Arrays(states);
  }

  absl::StatusOr<WriteCheckpointResponse> Write(
      const WriteCheckpointRequest& request,
      const std::function<bool()>& is_cancelled = [] { return false; }) {
    return store_->WriteCheckpoint(request, is_cancelled);
  }

  size_t FilesOf(uint64_t number) const {
    const std::filesystem::path folder = absl::StrFormat("%s/%06d", checkpoints_, number);
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
  }

  // The values of a checkpoint with one shard, restored in another store.
  std::vector<float> RestoredValues(const TestJob& job, uint64_t number) {
    Open(absl::StrCat("restored_", number));
    Create(TestJob::Restored(job.Shards(1), checkpoints_, number));
    return millrace::testing::Values(*millrace::testing::Newest(Find().get()));
  }

  SimulatedClock clock_;
  // Of the stores that are opened from now on.
  Clock* store_clock_ = &clock_;
  uint64_t memory_limit_ = ShardStoreOptions().memory_limit;
  std::function<void()> before_cut_;  // Called once, before a cut is written.
  const std::string root_ = EmptyTestDirectory("root");
  const std::string checkpoints_ = root_ + "/checkpoints";
  std::shared_ptr<millrace::testing::FaultFileSystem> files_;
  std::unique_ptr<ShardStore> store_;
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_STORE_SHARD_CHECKPOINT_FIXTURE_H_
