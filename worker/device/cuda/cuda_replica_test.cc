// What of the next step comes to a GPU while a step is still at work there.
#include "worker/device/cuda/cuda_replica.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "testing/cuda_emulation/control.h"
#include "worker/device/cuda/batch_part.h"
#include "worker/device/cuda/gpu_test_util.h"
#include "worker/device/cuda/gradient_buckets.h"
#include "worker/device/cuda/host_variables.h"
#include "worker/device/cuda/test_library.h"
#include "worker/device/model_tests/model_test_util.h"
#include "worker/model/walk.h"

namespace millrace::worker {
namespace {

using cuda::Stream;

constexpr double kPatience = 60;
constexpr double kHangs = 0.2;  // So long that the emulated GPU does whatever it can.
constexpr double kMoment = 0.001;

// One replica alone, whose steps are launched one by one.
class CudaReplicaTest : public ::testing::Test {
 protected:
  CudaReplicaTest() {
    cuda_emulation::Reset();
    replica_.ChooseProducts(batch_.size, /*training=*/true);
    host_ = std::make_unique<HostVariables>(places_, replica_.gpu());
    for (size_t v = 0; v < plan_.variables.size(); ++v) {
      for (float& value : host_->value(v)) value = 0.5f;
      to_.push_back(host_->gradient(v).data());
    }
    replica_.TakeMemory(host_.get());
    CopyIn();
    replica_.BeginPass(/*seed=*/0);
    replica_.Prepare(part_, /*training=*/true, to_);
  }
  ~CudaReplicaTest() override { cuda_emulation::Reset(); }

  void CopyIn() {
    replica_.CopyInValues(0, places_.values_bytes);
    replica_.CopyBatch(part_, /*training=*/true);
  }

  void Forward() {
    replica_.LaunchForward(part_, /*training=*/true);
    ASSERT_TRUE(replica_.Await({Stream::kCompute}, kPatience));
  }

  int KernelsOfBackward() {
    Forward();
    const uint64_t before = cuda_emulation::Counted().kernels;
    replica_.LaunchBackward(part_, to_, /*bucket=*/0);
    EXPECT_TRUE(replica_.Await({Stream::kCompute}, kPatience));
    return static_cast<int>(cuda_emulation::Counted().kernels - before);
  }

  // False: copies were held back for so many seconds.
  bool AwaitRelease(double seconds) {
    const auto begin = std::chrono::steady_clock::now();
    while (!replica_.copies_in()->TryRelease()) {
      if (std::chrono::steady_clock::now() - begin > std::chrono::duration<double>(seconds)) {
        return false;
      }
      replica_.Await({Stream::kCompute}, kMoment);  // The emulated GPU does something then.
    }
    return true;
  }

  // `kernel`: of those of the backward pass, from 1.
  void LaunchBackwardWhoseKernelHangs(int kernel) {
    Forward();
    cuda_emulation::HangKernel(kernel);
    replica_.LaunchBackward(part_, to_, /*bucket=*/0);
  }

  const ModelPlan plan_ = PlanOrDie(R"pb(
                                      layers {
                                        dense {
                                          units: 12
                                          kernel_regularizer { l2: 0.01 }
                                        }
                                      }
                                      layers { dense { units: 4 } }
                                      loss: SPARSE_CATEGORICAL_CROSSENTROPY
                                    )pb",
                                    {7}, 4);
  const Batch batch_ = RandomBatch(/*seed=*/1, 4, {7}, 4);
  const BatchPart part_ = AllOf(batch_);
  const Walk walk_ = PlanWalk(plan_, /*fuses=*/true);
  const VariablePlaces places_{plan_, walk_, /*replicas=*/1};
  const std::vector<GradientBucket> buckets_;
  CudaReplica replica_{plan_,          walk_,  places_,       buckets_,
                       /*replicas=*/1, {4, 0}, OpenTestGpu(), "cuda:0"};
  std::unique_ptr<HostVariables> host_;
  GradientPlaces to_;
};

// The last kernel but one looks at gradients; the last one tells the host that all are computed.
TEST_F(CudaReplicaTest, ValuesAndBatchComeWhileGradientsLeave) {
  MILLRACE_NEEDS_EMULATION();
  LaunchBackwardWhoseKernelHangs(KernelsOfBackward() - 1);
  CopyIn();
  EXPECT_TRUE(AwaitRelease(kPatience));
  EXPECT_TRUE(replica_.Await({Stream::kCopyIn}, kPatience));
  EXPECT_FALSE(replica_.Await({Stream::kCompute}, kHangs));
}

// The one before these adds the regularizer's gradient, and reads values.
TEST_F(CudaReplicaTest, ValuesAndBatchWaitForWhatTheBackwardPassComputes) {
  MILLRACE_NEEDS_EMULATION();
  LaunchBackwardWhoseKernelHangs(KernelsOfBackward() - 2);
  CopyIn();
  EXPECT_FALSE(AwaitRelease(kHangs));
}

// What was held back for a step that failed comes before the next one, and after that step.
TEST_F(CudaReplicaTest, ValuesThatNobodyReleasedComeWithTheNextPass) {
  MILLRACE_NEEDS_EMULATION();
  const int kernels = KernelsOfBackward();
  LaunchBackwardWhoseKernelHangs(kernels - 2);
  CopyIn();
  replica_.BeginPass(/*seed=*/1);
  EXPECT_TRUE(replica_.copies_in()->TryRelease());
  EXPECT_FALSE(replica_.Await({Stream::kCopyIn}, kHangs));
}

}  // namespace
}  // namespace millrace::worker
