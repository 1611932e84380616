#include "worker/device/cuda/piece_sums.h"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "testing/cuda_emulation/control.h"
#include "worker/device/cuda/gpu_test_util.h"
#include "worker/device/cuda/test_library.h"

namespace millrace::worker {
namespace {

// Sums that are looked at, until they have been often enough: then what hangs on a GPU goes on.
class ResumingSums final : public cuda::PieceSums {
 public:
  explicit ResumingSums(int looks) : looks_(looks) {}

  std::string name() const override { return "none"; }
  void Enqueue(cuda::Stream /*stream*/, const std::vector<float*>& /*arrays*/,
               size_t /*count*/) override {}
  void Check() override {
    if (--looks_ == 0) cuda_emulation::Reset();
  }
  void Abort() noexcept override {}

 private:
  int looks_;
};

TEST(AwaitAllTest, LooksAtTheSumsUntilAllIsThere) {
  MILLRACE_NEEDS_EMULATION();
  const std::unique_ptr<cuda::Gpu> gpu = OpenTestGpu();
  const DeviceMemory sum(gpu.get(), sizeof(float));
  const std::unique_ptr<cuda::Event> added = gpu->MakeEvent();
  cuda_emulation::HangKernel(1);
  gpu->Add(sum.As(), 1, sum.As());
  gpu->Record(cuda::Stream::kCompute, added.get());
  ResumingSums sums(/*looks=*/3);
  size_t at_work = 7;
  EXPECT_FALSE(AwaitAll({{gpu.get(), added.get()}}, &sums, /*seconds=*/0, &at_work));
  EXPECT_TRUE(AwaitAll({{gpu.get(), added.get()}}, &sums, /*seconds=*/60, &at_work));
  EXPECT_EQ(at_work, 0);
}

}  // namespace
}  // namespace millrace::worker
