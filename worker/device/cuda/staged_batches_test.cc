// Batches that models on one or several GPUs are told of before the step that trains on them.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "glog/logging.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protos/model.pb.h"
#include "testing/cuda_emulation/control.h"
#include "worker/device/cuda/replicas_test_util.h"
#include "worker/device/cuda/test_library.h"

namespace millrace::worker {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class StagedBatchesTest : public ReplicasTest {
 protected:
  StagedBatchesTest() : ReplicasTest(/*least_gpus=*/1) {}

  GivenByStep TrainOn(const Batch& batch, uint64_t seed, Model* model) const {
    return GivenBy(batch, seed, plan_, model);
  }

  // On the values that all models here begin with.
  GivenByStep Expected(const Batch& batch, int gpus) {
    return TrainOn(batch, /*seed=*/3, Compile(plan_, gpus).get());
  }

  // What the values are to be in a step, beside the first ones.
  static ModelValues ValuesOf(uint64_t step, Model* model) {
    ModelValues values;
    for (size_t v = 0; v < model->variables().size(); ++v) {
      const absl::Span<float> place = model->values(v);
      values.emplace_back(place.begin(), place.end());
      for (float& x : values.back()) x += 0.01f * static_cast<float>(step);
    }
    return values;
  }

  static void BringValues(const ModelValues& values, size_t begin, size_t end, Model* model) {
    for (size_t v = begin; v < end; ++v) {
      const absl::Span<float> place = model->values(v);
      std::copy(values[v].begin(), values[v].end(), place.begin());
      model->Arrived(v, 0, place.size());
    }
  }

  // A batch with weights, as pulled values arrive; the two differ in whether it is staged
  // meanwhile.
  GivenByStep Step(uint64_t step, size_t size, bool stages, Model* model) const {
    Batch batch = RandomPictures(size);
    batch.features[0].floats[0] += static_cast<float>(step);
    for (size_t i = 0; i < size; ++i) batch.weights.push_back(static_cast<float>(1 + i % 3));
    const auto values = ValuesOf(step, model);
    BringValues(values, 0, 2, model);
    if (stages) model->Stage(&batch);
    BringValues(values, 2, values.size(), model);
    return TrainOn(batch, step, model);
  }

  std::vector<int> OneAndMore() const {
    std::vector<int> counts = GpuCounts();
    counts.insert(counts.begin(), 1);
    return counts;
  }

  // Two, where there are two.
  int Several() const { return std::min(library_->GpuCount(), 2); }
  std::vector<int> OneAndSeveral() const {
    return Several() == 1 ? std::vector<int>{1} : std::vector<int>{1, 2};
  }
};

TEST_F(StagedBatchesTest, StepsGiveTheBitsOfStepsWithoutStaging) {
  for (const int gpus : OneAndMore()) {
    for (const uint64_t order : {0, 1, 2}) {
      SCOPED_TRACE(::testing::Message() << gpus << " GPUs, order " << order);
      cuda_emulation::SetOrder(order);
      const std::unique_ptr<Model> model = Compile(plan_, gpus);
      const std::unique_ptr<Model> other = Compile(plan_, gpus);
      uint64_t step = 0;
      for (const size_t size : {7, 2, 5, 1}) {
        EXPECT_EQ(Step(step, size, /*stages=*/true, model.get()),
                  Step(step, size, /*stages=*/false, other.get()))
            << "step " << step;
        ++step;
      }
    }
  }
}

TEST_F(StagedBatchesTest, ABatchMayBeStagedWhileThreadsBringValues) {
  const Batch batch = RandomPictures(7);
  const GivenByStep expected = Expected(batch, Several());
  const std::unique_ptr<Model> model = Compile(plan_, Several());
  const auto values = ValuesOf(0, model.get());
  std::thread brings([&] {
    for (size_t v = 0; v < values.size(); ++v) model->Arrived(v, 0, values[v].size());
  });
  model->Stage(&batch);
  brings.join();
  EXPECT_EQ(TrainOn(batch, 3, model.get()), expected);
}

// Each time something else comes first, and then another batch stands where the staged one stood.
TEST_F(StagedBatchesTest, WhatIsStagedAndNotTrainedOnIsDropped) {
  for (const int gpus : OneAndSeveral()) {
    for (const uint64_t order : {0, 1, 2}) {
      SCOPED_TRACE(::testing::Message() << gpus << " GPUs, order " << order);
      cuda_emulation::SetOrder(order);
      const Batch other = RandomPictures(6);
      const GivenByStep of_other = Expected(other, gpus);
      const GivenByStep expected = Expected(RandomPictures(5), gpus);
      const std::unique_ptr<Model> model = Compile(plan_, gpus);
      const auto train_on_another_after = [&](const auto& comes_first) {
        Batch batch = RandomPictures(7);
        model->Stage(&batch);
        comes_first();
        batch = RandomPictures(5);
        EXPECT_EQ(TrainOn(batch, 3, model.get()), expected);
      };
      train_on_another_after([&] { EXPECT_EQ(TrainOn(other, 3, model.get()), of_other); });
      train_on_another_after([&] { model->Stage(nullptr); });
      train_on_another_after([&] { model->Stage(&other); });
      train_on_another_after([&] {
        EvaluationSums sums;
        EXPECT_TRUE(model->Evaluate(other, &sums).ok());
      });
    }
  }
}

TEST_F(StagedBatchesTest, AnEvaluationTakesItsOwnBatch) {
  const Batch batch = RandomPictures(7);
  const Batch evaluated = RandomPictures(6);
  for (const int gpus : OneAndSeveral()) {
    const std::unique_ptr<Model> model = Compile(plan_, gpus);
    EvaluationSums expected;
    ASSERT_TRUE(model->Evaluate(batch, &expected).ok());
    ASSERT_TRUE(model->Evaluate(evaluated, &expected).ok());
    EvaluationSums sums;
    model->Stage(&batch);
    ASSERT_TRUE(model->Evaluate(batch, &sums).ok());  // Be it the same one.
    ASSERT_TRUE(model->Evaluate(evaluated, &sums).ok());
    EXPECT_EQ(sums.loss_sum, expected.loss_sum) << gpus;
  }
}

TEST_F(StagedBatchesTest, AStagedBatchIsCopiedOnceAndTakesNoMemory) {
  MILLRACE_NEEDS_EMULATION();
  for (const int gpus : OneAndSeveral()) {
    const std::unique_ptr<Model> model = Compile(plan_, gpus);
    const Batch batch = RandomPictures(7);
    const auto copies_of_a_step = [&](bool stages) {
      const uint64_t before = cuda_emulation::Counted().copies;
      if (stages) model->Stage(&batch);
      TrainOn(batch, 3, model.get());
      return cuda_emulation::Counted().copies - before;
    };
    copies_of_a_step(/*stages=*/false);  // And what is left of making the model.
    const uint64_t without = copies_of_a_step(/*stages=*/false);
    const cuda_emulation::Usage in_use = cuda_emulation::InUse();
    EXPECT_EQ(copies_of_a_step(/*stages=*/true), without);
    EXPECT_EQ(cuda_emulation::InUse(), in_use);
  }
}

// The device reads the batch of the step under way until the backward pass has computed. Every
// other step's batch comes when the step begins.
TEST_F(StagedBatchesTest, TheNextBatchMayBeStagedWhileAStepComputes) {
  for (const int gpus : OneAndMore()) {
    for (const uint64_t order : {0, 1, 2, 3, 4, 5}) {
      SCOPED_TRACE(::testing::Message() << gpus << " GPUs, order " << order);
      cuda_emulation::SetOrder(order);
      const Batch first = RandomPictures(7);
      const Batch second = RandomPictures(5);
      const std::unique_ptr<Model> model = Compile(PullingAhead(plan_), gpus);
      for (int turn = 0; turn < 2; ++turn) {
        bool taken = false;
        KeptGradients gradients(plan_, [&] { taken = model->Stage(&second); });
        TrainOrDie(first, 3, model.get(), &gradients);
        EXPECT_TRUE(taken);
        EXPECT_EQ(gradients.gradients(), Expected(first, gpus).gradients);
        EXPECT_EQ(TrainOn(second, 3, model.get()), Expected(second, gpus));
      }
    }
  }
}

TEST_F(StagedBatchesTest, AModelThatDoesNotPullAheadTakesNoneWhileAStepComputes) {
  const Batch first = RandomPictures(7);
  const Batch second = RandomPictures(5);
  const std::unique_ptr<Model> model = Compile(plan_, /*gpus=*/1);
  bool taken = true;
  KeptGradients gradients(plan_, [&] { taken = model->Stage(&second); });
  TrainOrDie(first, 3, model.get(), &gradients);
  EXPECT_FALSE(taken);
  EXPECT_EQ(gradients.gradients(), Expected(first, 1).gradients);
  EXPECT_EQ(TrainOn(second, 3, model.get()), Expected(second, 1));
}

// And then moved within each GPU.
TEST_F(StagedBatchesTest, ABatchThatIsStagedWhileAStepComputesIsCopiedOnceAndTakesNoMemory) {
  MILLRACE_NEEDS_EMULATION();
  for (const int gpus : OneAndSeveral()) {
    const std::unique_ptr<Model> model = Compile(PullingAhead(plan_), gpus);
    const Batch batch = RandomPictures(7);
    const auto copies_of_two_steps = [&](bool stages) {
      const uint64_t before = cuda_emulation::Counted().copies;
      bool taken = false;
      KeptGradients gradients(plan_, [&] { taken = stages && model->Stage(&batch); });
      TrainOrDie(batch, 3, model.get(), &gradients);
      EXPECT_EQ(taken, stages);
      TrainOn(batch, 3, model.get());
      return cuda_emulation::Counted().copies - before;
    };
    copies_of_two_steps(/*stages=*/false);  // And what is left of making the model.
    const uint64_t without = copies_of_two_steps(/*stages=*/false);
    const cuda_emulation::Usage in_use = cuda_emulation::InUse();
    EXPECT_EQ(copies_of_two_steps(/*stages=*/true), without + static_cast<uint64_t>(gpus));
    EXPECT_EQ(cuda_emulation::InUse(), in_use);
  }
}

// The model takes what the batch was: whoever changes it says so.
TEST_F(StagedBatchesTest, TheStepTakesWhatWasCopiedWhenTheBatchWasStaged) {
  Batch batch = RandomPictures(7);
  const auto expected = Expected(batch, Several()).gradients;
  const std::unique_ptr<Model> model = Compile(plan_, Several());
  model->Stage(&batch);
  std::fill(batch.features[0].floats.begin(), batch.features[0].floats.end(), 0);
  EXPECT_EQ(TrainOn(batch, 3, model.get()).gradients, expected);
}

// The kernel that follows when the loss is known never ends here.
TEST_F(StagedBatchesTest, ValuesAndBatchOfTheNextStepComeWhileTheBackwardPassComputes) {
  MILLRACE_NEEDS_EMULATION();
  options_.timeout = absl::Seconds(1);
  const ModelPlan plan = PullingAhead(plan_);
  const Batch batch = RandomPictures(7);
  StartAnew(/*order=*/0);
  const uint64_t first_kernel = cuda_emulation::Counted().kernels;
  uint64_t first_backward = 0;
  KeptGradients undisturbed(plan, [&] { first_backward = cuda_emulation::Counted().kernels; });
  TrainOrDie(batch, 3, Compile(plan, /*gpus=*/1).get(), &undisturbed);
  ASSERT_LT(first_backward + 1, cuda_emulation::Counted().kernels);
  const auto hanging = static_cast<int>(first_backward - first_kernel) + 1;
  const auto copies_of_a_step = [&](bool brings_values, bool stages) {
    StartAnew(/*order=*/0);
    options_.shared = std::make_shared<SharedGpus>();
    const std::unique_ptr<Model> model = Compile(plan, /*gpus=*/1);
    cuda_emulation::HangKernel(hanging);
    const uint64_t before = cuda_emulation::Counted().copies;
    KeptGradients gradients(plan_, [&] {
      for (size_t v = 0; brings_values && v < plan.variables.size(); ++v) {
        model->Arrived(v, 0, model->next_values(v).size());
      }
      if (stages) model->Stage(&batch);
    });
    EXPECT_EQ(model->Train(batch, 3, &gradients).status().code(), absl::StatusCode::kUnavailable);
    return cuda_emulation::Counted().copies - before;
  };
  const uint64_t without = copies_of_a_step(/*brings_values=*/false, /*stages=*/false);
  EXPECT_GT(copies_of_a_step(/*brings_values=*/true, /*stages=*/false), without);
  EXPECT_GT(copies_of_a_step(/*brings_values=*/false, /*stages=*/true), without);
}

// Models of lists of ids of which there are more from batch to batch.
class StagedRaggedIdsTest : public StagedBatchesTest {
 protected:
  static Batch BatchOf(size_t ids) {
    Batch batch;
    batch.size = 4;
    batch.labels = {IdTensor({0, 2, 1, 1})};
    batch.features.resize(1);
    for (size_t i = 0; i < ids; ++i) {
      batch.features[0].ids.push_back(static_cast<int64_t>((i * 7 + i / 5) % 9));
    }
    batch.features[0].ends = {ids / 4, ids / 2, ids / 2, ids};
    return batch;
  }

  GivenByStep Expected(const Batch& batch, int gpus) {
    return GivenBy(batch, 0, ragged_plan_, Compile(ragged_plan_, gpus).get());
  }

  const ModelPlan ragged_plan_ = PlanOfRaggedIds();
  const std::vector<ModelPlan> plans_ = {ragged_plan_, PullingAhead(ragged_plan_)};
};

// Memory for them is not to be had when they are staged, and is when the step begins.
TEST_F(StagedRaggedIdsTest, MayBecomeMore) {
  for (const ModelPlan& plan : plans_) {
    for (const int gpus : OneAndSeveral()) {
      const std::unique_ptr<Model> model = Compile(plan, gpus);
      for (const size_t ids : {8, 400, 600, 9}) {
        const Batch batch = BatchOf(ids);
        const GivenByStep expected = Expected(batch, gpus);
        if (ids == 600) cuda_emulation::FailAllocation(1);  // Of the emulated one.
        model->Stage(&batch);
        EXPECT_EQ(GivenBy(batch, 0, ragged_plan_, model.get()), expected)
            << ids << " ids on " << gpus << " GPUs";
      }
    }
  }
  EXPECT_THAT(lost_, IsEmpty());
}

TEST_F(StagedRaggedIdsTest, MayBecomeMoreAfterABatchThatIsDropped) {
  for (const ModelPlan& plan : plans_) {
    for (const uint64_t order : {0, 1, 2, 3, 4, 5}) {
      SCOPED_TRACE(order);
      const Batch before = BatchOf(8);
      const Batch dropped = BatchOf(12);
      const Batch batch = BatchOf(400);
      const GivenByStep expected = Expected(batch, 1);
      cuda_emulation::SetOrder(order);
      const std::unique_ptr<Model> model = Compile(plan, /*gpus=*/1);
      GivenBy(before, 0, ragged_plan_, model.get());
      model->Stage(&dropped);
      model->Stage(&batch);
      EXPECT_EQ(GivenBy(batch, 0, ragged_plan_, model.get()), expected);
    }
  }
}

// Their places are the running step's.
TEST_F(StagedRaggedIdsTest, AreNotTakenWhileAStepComputes) {
  for (const int gpus : OneAndSeveral()) {
    const std::unique_ptr<Model> model = Compile(PullingAhead(ragged_plan_), gpus);
    for (const size_t ids : {8, 400, 9}) {
      const Batch batch = BatchOf(ids);
      const Batch next = BatchOf(2 * ids);
      bool taken = true;
      KeptGradients gradients(ragged_plan_, [&] { taken = model->Stage(&next); });
      TrainOrDie(batch, 0, model.get(), &gradients);
      EXPECT_FALSE(taken);
      EXPECT_EQ(gradients.gradients(), Expected(batch, gpus).gradients) << ids;
      EXPECT_EQ(GivenBy(next, 0, ragged_plan_, model.get()), Expected(next, gpus)) << ids;
    }
  }
}

TEST_F(StagedBatchesTest, IdsOfTheNextBatchComeWhileAStepComputes) {
  ExampleSpec examples = FloatsAndClass({3}, 3);
  examples.features[0].type = ElementType::kId;
  examples.features[0].limit = 9;
  const ModelPlan plan = PlanOrDie(
      "layers { embedding { input_dim: 9 output_dim: 5 pooling: MEAN } } "
      "layers { dense { units: 3 } } loss: SPARSE_CATEGORICAL_CROSSENTROPY",
      examples);
  const auto batch_of = [](size_t size) {
    Batch batch;
    batch.size = size;
    batch.features.resize(1);
    for (size_t i = 0; i < 3 * size; ++i) {
      batch.features[0].ids.push_back(static_cast<int64_t>((i * 7 + size) % 9));
    }
    batch.labels = {IdTensor(std::vector<int64_t>(size, 1))};
    return batch;
  };
  for (const int gpus : OneAndMore()) {
    const std::unique_ptr<Model> other = Compile(plan, gpus);
    for (const uint64_t order : {0, 1, 2, 3, 4, 5}) {
      SCOPED_TRACE(::testing::Message() << gpus << " GPUs, order " << order);
      cuda_emulation::SetOrder(order);
      const std::unique_ptr<Model> model = Compile(PullingAhead(plan), gpus);
      for (const size_t size : {7, 4, 1}) {
        const Batch first = batch_of(size);
        const Batch second = batch_of(size == 7 ? 6 : 7);
        bool taken = false;
        KeptGradients gradients(plan, [&] { taken = model->Stage(&second); });
        TrainOrDie(first, 3, model.get(), &gradients);
        EXPECT_TRUE(taken);
        EXPECT_EQ(gradients.gradients(), GivenBy(first, 3, plan, other.get()).gradients);
        EXPECT_EQ(GivenBy(second, 3, plan, model.get()), GivenBy(second, 3, plan, other.get()));
      }
    }
  }
}

TEST_F(StagedBatchesTest, ABatchThatTheModelDoesNotTakeIsTheStepsError) {
  const std::unique_ptr<Model> model = Compile(plan_, Several());
  Batch batch = RandomPictures(7);
  batch.labels[0].ids[3] = 4;
  model->Stage(&batch);
  KeptGradients gradients(plan_);
  EXPECT_EQ(model->Train(batch, 0, &gradients).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(StagedBatchesTest, ALossThatIsFoundThenIsToldAndTheStepsError) {
  MILLRACE_NEEDS_EMULATION();
  for (const int gpus : OneAndSeveral()) {
    StartAnew(/*order=*/0);
    lost_.clear();
    const std::unique_ptr<Model> model = Compile(plan_, gpus);
    const Batch batch = RandomPictures(7);
    cuda_emulation::LoseDevice();
    model->Stage(&batch);
    ASSERT_THAT(lost_, SizeIs(1));
    EXPECT_EQ(lost_[0].code(), absl::StatusCode::kUnavailable);
    KeptGradients gradients(plan_);
    EXPECT_EQ(model->Train(batch, 0, &gradients).status().code(), absl::StatusCode::kUnavailable);
    cuda_emulation::Reset();  // A lost device takes nothing back.
  }
}

TEST_F(StagedBatchesTest, AStagedStepThatDoesNotEndLosesTheDeviceAndNothingIsStagedAfterIt) {
  MILLRACE_NEEDS_EMULATION();
  options_.timeout = absl::Seconds(1);
  options_.shared = std::make_shared<SharedGpus>();
  const Batch batch = RandomPictures(7);
  const std::unique_ptr<Model> model = Compile(plan_, Several());
  model->Stage(&batch);
  cuda_emulation::HangKernel(3);
  KeptGradients gradients(plan_);
  const absl::Status status = model->Train(batch, 0, &gradients).status();
  EXPECT_EQ(status, absl::UnavailableError("cuda:0,1: has not finished a step within 1 s"));
  ASSERT_THAT(lost_, SizeIs(1));
  EXPECT_EQ(lost_[0], status);
  model->Stage(&batch);
  EXPECT_EQ(model->Train(batch, 0, &gradients).status(), status);
}

TEST_F(StagedBatchesTest, AModelMayEndWithABatchThatIsStaged) {
  MILLRACE_NEEDS_EMULATION();
  const cuda_emulation::Usage before = cuda_emulation::InUse();
  for (const uint64_t order : {0, 1, 2}) {
    cuda_emulation::SetOrder(order);
    const Batch batch = RandomPictures(7);
    Compile(plan_, Several())->Stage(&batch);
  }
  EXPECT_EQ(cuda_emulation::InUse(), before);
}

}  // namespace
}  // namespace millrace::worker
