#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/cuda_emulation/control.h"
#include "worker/device/cuda/gpu_test_util.h"
#include "worker/device/cuda/kernels/testing/gpu_fixture.h"
#include "worker/device/cuda/library.h"
#include "worker/device/cuda/test_library.h"

namespace millrace::cuda {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using worker::DeviceMemory;
using worker::OnDevice;
using worker::OnRealGpu;

TEST_F(GpuTest, SaysWhatItIs) {
  MILLRACE_NEEDS_EMULATION();
  cuda_emulation::SetMemory(size_t{1} << 24);
  void* const memory = gpu_->Allocate(size_t{1} << 20);
  const GpuProperties properties = gpu_->Properties();
  gpu_->Free(memory);
  EXPECT_EQ(properties.name, "Emulated GPU");
  EXPECT_EQ(properties.major, 9);
  EXPECT_EQ(properties.minor, 0);
  EXPECT_EQ(properties.products, "cuBLASLt 13.1.0");
  EXPECT_EQ(properties.memory, size_t{1} << 24);
  EXPECT_LE(properties.free, properties.memory - (size_t{1} << 20));
  EXPECT_GT(properties.free, size_t{1} << 22);
}

TEST_F(GpuTest, CopiesWhatIsComputedInBetween) {
  PinnedFloats in(gpu_.get(), kCount, 3), out(gpu_.get(), kCount, 0);
  DeviceMemory part(gpu_.get(), in.bytes()), sum(gpu_.get(), in.bytes());
  gpu_->CopyIn(Stream::kCompute, part.As(), in.data(), in.bytes());
  gpu_->CopyIn(Stream::kCompute, sum.As(), in.data(), in.bytes());
  for (int i = 0; i < 3; ++i) gpu_->Add(part.As(), kCount, sum.As());
  gpu_->CopyOut(Stream::kCompute, out.data(), sum.As(), in.bytes());
  WaitFor(Stream::kCompute);
  EXPECT_THAT(out.Values(), Each(12));
}

TEST_F(GpuTest, CopiesFromOnePlaceOnTheDeviceToAnother) {
  PinnedFloats in(gpu_.get(), kCount, 3), out(gpu_.get(), kCount, 0);
  DeviceMemory from(gpu_.get(), in.bytes()), to(gpu_.get(), in.bytes());
  gpu_->CopyIn(Stream::kCopyIn, from.As(), in.data(), in.bytes());
  gpu_->CopyWithin(Stream::kCopyIn, to.As(), from.As(), in.bytes());
  gpu_->CopyOut(Stream::kCopyIn, out.data(), to.As(), in.bytes());
  WaitFor(Stream::kCopyIn);
  EXPECT_THAT(out.Values(), Each(3));
}

TEST_F(GpuTest, NothingIsCopiedOrComputedOfNothing) {
  MILLRACE_NEEDS_EMULATION();
  const uint64_t before = cuda_emulation::Counted().copies + cuda_emulation::Counted().kernels;
  gpu_->CopyIn(Stream::kCompute, nullptr, nullptr, 0);
  gpu_->CopyOut(Stream::kCopyOut, nullptr, nullptr, 0);
  gpu_->CopyWithin(Stream::kCopyIn, nullptr, nullptr, 0);
  gpu_->Add(nullptr, 0, nullptr);
  WaitFor(Stream::kCompute);
  EXPECT_EQ(cuda_emulation::Counted().copies + cuda_emulation::Counted().kernels, before);
}

TEST_F(GpuTest, ArraysAreChangedElementByElement) {
  const auto values = OnDevice<float>(gpu_.get(), {1, -2, 0, 4});
  gpu_->Divide(8, 4, values->As());
  EXPECT_THAT(values->Values(), ElementsAre(0.125f, -0.25f, 0, 0.5f));
  const auto bytes = OnDevice<uint8_t>(gpu_.get(), {0, 1, 127, 255});
  gpu_->ToFloats(bytes->As<uint8_t>(), 4, values->As());
  EXPECT_THAT(values->Values(), ElementsAre(0, 1, 127, 255));
}

TEST_F(GpuTest, RegularizersOfManyVariablesAreAddedByFewKernels) {
  const auto values = OnDevice<float>(gpu_.get(), {1, -2, 0, 4, 3});
  std::vector<std::unique_ptr<DeviceMemory>> gradients;
  std::vector<Regularized> variables;
  for (size_t i = 0; i < 150; ++i) {
    gradients.push_back(OnDevice<float>(gpu_.get(), {10, 20, 30, 40, 50}));
    variables.push_back({values->As(), gradients[i]->As(), /*count=*/i % 6, /*l1=*/0.5f,
                         /*twice_l2=*/static_cast<float>(i)});
  }
  const uint64_t before = cuda_emulation::Counted().launches;
  gpu_->AddRegularizers(variables);
  gpu_->AddRegularizers({});
  if (!OnRealGpu()) {
    EXPECT_EQ(cuda_emulation::Counted().launches - before, 3);
  }
  for (size_t i = 0; i < gradients.size(); ++i) {
    const auto l2 = static_cast<float>(i);
    std::vector<float> expected = {10, 20, 30, 40, 50};
    const std::vector<float> added = {0.5f + l2, -0.5f - 2 * l2, 0, 0.5f + 4 * l2, 0.5f + 3 * l2};
    for (size_t k = 0; k < i % 6; ++k) expected[k] += added[k];
    EXPECT_EQ(gradients[i]->Values(), expected) << i;
  }
}

TEST_F(GpuTest, RegularizersOfALargeVariableHaveAKernelOfTheirOwn) {
  constexpr size_t kLarge = 80003;
  const auto values = OnDevice(gpu_.get(), std::vector<float>(kLarge, 2));
  const auto large = OnDevice(gpu_.get(), std::vector<float>(kLarge, 10));
  const auto first = OnDevice<float>(gpu_.get(), {1, 1, 1, 1, 1});
  const auto last = OnDevice<float>(gpu_.get(), {2, 2, 2});
  const uint64_t before = cuda_emulation::Counted().launches;
  gpu_->AddRegularizers({{values->As(), first->As(), /*count=*/5, /*l1=*/1, /*twice_l2=*/0},
                         {values->As(), large->As(), kLarge, /*l1=*/1, /*twice_l2=*/0.5f},
                         {values->As(), last->As(), /*count=*/3, /*l1=*/0, /*twice_l2=*/1}});
  if (!OnRealGpu()) {
    EXPECT_EQ(cuda_emulation::Counted().launches - before, 2);
  }
  EXPECT_THAT(first->Values(), Each(2));
  EXPECT_THAT(large->Values(), Each(12));
  EXPECT_THAT(last->Values(), Each(4));
}

TEST_F(GpuTest, ArraysOfAnySizeAtAnyPlaceAreAdded) {
  for (const size_t count : {1, 2, 3, 4, 5, 7, 1023, 1028}) {
    for (const size_t offset : {0, 1, 3, 4}) {
      const auto part = OnDevice(gpu_.get(), std::vector<float>(count + offset, 2));
      const auto sum = OnDevice(gpu_.get(), std::vector<float>(count + offset, 1));
      gpu_->Add(part->As() + offset, count, sum->As() + offset);
      std::vector<float> expected(count + offset, 3);
      std::fill_n(expected.begin(), offset, 1.0f);
      EXPECT_EQ(sum->Values(), expected) << count << " from " << offset;
    }
  }
}

TEST_F(GpuTest, BytesOfAnyNumberAtAnyPlaceBecomeFloats) {
  for (const size_t count : {1, 3, 4, 5, 1023}) {
    for (const size_t offset : {0, 1, 4}) {
      for (const size_t shift : {0, 1, 4}) {
        std::vector<uint8_t> bytes(offset + count);
        std::vector<float> expected(offset + shift + count + 1, 9);
        for (size_t i = 0; i < count; ++i) {
          bytes[offset + i] = static_cast<uint8_t>(255 - i);
          expected[offset + shift + i] = bytes[offset + i];
        }
        const auto from = OnDevice(gpu_.get(), bytes);
        const auto to = OnDevice(gpu_.get(), std::vector<float>(expected.size(), 9));
        gpu_->ToFloats(from->As<uint8_t>() + offset, count, to->As() + offset + shift);
        EXPECT_EQ(to->Values(), expected) << count << " " << offset << " " << shift;
      }
    }
  }
}

TEST_F(GpuTest, MoreElementsThanThreadsAreAllChanged) {
  constexpr size_t kMany = 4 * 4096 * 256 + 1003;
  const auto bytes = OnDevice(gpu_.get(), std::vector<uint8_t>(kMany, 7));
  DeviceMemory floats(gpu_.get(), kMany * sizeof(float));
  gpu_->ToFloats(bytes->As<uint8_t>(), kMany, floats.As());
  EXPECT_THAT(floats.Values(), Each(7));
}

TEST_F(GpuTest, CopyingStreamWaitsForAnEvent) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    PinnedFloats out(gpu_.get(), kCount, 0);
    const auto part = OnDevice(gpu_.get(), std::vector<float>(kCount, 1));
    const auto sum = OnDevice(gpu_.get(), std::vector<float>(kCount, 1));
    cuda_emulation::SetOrder(seed);
    const auto added = gpu_->MakeEvent();
    gpu_->Add(part->As(), kCount, sum->As());
    gpu_->Record(Stream::kCompute, added.get());
    gpu_->WaitFor(Stream::kCopyOut, *added);
    gpu_->CopyOut(Stream::kCopyOut, out.data(), sum->As(), out.bytes());
    WaitFor(Stream::kCopyOut);
    EXPECT_THAT(out.Values(), Each(2)) << seed;
  }
}

TEST_F(GpuTest, HostDoesNotWaitForAnEventThatWasNeverRecorded) {
  EXPECT_TRUE(gpu_->HostWaitFor(*gpu_->MakeEvent(), /*seconds=*/0));
}

TEST_F(GpuTest, HostWaitsNoLongerThanItsDeadline) {
  MILLRACE_NEEDS_EMULATION();
  const auto sum = OnDevice<float>(gpu_.get(), {1});
  const auto added = gpu_->MakeEvent();
  cuda_emulation::HangKernel(1);
  gpu_->Add(sum->As(), 1, sum->As());
  gpu_->Record(Stream::kCompute, added.get());
  EXPECT_FALSE(gpu_->HostWaitFor(*added, /*seconds=*/0));
  EXPECT_FALSE(gpu_->HostWaitFor(*added, /*seconds=*/0.002));
  cuda_emulation::Reset();
}

TEST_F(GpuTest, LeavesNothingBehind) {
  MILLRACE_NEEDS_EMULATION();
  gpu_.reset();
  const auto before = cuda_emulation::InUse();
  {
    const auto gpu = worker::OpenTestGpu();
    const auto event = gpu->MakeEvent();
    gpu->BeginCapture();
    gpu->Record(Stream::kCompute, event.get());
    const auto graph = gpu->EndCapture();
    gpu->Launch(*graph);
    EXPECT_TRUE(gpu->HostWaitFor(*event, kPatience));
    EXPECT_EQ(cuda_emulation::InUse().streams, before.streams + 4);
  }
  EXPECT_EQ(cuda_emulation::InUse(), before);
}

TEST_F(GpuTest, WorkGoesToTheGpuThatIsAskedForIt) {
  MILLRACE_NEEDS_EMULATION();
  cuda_emulation::SetDeviceCount(2);
  const auto other = worker::TestLibrary()->Open(1, {});
  int device = -1;
  gpu_->MakeEvent();
  cudaGetDevice(&device);
  EXPECT_EQ(device, 0);
  other->MakeEvent();
  cudaGetDevice(&device);
  EXPECT_EQ(device, 1);
  std::unique_ptr<Event> event = gpu_->MakeEvent();
  other->MakeEvent();
  event.reset();
  cudaGetDevice(&device);
  EXPECT_EQ(device, 0);
  const std::unique_ptr<Layer> layer = gpu_->Make(RescalingDescription());
  other->MakeEvent();
  layer->WorkspaceBytes(1);
  cudaGetDevice(&device);
  EXPECT_EQ(device, 0);
}

// The parts that sums are cut into do not become more with each example.
TEST_F(GpuTest, WorkspaceIsEnoughForSmallerBatches) {
  BatchNormalizationDescription batch_normalization;
  batch_normalization.rows = 14 * 14;
  batch_normalization.channels = 32;
  batch_normalization.trained = true;
  LayerNormalizationDescription layer_normalization;
  layer_normalization.rows = 14 * 14;
  layer_normalization.columns = 32;
  layer_normalization.trained = true;
  ConvolutionDescription convolution;
  convolution.window = {{28, 28, 1}, {28, 28, 16}, {3, 3}, {1, 1}, {1, 1}, {1, 1}};
  convolution.variables = {0, -1};
  convolution.trained = true;
  std::vector<std::unique_ptr<Layer>> layers;
  layers.push_back(gpu_->Make(batch_normalization));
  layers.push_back(gpu_->Make(layer_normalization));
  layers.push_back(gpu_->Make(convolution));
  for (const auto& layer : layers) {
    for (size_t batch = 1; batch < 1000; ++batch) {
      ASSERT_LE(layer->WorkspaceBytes(batch), layer->WorkspaceBytes(batch + 1)) << batch;
    }
  }
}

}  // namespace
}  // namespace millrace::cuda
