// What of the next step comes to a GPU while a step is still at work there.
#include "worker/device/cuda/cuda_replica.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/cuda_emulation/control.h"
#include "worker/device/cuda/batch_part.h"
#include "worker/device/cuda/cuda_gradients.h"
#include "worker/device/cuda/cuda_memory_need.h"
#include "worker/device/cuda/gpu_test_util.h"
#include "worker/device/cuda/gradient_buckets.h"
#include "worker/device/cuda/host_variables.h"
#include "worker/device/cuda/library.h"
#include "worker/device/cuda/test_library.h"
#include "worker/device/model_tests/model_test_util.h"
#include "worker/input/batch.h"
#include "worker/model/batch_sizes.h"
#include "worker/model/memory_budget.h"
#include "worker/model/model_plan.h"
#include "worker/model/walk.h"

namespace millrace::worker {
namespace {

using cuda::Stream;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr double kPatience = 60;

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

  // Has the emulated GPU do whatever it can for the stream, and returns whether that was all: it
  // does something at every second look at an event.
  bool IsDone(Stream stream) {
    const auto event = replica_.gpu()->MakeEvent();
    replica_.gpu()->Record(stream, event.get());
    replica_.gpu()->HostWaitFor(*event, /*seconds=*/0);
    return replica_.gpu()->HostWaitFor(*event, /*seconds=*/0);
  }

  // `kernel`: of those of the backward pass, from 1.
  void LaunchBackwardWhoseKernelHangs(int kernel) {
    Forward();
    cuda_emulation::HangKernel(kernel);
    replica_.LaunchBackward(part_, to_, /*bucket=*/0);
  }

  const ModelPlan plan_ = PullingAhead(PlanOrDie(R"pb(
                                                   layers {
                                                     dense {
                                                       units: 12
                                                       kernel_regularizer { l2: 0.01 }
                                                     }
                                                   }
                                                   layers { dense { units: 4 } }
                                                   loss: SPARSE_CATEGORICAL_CROSSENTROPY
                                                 )pb",
                                                 {7}, 4));
  const Batch batch_ = RandomBatch(/*seed=*/1, 4, {7}, 4);
  const BatchPart part_ = AllOf(batch_);
  const Walk walk_ = PlanWalk(plan_, /*for_gpu=*/true);
  const VariablePlaces places_{plan_, walk_, /*replicas=*/1};
  const std::vector<GradientBucket> buckets_;
  CudaReplica replica_{plan_,          walk_,  places_,       buckets_,
                       /*replicas=*/1, {4, 0}, OpenTestGpu(), "cuda:0"};
  std::unique_ptr<HostVariables> host_;
  GradientPlaces to_;
};

// The first kernel of the pass reads values.
TEST_F(CudaReplicaTest, ValuesAndBatchComeToTheGpuWhileThePassComputes) {
  MILLRACE_NEEDS_EMULATION();
  LaunchBackwardWhoseKernelHangs(1);
  CopyIn();
  EXPECT_TRUE(IsDone(Stream::kCopyIn));
  EXPECT_FALSE(IsDone(Stream::kCompute));
}

// In order 0 the last kernel but one adds the regularizer's gradient, and reads values for it; the
// last one looks at gradients.
TEST_F(CudaReplicaTest, TheyTakeTheirPlacesWhenNothingReadsWhatIsThere) {
  MILLRACE_NEEDS_EMULATION();
  LaunchBackwardWhoseKernelHangs(KernelsOfBackward() - 1);
  CopyIn();
  ASSERT_TRUE(IsDone(Stream::kCopyIn));
  replica_.MoveIn();
  EXPECT_FALSE(IsDone(Stream::kCopyIn));
}

TEST_F(CudaReplicaTest, WhatNobodyMovedIsMovedBeforeTheNextPass) {
  MILLRACE_NEEDS_EMULATION();
  LaunchBackwardWhoseKernelHangs(KernelsOfBackward());
  CopyIn();
  ASSERT_TRUE(IsDone(Stream::kCopyIn));
  replica_.BeginPass(/*seed=*/1);
  EXPECT_FALSE(IsDone(Stream::kCopyIn));
}

TEST_F(CudaReplicaTest, WhatComesAfterTheMoveGoesStraight) {
  MILLRACE_NEEDS_EMULATION();
  KernelsOfBackward();
  const auto copies = [&](bool moves_before) {
    if (moves_before) replica_.MoveIn();
    const uint64_t before = cuda_emulation::Counted().copies;
    CopyIn();
    replica_.BeginPass(/*seed=*/1);
    EXPECT_TRUE(IsDone(Stream::kCopyIn));
    return cuda_emulation::Counted().copies - before;
  };
  const uint64_t with_moves = copies(/*moves_before=*/false);
  KernelsOfBackward();
  EXPECT_EQ(copies(/*moves_before=*/true), with_moves - 2);  // Of values and of the batch.
}

// The first batch that is copied goes straight.
TEST_F(CudaReplicaTest, ThePassThatFollowsTakesThem) {
  Forward();
  replica_.LaunchBackward(part_, to_, /*bucket=*/0);
  for (float& value : host_->value(0)) value = 0.25f;
  CopyIn();
  replica_.BeginPass(/*seed=*/1);
  Forward();
  const float changed = replica_.Output(0)[0];
  for (float& value : host_->value(0)) value = 0.5f;
  CopyIn();
  replica_.BeginPass(/*seed=*/1);
  Forward();
  EXPECT_NE(replica_.Output(0)[0], changed);
}

// Pinned memory and, of the worker, a set of gradients and batches.
TEST_F(CudaReplicaTest, AModelThatNeedsMoreOfTheHostsMemoryThanThereIsIsRefused) {
  const BatchSizes batches = {batch_.size, 0};
  const CudaMemoryNeed need(plan_, walk_, replica_.layers(), places_, buckets_, /*replicas=*/1,
                            batches, replica_.layout());
  const double pinned = static_cast<double>(replica_.layout().mirrored_bytes +
                                            places_.values_bytes + places_.gradients_bytes);
  const auto bytes = static_cast<uint64_t>(std::ceil(pinned + TrainingBytes(plan_, batches)));
  EXPECT_TRUE(need.CheckHost(bytes).ok());
  const absl::Status status = need.CheckHost(bytes - 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("batches of 4 examples (batch_size), needs "),
                    HasSubstr(" GiB of this machine's memory beside the GPU's, this worker may "
                              "use "),
                    EndsWith("; use smaller layers or a smaller batch_size")));
}

}  // namespace
}  // namespace millrace::worker
