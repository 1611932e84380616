#include <memory>
#include <thread>

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
using ::testing::HasSubstr;
using worker::DeviceMemory;

// A step of a model: what was computed leaves on the other stream.
class GraphTest : public GpuTest {
 protected:
  void Enqueue() {
    gpu_->Add(part_.As(), kCount, sum_.As());
    gpu_->Record(Stream::kCompute, added_.get());
    gpu_->WaitFor(Stream::kCopyOut, *added_);
    gpu_->CopyOut(Stream::kCopyOut, out_.data(), sum_.As(), out_.bytes());
    gpu_->Record(Stream::kCopyOut, copied_.get());
    gpu_->CopyIn(Stream::kCompute, part_.As(), zeros_.data(), zeros_.bytes());
    gpu_->WaitFor(Stream::kCompute, *copied_);
  }

  std::unique_ptr<Graph> Capture() {
    gpu_->BeginCapture();
    Enqueue();
    return gpu_->EndCapture();
  }

  // As outside of captures, with another number to add for each launch. Fails where an event still
  // says done of the launch before, right after the next one: CUDA promises nothing else in so many
  // words. What trains does not rely on it: gradients bring the number of their step along
  // (CudaGradients).
  void ExpectLaunchesAdd(const Graph& graph) {
    gpu_->CopyIn(Stream::kCompute, sum_.As(), zeros_.data(), zeros_.bytes());
    float expected = 0;
    for (int launch = 1; launch <= 4; ++launch) {
      in_.Fill(static_cast<float>(launch));
      gpu_->CopyIn(Stream::kCompute, part_.As(), in_.data(), in_.bytes());
      gpu_->Launch(graph);
      ASSERT_TRUE(gpu_->HostWaitFor(*copied_, kPatience));
      expected += static_cast<float>(launch);
      EXPECT_THAT(out_.Values(), Each(expected)) << launch;
    }
  }

  PinnedFloats in_{gpu_.get(), kCount, 1};
  PinnedFloats out_{gpu_.get(), kCount, 0};
  PinnedFloats zeros_{gpu_.get(), kCount, 0};
  DeviceMemory part_{gpu_.get(), in_.bytes()};
  DeviceMemory sum_{gpu_.get(), in_.bytes()};
  std::unique_ptr<Event> added_ = gpu_->MakeEvent();
  std::unique_ptr<Event> copied_ = gpu_->MakeEvent();
};

TEST_F(GraphTest, CapturedWorkDoesNotRunBeforeItIsLaunched) {
  const uint64_t before = cuda_emulation::Counted().kernels;
  const auto graph = Capture();
  WaitFor(Stream::kCompute);
  WaitFor(Stream::kCopyOut);
  EXPECT_EQ(cuda_emulation::Counted().kernels, before);
  EXPECT_THAT(out_.Values(), Each(0));
  ExpectLaunchesAdd(*graph);
}

// A handle of cuBLASLt that is destroyed breaks off what is captured on its device; so would a
// trial of a product that waited for all of the device.
TEST_F(GraphTest, ModelsOfOtherThreadsMayComeAndGoWhileWorkIsCaptured) {
  auto other = worker::OpenTestGpu();
  gpu_->BeginCapture();
  std::thread([&other] {
    other.reset();
    DenseDescription dense;
    dense.rows = 1;
    dense.inputs = 3;
    dense.units = 4;
    dense.function = Function::kRelu;
    worker::OpenTestGpu()->Make(dense)->Prepare(/*batch=*/5, /*training=*/true);
  }).join();
  Enqueue();
  ExpectLaunchesAdd(*gpu_->EndCapture());
}

TEST_F(GraphTest, EachLaunchRecordsItsEventsAgainInEveryOrderOfStreams) {
  const auto graph = Capture();
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    cuda_emulation::SetOrder(seed);
    ExpectLaunchesAdd(*graph);
  }
}

TEST_F(GraphTest, AnOrderEventOrdersTheWorkAndIsNoNode) {
  const uint64_t at_first = cuda_emulation::Counted().graph_nodes;
  Capture();
  const uint64_t with_all = cuda_emulation::Counted().graph_nodes;
  added_ = gpu_->MakeOrderEvent();
  const auto graph = Capture();
  if (!worker::OnRealGpu()) {
    EXPECT_EQ(cuda_emulation::Counted().graph_nodes - with_all, with_all - at_first - 1);
  }
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    cuda_emulation::SetOrder(seed);
    ExpectLaunchesAdd(*graph);
  }
}

TEST_F(GraphTest, EventsServeSeveralGraphsAndWorkOutsideOfThem) {
  const auto first = Capture();
  ExpectLaunchesAdd(*first);
  Enqueue();
  EXPECT_TRUE(gpu_->HostWaitFor(*copied_, kPatience));
  const auto second = Capture();
  ExpectLaunchesAdd(*second);
  ExpectLaunchesAdd(*first);
}

TEST_F(GraphTest, GraphWaitsForAnEventFromOutsideAsItIsWhenLaunched) {
  const auto summed = gpu_->MakeEvent();
  gpu_->BeginCapture();
  gpu_->WaitFor(Stream::kCompute, *copied_);
  gpu_->Add(part_.As(), kCount, sum_.As());
  gpu_->Record(Stream::kCompute, summed.get());
  const auto graph = gpu_->EndCapture();
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    cuda_emulation::SetOrder(seed);
    gpu_->CopyIn(Stream::kCompute, sum_.As(), zeros_.data(), zeros_.bytes());
    in_.Fill(static_cast<float>(seed));
    WaitFor(Stream::kCompute);
    gpu_->CopyIn(Stream::kCopyOut, part_.As(), in_.data(), in_.bytes());
    gpu_->Record(Stream::kCopyOut, copied_.get());
    gpu_->Launch(*graph);
    gpu_->WaitFor(Stream::kCopyOut, *summed);
    gpu_->CopyOut(Stream::kCopyOut, out_.data(), sum_.As(), out_.bytes());
    WaitFor(Stream::kCopyOut);
    EXPECT_THAT(out_.Values(), Each(static_cast<float>(seed))) << seed;
  }
}

TEST_F(GraphTest, StreamThatIsNotWaitedForIsAnErrorOfTheCapture) {
  gpu_->BeginCapture();
  gpu_->Record(Stream::kCompute, added_.get());
  gpu_->WaitFor(Stream::kCopyOut, *added_);
  gpu_->CopyOut(Stream::kCopyOut, out_.data(), sum_.As(), out_.bytes());
  const Error error = ErrorOf([&] { gpu_->EndCapture(); });
  EXPECT_EQ(error.kind(), Error::kOther);
  EXPECT_THAT(error.what(), HasSubstr("cudaStreamEndCapture: cudaErrorStreamCaptureUnjoined: "));
  ExpectLaunchesAdd(*Capture());
}

TEST_F(GraphTest, GpuMayEndWhileItCaptures) {
  auto other = worker::OpenTestGpu();
  other->BeginCapture();
  other.reset();
  ExpectLaunchesAdd(*Capture());
}

}  // namespace
}  // namespace millrace::cuda
