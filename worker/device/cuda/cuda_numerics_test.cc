#include "worker/device/cuda/cuda_numerics.h"

#include <cstddef>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/cuda_emulation/control.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/test_library.h"
#include "worker/device/model_tests/model_test_util.h"

namespace millrace::worker {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kDense[] =
    "layers { dense { units: 5 activation: TANH } } layers { dense { units: 3 } } "
    "loss: SPARSE_CATEGORICAL_CROSSENTROPY";
constexpr char kConvolution[] =
    "layers { conv2d { filters: 3 kernel_size: 2 } } layers { global_average_pooling2d {} } "
    "loss: SPARSE_CATEGORICAL_CROSSENTROPY";

class CudaNumericsTest : public ::testing::Test {
 protected:
  CudaNumericsTest() { cuda_emulation::Reset(); }
  ~CudaNumericsTest() override { cuda_emulation::Reset(); }

  std::string NumericsOf(const std::string& model, const Shape& input, size_t batch = 4) const {
    auto device = *CudaDevice::Open(TestLibrary(), options_, [](const absl::Status&) {});
    return (*device->Compile(PlanOrDie(model, input, 3), {batch, batch}))->numerics();
  }

  CudaDeviceOptions options_;
};

TEST_F(CudaNumericsTest, HaveAHashOfTheAlgorithmsOfProducts) {
  MILLRACE_NEEDS_EMULATION();
  const std::string first = NumericsOf(kDense, {7});
  EXPECT_THAT(first, MatchesRegex("cuda, Emulated GPU \\(sm_90\\), float32, CUDA 13.0, "
                                  "cuBLASLt 13.1.0, products [0-9a-f]+"));
  EXPECT_EQ(NumericsOf(kDense, {7}), first);
  EXPECT_NE(NumericsOf(kDense, {7}, /*batch=*/5), first);
}

// Two GPUs of one name passed as one kind whatever their heuristics chose.
TEST_F(CudaNumericsTest, DifferWhereOtherAlgorithmsAreChosen) {
  MILLRACE_NEEDS_EMULATION();
  const std::string divided = NumericsOf(kDense, {7});
  cuda_emulation::SetKnownProducts(cuda_emulation::KnownProducts::kUndivided);
  const std::string undivided = NumericsOf(kDense, {7});
  EXPECT_NE(undivided, divided);
  EXPECT_EQ(undivided.size(), divided.size());
  EXPECT_EQ(undivided.substr(0, undivided.find(", products ")),
            divided.substr(0, divided.find(", products ")));
}

TEST_F(CudaNumericsTest, DifferWhereReluIsAppliedAfterwards) {
  MILLRACE_NEEDS_EMULATION();
  constexpr char kRelu[] =
      "layers { dense { units: 5 activation: RELU } } layers { dense { units: 3 } } "
      "loss: SPARSE_CATEGORICAL_CROSSENTROPY";
  const std::string within = NumericsOf(kRelu, {7});
  cuda_emulation::SetReluKeepsNan(false);
  EXPECT_NE(NumericsOf(kRelu, {7}), within);
}

TEST_F(CudaNumericsTest, DifferWhereCublasIsToldToMultiplyOtherwise) {
  MILLRACE_NEEDS_EMULATION();
  const std::string before = NumericsOf(kDense, {7});
  ASSERT_EQ(setenv("CUBLAS_EMULATE_SINGLE_PRECISION", "1", /*overwrite=*/1), 0);
  EXPECT_NE(NumericsOf(kDense, {7}), before);
  ASSERT_EQ(unsetenv("CUBLAS_EMULATE_SINGLE_PRECISION"), 0);
  EXPECT_EQ(NumericsOf(kDense, {7}), before);
}

TEST_F(CudaNumericsTest, SayNothingOfProductsWhereThereAreNone) {
  EXPECT_THAT(NumericsOf(kConvolution, {4, 4, 2}), Not(HasSubstr("products")));
}

// The coordinator takes 200 characters, and refused what was longer.
TEST_F(CudaNumericsTest, LongNamesOfGpusAreShortenedAndStillDiffer) {
  MILLRACE_NEEDS_EMULATION();
  cuda_emulation::SetDeviceCount(2);
  options_.gpus = {0, 1};
  options_.deterministic = false;
  cuda_emulation::SetNameOf(0, "NVIDIA " + std::string(200, 'A'));
  cuda_emulation::SetNameOf(1, "NVIDIA B");
  const std::string first = NumericsOf(kDense, {7});
  cuda_emulation::SetNameOf(1, "NVIDIA C");
  const std::string second = NumericsOf(kDense, {7});
  EXPECT_THAT(first, StartsWith("cuda, NVIDIA AAA"));
  EXPECT_NE(second, first);
  for (const std::string& numerics : {first, second}) {
    EXPECT_LE((numerics + ", BFLOAT16 on the wire").size(), 200u) << numerics;
    EXPECT_THAT(numerics, HasSubstr("A... ("));
    EXPECT_THAT(numerics, HasSubstr("), float32, CUDA 13.0, cuBLASLt 13.1.0, products "));
  }
}

}  // namespace
}  // namespace millrace::worker
