// What of the next step comes to a GPU while a step is still at work there.
#include "worker/device/cuda/cuda_replica.h"

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
    replica_.EnqueueBatch(part_, /*training=*/true);
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

// The last kernel looks at gradients, which the backward pass no longer needs. Here it never ends.
TEST_F(CudaReplicaTest, ValuesAndBatchComeWhileGradientsLeave) {
  MILLRACE_NEEDS_EMULATION();
  const int kernels = KernelsOfBackward();
  for (const uint64_t order : {0, 1, 2, 3}) {
    SCOPED_TRACE(order);
    cuda_emulation::SetOrder(order);
    LaunchBackwardWhoseKernelHangs(kernels);
    CopyIn();
    EXPECT_TRUE(replica_.Await({Stream::kCopyIn}, kPatience));
    EXPECT_FALSE(replica_.Await({Stream::kCompute}, kHangs));
    cuda_emulation::Reset();
  }
}

// The one before adds the regularizer's gradient, and reads values.
TEST_F(CudaReplicaTest, ValuesAndBatchWaitForWhatTheBackwardPassComputes) {
  MILLRACE_NEEDS_EMULATION();
  LaunchBackwardWhoseKernelHangs(KernelsOfBackward() - 1);
  CopyIn();
  EXPECT_FALSE(replica_.Await({Stream::kCopyIn}, kHangs));
}

}  // namespace
}  // namespace millrace::worker
