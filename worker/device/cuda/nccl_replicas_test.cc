// Models on several GPUs whose gradients NCCL adds up.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/cuda_emulation/control.h"
#include "testing/cuda_emulation/nccl_control.h"
#include "worker/device/cuda/cuda_memory_need.h"
#include "worker/device/cuda/replicas_test_util.h"
#include "worker/device/cuda/test_library.h"

namespace millrace::worker {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::SizeIs;
using ::testing::StartsWith;

// What is logged of gradients while it lives, with its severity: "W cuda:0: ...".
class KeptLog final : public google::LogSink {
 public:
  KeptLog() { google::AddLogSink(this); }
  ~KeptLog() override { google::RemoveLogSink(this); }

  void send(google::LogSeverity severity, const char* /*path*/, const char* /*file*/, int /*line*/,
            const google::LogMessageTime& /*time*/, const char* message, size_t length) override {
    const std::string line(message, length);
    if (line.find("gradients") == std::string::npos) return;
    lines_.push_back(absl::StrCat(severity == google::GLOG_INFO ? "I " : "W ", line));
  }

  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::vector<std::string> lines_;
};

class NcclReplicasTest : public ReplicasTest {
 protected:
  NcclReplicasTest() { options_.deterministic = false; }

  // Sums that ran since this was called last.
  uint64_t NewSums() {
    const uint64_t before = sums_;
    sums_ = cuda_emulation::NcclSums();
    return sums_ - before;
  }

  // That the model gives what one GPU does, in steps that all GPUs take part in and in others.
  void ExpectRight(Model* model) {
    const std::unique_ptr<Model> one = Compile(plan_, 1);
    KeptGradients expected(plan_);
    KeptGradients actual(plan_);
    for (const size_t size : {7, 1, 6}) {
      TrainOrDie(RandomPictures(size), size, one.get(), &expected);
      TrainOrDie(RandomPictures(size), size, model, &actual);
      ExpectClose(plan_, actual, expected);
    }
  }

  // That our own sums serve, and the log says why.
  void ExpectOwnSums(const std::string& why) {
    const KeptLog log;
    const std::unique_ptr<Model> model = Compile(plan_, 2);
    EXPECT_THAT(log.lines(),
                Contains("W cuda:0,1: our own kernels add up gradients, in the order of the GPUs, "
                         "without NCCL: " +
                         why));
    EXPECT_EQ(cuda_emulation::NcclCommunicators(), 0);
    EXPECT_THAT(model->numerics(), EndsWith(", any order"));
    NewSums();
    ExpectRight(model.get());
    EXPECT_EQ(NewSums(), 0);
    EXPECT_THAT(lost_, SizeIs(0));
  }

  // That a step fails, and loses the device.
  void ExpectLost(Model* model, const std::string& why) {
    KeptGradients gradients(plan_);
    const absl::Status status = model->Train(RandomPictures(7), 0, &gradients).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()), MatchesRegex(why));
    EXPECT_THAT(lost_, ElementsAre(status));
  }

  uint64_t sums_ = 0;
};

TEST_F(NcclReplicasTest, SeveralGpusGiveWhatOneGives) {
  for (const uint64_t order : {0, 1}) {
    StartAnew(order);
    NewSums();
    ExpectLikeOne(plan_, {RandomPictures(7), RandomPictures(1), RandomPictures(4),
                          RandomPictures(3), RandomPictures(6)});
    if (!OnRealGpu(kLeastGpus)) {
      EXPECT_GT(NewSums(), 0);
    }
  }
}

// 1, 3 and 5 elements: less than each GPU's piece is aligned to.
TEST_F(NcclReplicasTest, BucketsOfAnySizeAreDivided) {
  MILLRACE_NEEDS_EMULATION(kLeastGpus);
  const ModelPlan plan = PlanOrDie(R"pb(
                                     layers { dense { units: 1 } }
                                     layers { dense { units: 3 } }
                                     layers { dense { units: 83 activation: TANH } }
                                     layers { dense { units: 5 } }
                                     loss: SPARSE_CATEGORICAL_CROSSENTROPY
                                   )pb",
                                   {7}, 5);
  NewSums();
  ExpectLikeOne(plan, {RandomBatch(1, 5, {7}, 5), RandomBatch(2, 2, {7}, 5)});
  EXPECT_GT(NewSums(), 0);
}

TEST_F(NcclReplicasTest, EachStepInWhichAllTakePartSumsEachBucketOnce) {
  MILLRACE_NEEDS_EMULATION(kLeastGpus);
  NewSums();
  const std::unique_ptr<Model> model = Compile(plan_, 3);
  const uint64_t buckets = NewSums();  // Each was tried.
  EXPECT_GT(buckets, 1);
  const cuda_emulation::Counts before = cuda_emulation::Counted();
  KeptGradients gradients(plan_);
  TrainOrDie(RandomPictures(7), 0, model.get(), &gradients);
  TrainOrDie(RandomPictures(3), 0, model.get(), &gradients);
  EXPECT_EQ(NewSums(), 2 * buckets);
  EXPECT_EQ(cuda_emulation::Counted().peer_copies, before.peer_copies);
  TrainOrDie(RandomPictures(2), 0, model.get(), &gradients);
  EXPECT_EQ(NewSums(), 0);
  EXPECT_GT(cuda_emulation::Counted().peer_copies, before.peer_copies);
}

TEST_F(NcclReplicasTest, StepsAllocateNothing) {
  MILLRACE_NEEDS_EMULATION(kLeastGpus);
  const std::unique_ptr<Model> model = Compile(plan_, 3);
  KeptGradients gradients(plan_);
  TrainOrDie(RandomPictures(7), 0, model.get(), &gradients);
  const cuda_emulation::Usage in_use = cuda_emulation::InUse();
  const cuda_emulation::Counts before = cuda_emulation::Counted();
  TrainOrDie(RandomPictures(7), 1, model.get(), &gradients);
  const cuda_emulation::Counts after = cuda_emulation::Counted();
  EXPECT_EQ(after.allocations, before.allocations);
  EXPECT_EQ(after.pinned_allocations, before.pinned_allocations);
  EXPECT_EQ(after.events, before.events);
  EXPECT_EQ(cuda_emulation::InUse(), in_use);
}

TEST_F(NcclReplicasTest, AllIsGivenBack) {
  MILLRACE_NEEDS_EMULATION(kLeastGpus);
  const cuda_emulation::Usage before = cuda_emulation::InUse();
  {
    const std::unique_ptr<Model> model = Compile(plan_, 2);
    EXPECT_EQ(cuda_emulation::NcclCommunicators(), 2);
    KeptGradients gradients(plan_);
    TrainOrDie(RandomPictures(7), 0, model.get(), &gradients);
  }
  EXPECT_EQ(cuda_emulation::NcclCommunicators(), 0);
  EXPECT_EQ(cuda_emulation::InUse(), before);
}

TEST_F(NcclReplicasTest, TheLogSaysWhoAddsUp) {
  MILLRACE_NEEDS_EMULATION(kLeastGpus);
  {
    const KeptLog log;
    const std::unique_ptr<Model> model = Compile(plan_, 3);
    EXPECT_THAT(model->numerics(), EndsWith(", any order"));
    EXPECT_THAT(log.lines(), ElementsAre("I cuda:0,1,2: NCCL 2.28.9 adds up gradients, in any "
                                         "order; it takes 3 MiB of each GPU"));
  }
  {
    const KeptLog log;
    Compile(plan_, 1);
    EXPECT_THAT(log.lines(), SizeIs(0));
  }
  options_.deterministic = true;
  const KeptLog log;
  const std::unique_ptr<Model> model = Compile(plan_, 2);
  EXPECT_THAT(log.lines(), ElementsAre("I cuda:0,1: our own kernels add up gradients, in the "
                                       "order of the GPUs"));
  NewSums();
  ExpectRight(model.get());
  EXPECT_EQ(NewSums(), 0);
}

TEST_F(NcclReplicasTest, OwnSumsServeWithoutNccl) {
  MILLRACE_NEEDS_EMULATION(kLeastGpus);
  cuda_emulation::SetNcclMissing();
  ExpectOwnSums("NCCL cannot be loaded: libnccl.so.2: cannot open shared object file");
}

// Its communicators cannot be aborted without harm.
TEST_F(NcclReplicasTest, OwnSumsServeWhereNcclIsOld) {
  MILLRACE_NEEDS_EMULATION(kLeastGpus);
  cuda_emulation::SetNcclVersion(21604);
  ExpectOwnSums("NCCL 2.16.4 is too old; must be 2.16.5 or newer");
  cuda_emulation::SetNcclVersion(2804);
  ExpectOwnSums("NCCL 2.8.4 is too old; must be 2.16.5 or newer");
}

TEST_F(NcclReplicasTest, OwnSumsServeWhereThereAreNoCommunicators) {
  MILLRACE_NEEDS_EMULATION(kLeastGpus);
  cuda_emulation::FailNcclInit(1);
  ExpectOwnSums("ncclCommInitAll: unhandled system error (run with NCCL_DEBUG=INFO for details)");
}

TEST_F(NcclReplicasTest, OwnSumsServeWhereTheFirstOnesFail) {
  MILLRACE_NEEDS_EMULATION(kLeastGpus);
  cuda_emulation::FailNcclGroup(2);
  ExpectOwnSums("ncclGroupEnd: internal error - please report this issue to the NCCL developers");
  cuda_emulation::FailNcclSum(2);
  ExpectOwnSums("NCCL: remote process exited or there was a network error");
}

TEST_F(NcclReplicasTest, OwnSumsServeWhereTheModelWouldNotFitOtherwise) {
  MILLRACE_NEEDS_EMULATION(kLeastGpus);
  const uint64_t before = cuda_emulation::InUseOf(0);
  options_.deterministic = true;
  std::unique_ptr<Model> model = Compile(plan_, 2);
  const uint64_t need = cuda_emulation::InUseOf(0) - before + CudaMemoryNeed::kMargin;
  model.reset();
  options_.deterministic = false;
  cuda_emulation::SetMemoryOf(0, before + need + (1 << 20));  // NCCL takes 3 MiB.
  const KeptLog log;
  model = Compile(plan_, 2);
  KeptGradients gradients(plan_);
  TrainOrDie(RandomPictures(7), 0, model.get(), &gradients);
  EXPECT_THAT(log.lines(),
              Contains(StartsWith("W cuda:0,1: our own kernels add up gradients after all: with "
                                  "NCCL the model, with batches of 7 examples (batch_size), "
                                  "needs ")));
  EXPECT_EQ(cuda_emulation::NcclCommunicators(), 0);
}

// Sums of two that reach GPUs in different orders would wait for each other.
TEST_F(NcclReplicasTest, OneModelAtATimeUsesNcclOnAGpu) {
  MILLRACE_NEEDS_EMULATION(kLeastGpus);
  std::unique_ptr<Model> first = Compile(plan_, 2);
  {
    const KeptLog log;
    const std::unique_ptr<Model> second = Compile(plan_, 3);
    EXPECT_THAT(
        log.lines(),
        Contains("W cuda:0,1,2: our own kernels add up gradients, in the order of the GPUs, "
                 "without NCCL: another model of this process uses NCCL on GPU 0"));
    EXPECT_EQ(cuda_emulation::NcclCommunicators(), 2);
    NewSums();
    ExpectRight(second.get());
    EXPECT_EQ(NewSums(), 0);
    ExpectRight(first.get());
    EXPECT_GT(NewSums(), 0);
  }
  first.reset();
  first = Compile(plan_, 3);
  EXPECT_EQ(cuda_emulation::NcclCommunicators(), 3);
  NewSums();
  ExpectRight(first.get());
  EXPECT_GT(NewSums(), 0);
}

TEST_F(NcclReplicasTest, ModelsOnDifferentGpusMayAllUseNccl) {
  MILLRACE_NEEDS_EMULATION(kLeastGpus);
  const std::unique_ptr<Model> model = Compile(plan_, 2);
  const auto device = Open({2, 3});
  ASSERT_TRUE(device.ok()) << device.status();
  const auto other = (*device)->Compile(plan_, {kLargest, kLargest});
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(cuda_emulation::NcclCommunicators(), 4);
}

// The other GPUs' kernels, which wait for it, would never let communicators be destroyed.
TEST_F(NcclReplicasTest, AGpuThatFailsWhileNcclIsTriedIsNamedAndNobodyWaitsForIt) {
  MILLRACE_NEEDS_EMULATION(kLeastGpus);
  for (const int kernel : {1, 2}) {
    StartAnew(/*order=*/0);
    lost_.clear();
    const auto device = Open({0, 1, 2});
    ASSERT_TRUE(device.ok()) << device.status();
    cuda_emulation::FailKernelOf(1, kernel);
    const absl::Status status = (*device)->Compile(plan_, {kLargest, kLargest}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()), StartsWith("cuda:1: "));
    EXPECT_THAT(lost_, ElementsAre(status));
    EXPECT_EQ(cuda_emulation::NcclCommunicators(), 0);
  }
}

TEST_F(NcclReplicasTest, AFailureInAStepLosesTheDevice) {
  MILLRACE_NEEDS_EMULATION(kLeastGpus);
  {
    const std::unique_ptr<Model> model = Compile(plan_, 3);
    cuda_emulation::FailNcclGroup(1);
    ExpectLost(model.get(), "cuda:.: ncclGroupEnd: internal error.*");
  }
  EXPECT_EQ(cuda_emulation::NcclCommunicators(), 0);
  for (const int sum : {1, 2}) {
    StartAnew(/*order=*/0);
    lost_.clear();
    {
      const std::unique_ptr<Model> model = Compile(plan_, 3);
      cuda_emulation::FailNcclSum(sum);
      ExpectLost(model.get(), "cuda:.: NCCL: remote process exited or there was a network error");
    }
    EXPECT_EQ(cuda_emulation::NcclCommunicators(), 0);
  }
}

// Also where its kernel is NCCL's, which the others' wait for.
TEST_F(NcclReplicasTest, ALostGpuIsNamedAndNobodyWaitsForIt) {
  MILLRACE_NEEDS_EMULATION(kLeastGpus);
  int kernels = 0;
  for (;; kernels += 3) {
    StartAnew(static_cast<uint64_t>(kernels));
    lost_.clear();
    const std::unique_ptr<Model> model = Compile(plan_, 3);
    cuda_emulation::FailKernelOf(1, kernels + 1);
    KeptGradients gradients(plan_);
    const absl::Status status = model->Train(RandomPictures(7), 0, &gradients).status();
    if (status.ok()) break;
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()), StartsWith("cuda:1: ")) << kernels;
    EXPECT_THAT(lost_, SizeIs(1));
  }
  EXPECT_GT(kernels, 20);
}

// The last four kernels of a step are the sum's, which wait for each other, and those that look at
// what it gave. What hangs is kept, and no other model has NCCL on these GPUs any more.
TEST_F(NcclReplicasTest, AGpuThatHangsIsGivenUpInTime) {
  MILLRACE_NEEDS_EMULATION(kLeastGpus);
  options_.timeout = absl::Seconds(2);
  for (const bool in_sum : {false, true}) {
    lost_.clear();
    const auto device = *Open(in_sum ? std::vector<int>{2, 3} : std::vector<int>{0, 1});
    std::unique_ptr<Model> model = *device->Compile(plan_, {kLargest, kLargest});
    FillValues(/*seed=*/1, 0.3f, model.get());
    NewSums();
    const uint64_t before = cuda_emulation::Counted().kernels;
    KeptGradients gradients(plan_);
    TrainOrDie(RandomPictures(7), 0, model.get(), &gradients);
    const uint64_t sums = NewSums();
    const auto kernels = static_cast<int>(cuda_emulation::Counted().kernels - before);
    cuda_emulation::HangKernel(in_sum ? kernels - 3 : kernels);
    ExpectLost(model.get(), "cuda:.,.: has not finished a step within 2 s");
    EXPECT_EQ(NewSums(), in_sum ? sums - 1 : sums);
    model.reset();
  }
}

}  // namespace
}  // namespace millrace::worker
