#include "worker/device/cuda/arriving_values.h"

#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "worker/input/example_spec.h"

namespace millrace::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

// Two dense layers: of 12, 3, 6 and 2 elements, each with room for 64.
ModelPlan FourVariables() {
  ModelSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "layers { dense { units: 3 } } layers { dense { units: 2 } } "
      "loss: SPARSE_CATEGORICAL_CROSSENTROPY",
      &spec));
  return *PlanModel(spec, FloatsAndClass({4}, 2));
}

class ArrivingValuesTest : public ::testing::Test {
 protected:
  void Copy(size_t begin, size_t bytes) {
    if (fails_) throw cuda::Error(cuda::Error::kOther, "no");
    copies_.emplace_back(begin, bytes);
  }

  std::vector<std::pair<size_t, size_t>> Rest() {
    copies_.clear();
    arriving_.CopyRest();
    return copies_;
  }

  const ModelPlan plan_ = FourVariables();
  const VariablePlaces places_{plan_, PlanWalk(plan_)};
  ArrivingValues arriving_{places_, [this](size_t begin, size_t bytes) { Copy(begin, bytes); }};
  std::vector<std::pair<size_t, size_t>> copies_;  // From where on, and of how many bytes.
  bool fails_ = false;
};

TEST_F(ArrivingValuesTest, WhatNobodyTellsOfIsCopiedAtOnceInEachStep) {
  EXPECT_THAT(Rest(), ElementsAre(Pair(0, 3 * 256 + 8)));
  EXPECT_THAT(Rest(), ElementsAre(Pair(0, 3 * 256 + 8)));
}

TEST_F(ArrivingValuesTest, PiecesAreCopiedWhenTheyAreToldOfAndNotAgain) {
  arriving_.Arrived(1, 2, 1);
  arriving_.Arrived(1, 0, 2);
  EXPECT_THAT(copies_, ElementsAre(Pair(256 + 8, 4), Pair(256, 8)));
  EXPECT_THAT(Rest(), ElementsAre(Pair(0, 48), Pair(512, 256 + 8)));
  for (const size_t other : {0, 2, 3}) arriving_.Arrived(other, 0, 1);
  EXPECT_THAT(Rest(), IsEmpty());
  arriving_.Forget(2);
  EXPECT_THAT(Rest(), ElementsAre(Pair(512, 24)));
}

TEST_F(ArrivingValuesTest, AnErrorIsReturnedOnceAndThrownOnceAndThenAllIsCopied) {
  arriving_.Arrived(0, 0, 12);
  fails_ = true;
  const auto error = arriving_.Arrived(1, 0, 1);
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->kind(), cuda::Error::kOther);
  fails_ = false;
  EXPECT_FALSE(arriving_.Arrived(1, 1, 2).has_value());
  EXPECT_THROW(Rest(), cuda::Error);
  EXPECT_THAT(copies_, IsEmpty());
  EXPECT_THAT(Rest(), ElementsAre(Pair(0, 3 * 256 + 8)));
}

TEST_F(ArrivingValuesTest, ThatThereIsNoMemoryForACopyIsAnErrorOfMemory) {
  ArrivingValues arriving(places_, [](size_t, size_t) { throw std::bad_alloc(); });
  const auto error = arriving.Arrived(1, 0, 1);
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->kind(), cuda::Error::kMemory);
}

// Each thread writes its place again and again; the device copies late, and is not locked.
TEST_F(ArrivingValuesTest, TheLastThatAThreadToldOfIsTheLastThatIsCopied) {
  constexpr int kRounds = 1000;
  std::vector<float> host(4 * 64);
  std::vector<std::pair<size_t, float>> stream;
  ArrivingValues arriving(places_, [&](size_t begin, size_t) {
    stream.emplace_back(begin / sizeof(float), host[begin / sizeof(float)]);
  });
  std::vector<std::thread> threads;
  for (size_t variable = 0; variable < 4; ++variable) {
    threads.emplace_back([&, variable] {
      for (int round = 1; round <= kRounds; ++round) {
        host[variable * 64 + 1] = static_cast<float>(round);
        arriving.Arrived(variable, 1, 1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<float> device(host.size());
  for (const auto& [place, value] : stream) device[place] = value;
  EXPECT_EQ(stream.size(), 4u * kRounds);
  EXPECT_EQ(device, host);
}

}  // namespace
}  // namespace millrace::worker
