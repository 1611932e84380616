// Values that a model on a GPU is told of as they come.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/cuda_emulation/control.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/test_library.h"
#include "worker/device/model_tests/model_test_util.h"

namespace millrace::worker {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;

struct ValuePiece {
  size_t variable = 0;
  size_t first = 0;
  size_t count = 0;
};

class ArrivingModelTest : public ::testing::Test {
 protected:
  ArrivingModelTest() { cuda_emulation::Reset(); }
  ~ArrivingModelTest() override { cuda_emulation::Reset(); }

  std::unique_ptr<Model> Compile() {
    auto device = *CudaDevice::Open(TestLibrary(), {},
                                    [this](const absl::Status& why) { lost_.push_back(why); });
    return *device->Compile(plan_, {4, 4});
  }

  ModelValues ValuesOf(uint64_t seed) const {
    std::mt19937 random(static_cast<uint32_t>(seed));
    ModelValues values;
    for (const VariableSpec& variable : plan_.variables) {
      const auto& shape = variable.shape();
      values.emplace_back(ElementCount({shape.begin(), shape.end()}));
      for (float& x : values.back()) x = static_cast<float>(random() % 2000) / 2000;
    }
    return values;
  }

  // Of up to 5 elements, in an order that follows from the seed.
  std::vector<ValuePiece> PiecesOf(uint64_t seed) const {
    std::vector<ValuePiece> pieces;
    const ModelValues values = ValuesOf(0);
    for (size_t v = 0; v < values.size(); ++v) {
      for (size_t i = 0; i < values[v].size(); i += 5) {
        pieces.push_back({v, i, std::min<size_t>(5, values[v].size() - i)});
      }
    }
    std::shuffle(pieces.begin(), pieces.end(), std::mt19937(static_cast<uint32_t>(seed)));
    return pieces;
  }

  // As a pull begins.
  std::vector<absl::Span<float>> Places(Model* model) const {
    std::vector<absl::Span<float>> places;
    for (size_t v = 0; v < plan_.variables.size(); ++v) places.push_back(model->values(v));
    return places;
  }

  static void Bring(const ModelValues& values, const ValuePiece& piece,
                    const std::vector<absl::Span<float>>& places, Model* model) {
    std::copy_n(values[piece.variable].begin() + static_cast<ptrdiff_t>(piece.first), piece.count,
                places[piece.variable].begin() + static_cast<ptrdiff_t>(piece.first));
    model->Arrived(piece.variable, piece.first, piece.count);
  }

  void BringAll(const ModelValues& values, uint64_t seed, Model* model) {
    const auto places = Places(model);
    for (const ValuePiece& piece : PiecesOf(seed)) Bring(values, piece, places, model);
  }

  ModelValues GradientsOf(Model* model) {
    KeptGradients gradients(plan_);
    TrainOrDie(batch_, /*seed=*/3, model, &gradients);
    return gradients.gradients();
  }

  // On values that are all copied when the step begins.
  ModelValues Expected(const ModelValues& values) {
    const std::unique_ptr<Model> model = Compile();
    WriteValues(values, model.get());
    return GradientsOf(model.get());
  }

  // Lets the device do what is enqueued.
  void LetItCopy() { Expected(ValuesOf(0)); }

  const ModelPlan plan_ = PlanOrDie(R"pb(
                                      layers { dense { units: 12 activation: TANH } }
                                      layers { batch_normalization {} }
                                      layers { dense { units: 5 activation: TANH } }
                                      layers { dense { units: 4 } }
                                      loss: SPARSE_CATEGORICAL_CROSSENTROPY
                                    )pb",
                                    {7}, 4);
  const Batch batch_ = RandomBatch(/*seed=*/1, 4, {7}, 4);
  std::vector<absl::Status> lost_;
};

TEST_F(ArrivingModelTest, PiecesInAnyOrderGiveTheBitsOfACopyOfAll) {
  const ModelValues first = Expected(ValuesOf(1));
  const ModelValues second = Expected(ValuesOf(2));
  ASSERT_NE(first, second);
  for (const uint64_t order : {0, 1, 2, 3, 4, 5}) {
    cuda_emulation::SetOrder(order);
    const std::unique_ptr<Model> model = Compile();
    for (int turn = 0; turn < 2; ++turn) {
      BringAll(ValuesOf(1), order, model.get());
      EXPECT_EQ(GradientsOf(model.get()), first) << order;
      EXPECT_EQ(GradientsOf(model.get()), first) << order;  // On values that it has.
      BringAll(ValuesOf(2), order + 7, model.get());
      EXPECT_EQ(GradientsOf(model.get()), second) << order;
    }
  }
}

TEST_F(ArrivingModelTest, HeldValuesDoNotGoToTheDeviceAgain) {
  MILLRACE_NEEDS_EMULATION();
  const std::unique_ptr<Model> model = Compile();
  BringAll(ValuesOf(1), /*order=*/1, model.get());
  const ModelValues expected = GradientsOf(model.get());
  const auto copies_of_a_step = [&] {
    const uint64_t before = cuda_emulation::Counted().copies;
    EXPECT_EQ(GradientsOf(model.get()), expected);
    return cuda_emulation::Counted().copies - before;
  };
  const uint64_t copies = copies_of_a_step();
  for (size_t v = 0; v < plan_.variables.size(); ++v) {
    EXPECT_EQ(model->held_values(v)[0], ValuesOf(1)[v][0]);
  }
  EXPECT_EQ(copies_of_a_step(), copies);
  for (size_t v = 0; v < plan_.variables.size(); ++v) model->values(v);
  EXPECT_GT(copies_of_a_step(), copies);
}

// As a server that does not know rows sends them.
TEST_F(ArrivingModelTest, HeldValuesMayComeAgain) {
  const std::unique_ptr<Model> model = Compile();
  BringAll(ValuesOf(1), /*order=*/1, model.get());
  const ModelValues expected = GradientsOf(model.get());
  for (size_t v = 0; v < plan_.variables.size(); ++v) {
    const absl::Span<float> place = model->held_values(v);
    std::copy_n(ValuesOf(1)[v].begin(), place.size(), place.begin());
    model->Arrived(v, 0, place.size());
  }
  EXPECT_EQ(GradientsOf(model.get()), expected);
}

// A pull that is asked for again brings the newest state, in the middle of an older one.
TEST_F(ArrivingModelTest, WhatIsToldOfLastCounts) {
  const ModelValues expected = Expected(ValuesOf(2));
  for (const bool copies_between : {false, true}) {
    for (const uint64_t order : {0, 1, 2, 3}) {
      cuda_emulation::SetOrder(order);
      const std::unique_ptr<Model> model = Compile();
      const auto places = Places(model.get());
      std::vector<ValuePiece> older = PiecesOf(order);
      older.resize(older.size() / 2);
      for (const ValuePiece& piece : older) Bring(ValuesOf(1), piece, places, model.get());
      if (copies_between) LetItCopy();
      for (const ValuePiece& piece : PiecesOf(order + 1)) {
        Bring(ValuesOf(2), piece, places, model.get());
      }
      EXPECT_EQ(GradientsOf(model.get()), expected) << order;
    }
  }
}

TEST_F(ArrivingModelTest, APullThatIsCalledOffLeavesNothingBehind) {
  const std::unique_ptr<Model> model = Compile();
  const auto places = Places(model.get());
  for (const ValuePiece& piece : PiecesOf(1)) {
    if (piece.variable != 1) Bring(ValuesOf(1), piece, places, model.get());
  }
  WriteValues(ValuesOf(2), model.get());
  EXPECT_EQ(GradientsOf(model.get()), Expected(ValuesOf(2)));
}

TEST_F(ArrivingModelTest, WhatIsWrittenDirectlyIsTakenBesideWhatArrives) {
  const std::unique_ptr<Model> model = Compile();
  WriteValues(ValuesOf(2), model.get());
  const auto places = Places(model.get());
  for (const ValuePiece& piece : PiecesOf(1)) {
    if (piece.variable % 2 == 0) Bring(ValuesOf(2), piece, places, model.get());
  }
  EXPECT_EQ(GradientsOf(model.get()), Expected(ValuesOf(2)));
  places[1][0] += 1;  // Of a variable that nobody has told of.
  ModelValues changed = ValuesOf(2);
  changed[1][0] += 1;
  EXPECT_EQ(GradientsOf(model.get()), Expected(changed));
}

TEST_F(ArrivingModelTest, ValuesThatTheDeviceHasAreNotCopiedAgain) {
  MILLRACE_NEEDS_EMULATION();
  const std::unique_ptr<Model> model = Compile();
  const auto copies_of_a_step = [&] {
    const uint64_t before = cuda_emulation::Counted().copies;
    GradientsOf(model.get());
    return cuda_emulation::Counted().copies - before;
  };
  copies_of_a_step();
  const uint64_t with_all = copies_of_a_step();
  BringAll(ValuesOf(1), 1, model.get());
  copies_of_a_step();
  EXPECT_EQ(copies_of_a_step(), with_all - 1);
}

// The host's memory is free then, the device's is not: dense layers' values count backwards, too.
TEST_F(ArrivingModelTest, ValuesOfTheNextStepComeWhileTheBackwardPassRuns) {
  const ModelPlan plan = PullingAhead(plan_);
  for (uint64_t order = 0; order < 16; ++order) {
    cuda_emulation::SetOrder(order);
    cuda_emulation::SetLateRecords(order >= 6);
    auto device = *CudaDevice::Open(TestLibrary(), {}, [](const absl::Status&) {});
    const std::unique_ptr<Model> model = *device->Compile(plan, {4, 4});
    BringAll(ValuesOf(1), order, model.get());
    for (const uint64_t step : {1, 2, 3}) {
      KeptGradients gradients(plan, [&] {
        std::vector<absl::Span<float>> places;
        for (size_t v = 0; v < plan.variables.size(); ++v) places.push_back(model->next_values(v));
        for (const ValuePiece& piece : PiecesOf(order)) {
          Bring(ValuesOf(step + 1), piece, places, model.get());
        }
      });
      ASSERT_TRUE(model->Train(batch_, /*seed=*/3, &gradients).ok());
      EXPECT_EQ(gradients.gradients(), Expected(ValuesOf(step))) << order;
      model->TakeNextValues();
    }
  }
}

// Of the pull that is called off some pieces came while a step computed.
TEST_F(ArrivingModelTest, APullAheadThatIsCalledOffLeavesNothingBehind) {
  const ModelPlan plan = PullingAhead(plan_);
  for (const uint64_t order : {0, 1, 2, 3, 4, 5}) {
    SCOPED_TRACE(order);
    cuda_emulation::SetOrder(order);
    auto device = *CudaDevice::Open(TestLibrary(), {}, [](const absl::Status&) {});
    const std::unique_ptr<Model> model = *device->Compile(plan, {4, 4});
    for (const bool is_told : {true, false}) {
      BringAll(ValuesOf(1), order, model.get());
      KeptGradients gradients(plan, [&] {
        std::vector<absl::Span<float>> places;
        for (size_t v = 0; v < plan.variables.size(); ++v) places.push_back(model->next_values(v));
        std::vector<ValuePiece> some = PiecesOf(order);
        some.resize(some.size() / 2);
        for (const ValuePiece& piece : some) Bring(ValuesOf(3), piece, places, model.get());
      });
      TrainOrDie(batch_, /*seed=*/3, model.get(), &gradients);
      EXPECT_EQ(gradients.gradients(), Expected(ValuesOf(1)));
      if (is_told) {
        BringAll(ValuesOf(2), order + 1, model.get());
      } else {
        WriteValues(ValuesOf(2), model.get());
      }
      EXPECT_EQ(GradientsOf(model.get()), Expected(ValuesOf(2)));
    }
  }
}

TEST_F(ArrivingModelTest, SeveralThreadsBringValues) {
  const ModelValues expected = Expected(ValuesOf(2));
  const ModelValues values = ValuesOf(2);
  const std::unique_ptr<Model> model = Compile();
  const auto places = Places(model.get());
  const std::vector<ValuePiece> pieces = PiecesOf(3);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = t; i < pieces.size(); i += 4) Bring(values, pieces[i], places, model.get());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(GradientsOf(model.get()), expected);
}

TEST_F(ArrivingModelTest, EvaluationTakesWhatArrived) {
  const std::unique_ptr<Model> model = Compile();
  const std::unique_ptr<Model> other = Compile();
  BringAll(ValuesOf(1), 1, model.get());
  WriteValues(ValuesOf(1), other.get());
  EvaluationSums sums, expected;
  ASSERT_TRUE(model->Evaluate(batch_, &sums).ok());
  ASSERT_TRUE(other->Evaluate(batch_, &expected).ok());
  EXPECT_EQ(sums.loss_sum, expected.loss_sum);
}

TEST_F(ArrivingModelTest, ALossThatIsFoundWhileValuesArriveIsTheStepsError) {
  MILLRACE_NEEDS_EMULATION();
  const std::unique_ptr<Model> model = Compile();
  const auto places = Places(model.get());
  const std::vector<ValuePiece> pieces = PiecesOf(1);
  Bring(ValuesOf(1), pieces[0], places, model.get());
  cuda_emulation::LoseDevice();
  EXPECT_THAT(lost_, IsEmpty());
  Bring(ValuesOf(1), pieces[1], places, model.get());
  ASSERT_THAT(lost_, Not(IsEmpty()));
  for (const ValuePiece& piece : pieces) Bring(ValuesOf(1), piece, places, model.get());
  KeptGradients gradients(plan_);
  const absl::Status status = model->Train(batch_, 0, &gradients).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status, lost_[0]);
  cuda_emulation::Reset();  // A lost device takes nothing back.
}

}  // namespace
}  // namespace millrace::worker
