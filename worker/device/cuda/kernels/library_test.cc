#include "worker/device/cuda/library.h"

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/cuda_emulation/control.h"
#include "worker/device/cuda/kernels/testing/gpu_fixture.h"
#include "worker/device/cuda/library_version.h"
#include "worker/device/cuda/test_library.h"

namespace millrace::cuda {
namespace {

using ::testing::HasSubstr;

class CudaLibraryTest : public GpuTest {
 protected:
  Library* const library_ = worker::TestLibrary();
};

TEST_F(CudaLibraryTest, IsNotThereForAnotherVersion) {
  EXPECT_EQ(MillraceCudaLibrary(kLibraryVersion + 1), nullptr);
}

TEST_F(CudaLibraryTest, CountsGpus) {
  MILLRACE_NEEDS_EMULATION();
  EXPECT_EQ(library_->GpuCount(), 1);
  cuda_emulation::SetDeviceCount(3);
  EXPECT_EQ(library_->GpuCount(), 3);
  cuda_emulation::SetDeviceCount(0);
  EXPECT_EQ(library_->GpuCount(), 0);
}

TEST_F(CudaLibraryTest, SaysThatThereIsNoDriver) {
  MILLRACE_NEEDS_EMULATION();
  cuda_emulation::SetDriverMissing();
  const Error error = ErrorOf([&] { library_->GpuCount(); });
  EXPECT_EQ(error.kind(), Error::kOther);
  EXPECT_THAT(error.what(), HasSubstr("there is no NVIDIA driver"));
}

// Such a GPU was taken, and then every model of every job failed on it.
TEST_F(CudaLibraryTest, GpuThatCannotRunTheKernelsIsNotOpened) {
  MILLRACE_NEEDS_EMULATION();
  cuda_emulation::SetKernelsMissing();
  const Error error = ErrorOf([&] { library_->Open(0, {}); });
  EXPECT_EQ(error.kind(), Error::kOther);
  EXPECT_THAT(error.what(), HasSubstr("cudaErrorUnsupportedPtxVersion"));
}

// To destroy a handle breaks off what others capture on its device.
TEST_F(CudaLibraryTest, HandlesOfCublasAreLentAgain) {
  MILLRACE_NEEDS_EMULATION();
  cuda_emulation::SetDeviceCount(2);
  const uint64_t before = cuda_emulation::Counted().blas_handles;
  for (int i = 0; i < 10; ++i) {
    for (const int index : {0, 1}) {
      const std::unique_ptr<Gpu> gpu = library_->Open(index, {});
      const std::unique_ptr<Gpu> beside = library_->Open(index, {});
      DenseDescription dense;
      dense.rows = dense.inputs = dense.units = 1;
      dense.function = Function::kRelu;
      gpu->Make(dense)->Prepare(/*batch=*/1, /*training=*/true);  // Tries it, on its own device.
      beside->Make(dense)->Prepare(/*batch=*/1, /*training=*/true);
    }
  }
  EXPECT_LE(cuda_emulation::Counted().blas_handles - before, 4u);
}

TEST_F(CudaLibraryTest, SaysHowManyGpusThereAre) {
  cuda_emulation::SetDeviceCount(2);
  const int count = library_->GpuCount();
  for (const int index : {-1, count}) {
    const Error error = ErrorOf([&] { library_->Open(index, {}); });
    EXPECT_EQ(error.kind(), Error::kOther);
    EXPECT_THAT(error.what(), HasSubstr("no such GPU: this process may use " +
                                        std::to_string(count) + " (nvidia-smi "));
  }
}

}  // namespace
}  // namespace millrace::cuda
