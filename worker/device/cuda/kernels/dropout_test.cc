#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/device/cuda/gpu_test_util.h"
#include "worker/device/cuda/layer_test_util.h"

namespace millrace::worker {
namespace {

LayerCase CaseOfRate(double rate, const Shape& shape, size_t batch) {
  return MakeLayerCase(absl::StrCat("dropout { rate: ", rate, " }"), {shape}, batch);
}

TEST(DropoutKernelTest, MasksAreTheCpusBitByBit) {
  for (const double rate : {0.0, 0.1, 0.5, 0.99}) {
    for (const Shape& shape : std::vector<Shape>{{1}, {31}, {5, 7, 9}, {4099}}) {
      for (const size_t batch : {1, 3}) ExpectLikeCpu(CaseOfRate(rate, shape, batch), 0);
    }
  }
}

TEST(DropoutKernelTest, SeedsAndPlacesInTheModelAreTheCpus) {
  LayerCase c = CaseOfRate(0.5, {100}, 2);
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}, uint64_t{1} << 63}) {
    for (const size_t index : {0, 1, 9999}) {
      c.seed = seed;
      c.index = index;
      ExpectLikeCpu(c, 0);
    }
  }
}

TEST(DropoutKernelTest, MoreExamplesAndElementsThanAGridHas) {
  ExpectLikeCpu(CaseOfRate(0.5, {2}, 33000), 0);
  ExpectLikeCpu(CaseOfRate(0.5, {1100000}, 1), 0);
}

TEST(DropoutKernelTest, EvaluationIsTheIdentity) {
  LayerCase c = CaseOfRate(0.5, {100}, 3);
  c.training = false;
  ExpectLikeCpu(c, 0);
  EXPECT_EQ(RunOnGpu(c).y, c.x[0]);
}

TEST(DropoutKernelTest, WhatIsDroppedIsZeroWhateverItWas) {
  LayerCase c = CaseOfRate(0.5, {100}, 1);
  c.x[0].assign(100, kNan);
  ExpectLikeCpu(c, 0);
}

}  // namespace
}  // namespace millrace::worker
