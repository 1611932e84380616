// Shards whose first values are those of tensors in files.
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/safetensors/safetensors_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps/shard/shard_test_util.h"
#include "ps/store/checkpoint_test_util.h"
#include "ps/store/shard_checkpoint_fixture.h"

namespace millrace::ps {
namespace {

using ::millrace::testing::Arrays;
using ::millrace::testing::Newest;
using ::millrace::testing::TestJob;
using ::millrace::testing::Values;
using ::millrace::testing::WriteWholeCheckpoint;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class WarmStartTest : public ShardCheckpointTest {
 protected:
  // A file with "a" of 10 elements, 0 to 9, and "b" of as many, as halves of that in F64.
  WarmStartTest() : path_(root_ + "/values.safetensors") {
    SafetensorsHeader header;
    header.tensors.push_back({"a", "F32", {10}});
    header.tensors.push_back({"b", "F64", {2, 5}});
    header.tensors.push_back({"c", "I64", {1}});
    auto writer = SafetensorsWriter::Create(RealFileSystem(), path_, header);
    EXPECT_TRUE(writer.ok()) << writer.status();
    std::vector<float> floats;
    std::vector<double> doubles;
    for (int i = 0; i < 10; ++i) {
      floats.push_back(static_cast<float>(i));
      doubles.push_back(i * 0.5);
    }
    EXPECT_TRUE(writer->Append(absl::MakeConstSpan(floats)).ok());
    EXPECT_TRUE(writer
                    ->Append(absl::string_view(reinterpret_cast<const char*>(doubles.data()),
                                               doubles.size() * sizeof(double)))
                    .ok());
    EXPECT_TRUE(writer->Append(absl::string_view("\0\0\0\0\0\0\0\0", 8)).ok());
    EXPECT_TRUE(writer->Finish().ok());
  }

  // Elements 2 to 9 of each variable, the first stored as `name`; momentum.
  ShardSpec Spec(const std::string& name, uint32_t replicas = 0) {
    ShardSpec spec =
        TestJob({10, 10}, MakeOptimizerSpec("sgd { learning_rate: 1 momentum: 0.5 }"), replicas)
            .Shards(1)[0];
    for (ShardSlice& slice : *spec.mutable_slices()) {
      slice.mutable_slice()->set_offset(2);
      slice.mutable_slice()->set_length(8);
      slice.clear_shape();
    }
    StoredTensor& stored = *spec.mutable_slices(0)->mutable_initial_value()->mutable_stored();
    stored.set_path(path_);
    stored.set_name(name);
    spec.mutable_slices(1)->mutable_initial_value()->set_constant(4);
    return spec;
  }

  const std::string path_;
};

TEST_F(WarmStartTest, ShardBeginsWithTheTensorsOfAFile) {
  Create({Spec("b")});
  EXPECT_THAT(Values(*Newest(Find().get())),
              ElementsAre(1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 4, 4, 4, 4, 4, 4, 4, 4));
  EXPECT_THAT(Arrays({Newest(Find().get())})[1], Each(0));
  const ShardStatus status = Find()->Status();
  EXPECT_EQ(status.version(), 0);
  EXPECT_EQ(status.origin(), ShardStatus::CREATED);
  EXPECT_EQ(status.cuts_size(), 1);
}

TEST_F(WarmStartTest, SlotsBeginAtTheOptimizersInitialValues) {
  ShardSpec spec = Spec("b");
  spec.mutable_optimizer()->mutable_adagrad()->set_initial_accumulator_value(0.25);
  Create({spec});
  EXPECT_THAT(Arrays({Newest(Find().get())})[1], Each(0.25));
}

TEST_F(WarmStartTest, FileMayGoAwayOnceTheShardIsMade) {
  Create({Spec("a", /*replicas=*/1)});
  std::filesystem::remove(path_);
  PushOnes(0);
  Open("a");
  const auto begin = ElementsAre(2, 3, 4, 5, 6, 7, 8, 9, 4, 4, 4, 4, 4, 4, 4, 4);
  EXPECT_THAT(Values(*Newest(Find().get())), begin);
  ASSERT_TRUE(store_->SetGeneration("job", 0, 2).ok());
  ASSERT_TRUE(store_->SetGeneration("job", 0, 3).ok());
  StepBackRequest request;
  request.set_job_id("job");
  request.set_generation(3);
  request.set_epoch(1);
  ASSERT_TRUE(store_->StepBack(request).ok());
  EXPECT_THAT(Values(*Newest(Find().get())), begin);
}

TEST_F(WarmStartTest, WhatTheFileLacksIsNamed) {
  EXPECT_THAT(std::string(store_->Create(Spec("d"), 1).status().message()), HasSubstr("'d' in"));
  const absl::Status integers = store_->Create(Spec("c"), 1).status();
  EXPECT_EQ(integers.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(integers.message()), HasSubstr("of type I64"));
  ShardSpec other_shape = Spec("b");
  other_shape.mutable_slices(0)->add_shape(10);
  const absl::Status shape = store_->Create(other_shape, 1).status();
  EXPECT_THAT(std::string(shape.message()), HasSubstr("[2, 5]"));
}

TEST_F(WarmStartTest, TensorMayBeAVariableOfACheckpoint) {
  const TestJob job({10}, MakeOptimizerSpec("adam {}"));
  Create(job.Shards(1));
  PushOnes(0);
  const std::vector<float> values = Values(*Newest(Find().get()));
  const uint64_t number = WriteWholeCheckpoint(store_.get(), job, 1, checkpoints_);
  Open("b");
  ShardSpec spec = Spec("layer/variable_0");
  StoredTensor& stored = *spec.mutable_slices(0)->mutable_initial_value()->mutable_stored();
  stored.set_path(checkpoints_);
  stored.set_checkpoint(number);
  Create({spec});
  const StatePtr state = Newest(Find().get());
  EXPECT_EQ(state->version, 0);
  EXPECT_EQ(
      std::vector<float>(state->blocks[0]->values().begin(), state->blocks[0]->values().end()),
      std::vector<float>(values.begin() + 2, values.end()));
}

}  // namespace
}  // namespace millrace::ps
