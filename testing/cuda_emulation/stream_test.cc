#include <functional>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/cuda_emulation/control.h"
#include "testing/cuda_emulation/device_vector.h"
#include "testing/cuda_emulation/test_kernels.h"

namespace cuda_emulation {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr uint64_t kStreamSeeds = 40;

// Two streams, an event, and pinned memory.
class StreamTest : public ::testing::Test {
 protected:
  StreamTest() {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    Reset();
    for (cudaStream_t* stream : {&compute_, &copies_}) {
      EXPECT_EQ(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), cudaSuccess);
    }
    EXPECT_EQ(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), cudaSuccess);
    EXPECT_EQ(cudaEventCreateWithFlags(&other_, cudaEventDisableTiming), cudaSuccess);
    EXPECT_EQ(cudaHostAlloc(&host_, kCount * sizeof(float), cudaHostAllocDefault), cudaSuccess);
  }
  ~StreamTest() override {
    Reset();
    EXPECT_EQ(cudaFreeHost(host_), cudaSuccess);
    for (cudaEvent_t event : {event_, other_}) EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
    for (cudaStream_t stream : {compute_, copies_}) {
      EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    }
    EXPECT_EQ(InUse(), Usage());
  }

  cudaError_t CopyOut(const DeviceVector<float>& from) {
    return cudaMemcpyAsync(host_, from.data(), kCount * sizeof(float), cudaMemcpyDeviceToHost,
                           copies_);
  }

  // Fills, doubles and copies; the copy is in another stream. Returns the last number.
  float DoubledAndCopied(uint64_t seed, bool with_event) {
    SetOrder(seed);
    const DeviceVector<float> in(kCount), out(kCount);
    host_[kCount - 1] = -1;
    EXPECT_EQ(LaunchNumber(compute_, kCount, 0, in.data()), cudaSuccess);
    EXPECT_EQ(LaunchDouble(compute_, kCount, in.data(), out.data()), cudaSuccess);
    EXPECT_EQ(cudaEventRecord(event_, compute_), cudaSuccess);
    if (with_event) {
      EXPECT_EQ(cudaStreamWaitEvent(copies_, event_), cudaSuccess);
    }
    EXPECT_EQ(CopyOut(out), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(copies_), cudaSuccess);
    return host_[kCount - 1];
  }

  // The graph of what `body` enqueues.
  cudaGraphExec_t Captured(const std::function<void()>& body) {
    EXPECT_EQ(cudaStreamBeginCapture(compute_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    body();
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(compute_, &graph), cudaSuccess);
    cudaGraphExec_t executable = nullptr;
    EXPECT_EQ(cudaGraphInstantiate(&executable, graph), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    return executable;
  }

  // What ending a capture returns after `body`.
  cudaError_t EndAfter(const std::function<void()>& body) {
    EXPECT_EQ(cudaStreamBeginCapture(compute_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    body();
    cudaGraph_t graph = nullptr;
    const cudaError_t error = cudaStreamEndCapture(compute_, &graph);
    if (graph != nullptr) {
      EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    }
    return error;
  }

  static constexpr size_t kCount = 100;
  cudaStream_t compute_ = nullptr, copies_ = nullptr;
  cudaEvent_t event_ = nullptr, other_ = nullptr;
  float* host_ = nullptr;
};

TEST_F(StreamTest, WithAnEventACopyInAnotherStreamSeesTheResult) {
  for (uint64_t seed = 0; seed < kStreamSeeds; ++seed) {
    EXPECT_EQ(DoubledAndCopied(seed, /*with_event=*/true), 198) << seed;
  }
}

TEST_F(StreamTest, WithoutTheEventItMissesTheResultForSomeSeed) {
  int missed = 0;
  for (uint64_t seed = 0; seed < kStreamSeeds; ++seed) {
    if (DoubledAndCopied(seed, /*with_event=*/false) != 198) ++missed;
  }
  EXPECT_GT(missed, 0);
  EXPECT_LT(missed, kStreamSeeds);
}

TEST_F(StreamTest, HostMemoryIsReadWhenTheCopyRuns) {
  const DeviceVector<float> device(1);
  host_[0] = 1;
  ASSERT_EQ(cudaMemcpyAsync(device.data(), host_, sizeof(float), cudaMemcpyHostToDevice, compute_),
            cudaSuccess);
  host_[0] = 2;
  EXPECT_THAT(device.Values(), ElementsAre(2));
}

TEST_F(StreamTest, QueriesAreNotReadyAtFirst) {
  const DeviceVector<float> out(kCount);
  EXPECT_EQ(cudaEventQuery(event_), cudaSuccess);
  ASSERT_EQ(LaunchNumber(compute_, kCount, 0, out.data()), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event_, compute_), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event_), cudaErrorNotReady);
  EXPECT_EQ(cudaEventQuery(event_), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event_), cudaSuccess);
}

TEST_F(StreamTest, ALateRecordOfAGraphIsNotFoundByTheFirstQueries) {
  const DeviceVector<float> out(kCount);
  const cudaGraphExec_t graph = Captured([&] {
    EXPECT_EQ(LaunchNumber(compute_, kCount, 0, out.data()), cudaSuccess);
    EXPECT_EQ(cudaEventRecordWithFlags(event_, compute_, cudaEventRecordExternal), cudaSuccess);
  });
  SetLateRecords(true);
  ASSERT_EQ(cudaGraphLaunch(graph, compute_), cudaSuccess);
  for (int i = 0; i < kLateQueries; ++i) EXPECT_EQ(cudaEventQuery(event_), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event_), cudaErrorNotReady);
  EXPECT_EQ(cudaEventQuery(event_), cudaSuccess);
  EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
}

TEST_F(StreamTest, LegacyStreamWaitsForBlockingStreams) {
  for (uint64_t seed = 0; seed < kStreamSeeds; ++seed) {
    SetOrder(seed);
    cudaStream_t blocking;
    ASSERT_EQ(cudaStreamCreate(&blocking), cudaSuccess);
    const DeviceVector<float> in(kCount), out(kCount);
    ASSERT_EQ(LaunchNumber(blocking, kCount, 0, in.data()), cudaSuccess);
    ASSERT_EQ(LaunchDouble(nullptr, kCount, in.data(), out.data()), cudaSuccess);
    ASSERT_EQ(cudaMemsetAsync(in.data(), 0, kCount * sizeof(float), blocking), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
    EXPECT_EQ(out.Values()[kCount - 1], 198) << seed;
    EXPECT_THAT(in.Values(), Each(0));
    ASSERT_EQ(cudaStreamDestroy(blocking), cudaSuccess);
  }
}

TEST_F(StreamTest, GraphsAreLaunchedAgainForNewValues) {
  for (uint64_t seed = 0; seed < kStreamSeeds; ++seed) {
    SetOrder(seed);
    const DeviceVector<float> in(kCount), out(kCount);
    const cudaGraphExec_t graph = Captured([&] {
      EXPECT_EQ(LaunchDouble(compute_, kCount, in.data(), out.data()), cudaSuccess);
      EXPECT_EQ(cudaEventRecord(event_, compute_), cudaSuccess);
      EXPECT_EQ(cudaStreamWaitEvent(copies_, event_), cudaSuccess);
      EXPECT_EQ(CopyOut(out), cudaSuccess);
      EXPECT_EQ(cudaEventRecordWithFlags(other_, copies_, cudaEventRecordExternal), cudaSuccess);
      EXPECT_EQ(cudaEventRecord(event_, copies_), cudaSuccess);
      EXPECT_EQ(cudaStreamWaitEvent(compute_, event_), cudaSuccess);
    });
    EXPECT_EQ(cudaEventQuery(other_), cudaSuccess);  // Nothing has run.
    for (int value : {1, 2, 3}) {
      const std::vector<float> values(kCount, static_cast<float>(value));
      ASSERT_EQ(cudaMemcpy(in.data(), values.data(), kCount * sizeof(float), cudaMemcpyDefault),
                cudaSuccess);
      ASSERT_EQ(cudaGraphLaunch(graph, compute_), cudaSuccess);
      EXPECT_EQ(cudaEventQuery(other_), cudaErrorNotReady);
      ASSERT_EQ(cudaEventSynchronize(other_), cudaSuccess);
      EXPECT_EQ(host_[kCount - 1], 2 * value) << seed;
      EXPECT_EQ(cudaStreamSynchronize(compute_), cudaSuccess);
    }
    ASSERT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
  }
}

TEST_F(StreamTest, WaitingForAStreamThatIsCapturedFails) {
  const cudaError_t end = EndAfter([&] {
    EXPECT_EQ(cudaStreamSynchronize(compute_), cudaErrorStreamCaptureUnsupported);
    cudaStreamCaptureStatus status;
    EXPECT_EQ(cudaStreamIsCapturing(compute_, &status), cudaSuccess);
    EXPECT_EQ(status, cudaStreamCaptureStatusInvalidated);
    EXPECT_EQ(LaunchNumber(compute_, 0, 0, nullptr), cudaErrorStreamCaptureInvalidated);
  });
  EXPECT_EQ(end, cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaStreamSynchronize(compute_), cudaSuccess);
}

TEST_F(StreamTest, AllocatingAndAskingWhileStreamsAreCapturedFails) {
  ASSERT_EQ(cudaEventRecord(event_, copies_), cudaSuccess);
  void* memory = nullptr;
  const std::vector<std::function<cudaError_t()>> forbidden = {
      [&] { return cudaMalloc(&memory, 10); },      [&] { return cudaHostAlloc(&memory, 10, 0); },
      [&] { return cudaFreeHost(host_); },          [&] { return cudaEventQuery(event_); },
      [&] { return cudaEventSynchronize(event_); }, [&] { return cudaDeviceSynchronize(); },
  };
  for (const auto& call : forbidden) {
    EXPECT_EQ(EndAfter([&] { EXPECT_EQ(call(), cudaErrorStreamCaptureUnsupported); }),
              cudaErrorStreamCaptureInvalidated);
  }
  ASSERT_EQ(cudaStreamBeginCapture(compute_, cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event_), cudaErrorNotReady);
  cudaGraph_t graph;
  EXPECT_EQ(cudaStreamEndCapture(compute_, &graph), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_F(StreamTest, CapturesMustBeJoined) {
  const DeviceVector<float> out(kCount);
  EXPECT_EQ(EndAfter([&] {
              EXPECT_EQ(cudaEventRecord(event_, compute_), cudaSuccess);
              EXPECT_EQ(cudaStreamWaitEvent(copies_, event_), cudaSuccess);
              EXPECT_EQ(LaunchNumber(copies_, kCount, 0, out.data()), cudaSuccess);
            }),
            cudaErrorStreamCaptureUnjoined);
}

TEST_F(StreamTest, CapturedStreamsDoNotWaitForWorkThatIsNotCaptured) {
  ASSERT_EQ(cudaEventRecord(event_, copies_), cudaSuccess);
  EXPECT_EQ(EndAfter([&] {
              EXPECT_EQ(cudaStreamWaitEvent(compute_, event_), cudaErrorStreamCaptureIsolation);
            }),
            cudaErrorStreamCaptureInvalidated);
}

TEST_F(StreamTest, EventsOfACaptureAreOfNoUseOutside) {
  EXPECT_EQ(EndAfter([&] { EXPECT_EQ(cudaEventRecord(event_, compute_), cudaSuccess); }),
            cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event_), cudaErrorCapturedEvent);
  EXPECT_EQ(cudaEventRecordWithFlags(event_, compute_, cudaEventRecordExternal),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaEventRecord(event_, compute_), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(event_), cudaSuccess);
}

TEST_F(StreamTest, OnlyTheStreamThatBeganACaptureEndsIt) {
  cudaGraph_t graph;
  EXPECT_EQ(EndAfter([&] {
              EXPECT_EQ(cudaEventRecord(event_, compute_), cudaSuccess);
              EXPECT_EQ(cudaStreamWaitEvent(copies_, event_), cudaSuccess);
              EXPECT_EQ(cudaStreamEndCapture(copies_, &graph), cudaErrorStreamCaptureUnmatched);
            }),
            cudaErrorStreamCaptureInvalidated);
}

TEST_F(StreamTest, HandlesThatAreDestroyedAreRefused) {
  cudaStream_t stream;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  ASSERT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventRecord(event_, stream), cudaErrorInvalidResourceHandle);
}

}  // namespace
}  // namespace cuda_emulation
