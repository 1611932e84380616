#include "worker/device/cuda/kernels/column_sums.h"

#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/cuda_emulation/control.h"
#include "worker/device/cuda/gpu_test_util.h"
#include "worker/device/cuda/kernels/function.h"
#include "worker/device/cuda/kernels/products.h"
#include "worker/device/cuda/kernels/testing/gpu_fixture.h"
#include "worker/device/cuda/test_library.h"

namespace millrace::cuda {
namespace {

using worker::DeviceMemory;
using worker::FromNarrow;
using worker::OnDevice;
using worker::ToNarrow;

struct MatrixSize {
  int64_t rows;
  int64_t columns;
};

// What is made of an inner gradient.
struct Inner {
  std::vector<float> sums;
  std::vector<float> gradient;
  std::vector<uint16_t> narrow;

  bool operator==(const Inner& other) const = default;
};

// A real library hides SumColumns; there DenseTest is of it, by the gradients of biases.
class ColumnSumsTest : public GpuTest {
 protected:
  void SetUp() override { MILLRACE_NEEDS_EMULATION(); }

  static std::vector<float> RandomMatrix(MatrixSize size) {
    std::mt19937 random(7);
    std::uniform_real_distribution<float> distribution(-1, 2);
    std::vector<float> matrix(static_cast<size_t>(size.rows * size.columns));
    for (float& value : matrix) value = distribution(random);
    return matrix;
  }

  // The workspace is as small as it may be.
  std::vector<float> Sums(MatrixSize size, const std::vector<float>& matrix) {
    const auto on_device = OnDevice(gpu_.get(), matrix);
    DeviceMemory workspace(gpu_.get(), SumColumnsWorkspaceBytes(size.rows, size.columns));
    DeviceMemory sums(gpu_.get(), static_cast<size_t>(size.columns) * sizeof(float));
    SumColumns(/*stream=*/nullptr, size.rows, size.columns, on_device->As(), workspace.As(),
               sums.As());
    cudaDeviceSynchronize();
    return sums.Values();
  }
};

// An inner gradient of random values, a quarter of which ReLU has made 0.
class InnerGradientTest : public ColumnSumsTest {
 protected:
  // `narrow`: rounded to bfloat16.
  Inner Fused(MatrixSize size, Function function, bool narrow) {
    Begin(size);
    DeviceMemory rounded(gpu_.get(),
                         Products::NarrowBytes(narrow ? dy_->bytes() / sizeof(float) : 0));
    SumColumns(/*stream=*/nullptr, size.rows, size.columns,
               InnerGradient{function, y_->As(), dy_->As(), narrow ? rounded.As<void>() : nullptr},
               workspace_->As(), sums_->As());
    return End(narrow ? &rounded : nullptr);
  }

  // Pass by pass.
  Inner Expected(MatrixSize size, Function function, bool narrow) {
    Begin(size);
    const size_t count = dy_->bytes() / sizeof(float);
    DeviceMemory rounded(gpu_.get(), Products::NarrowBytes(narrow ? count : 0));
    ApplyGradient(/*stream=*/nullptr, function, size.rows, size.columns, y_->As(), dy_->As(),
                  dy_->As());
    SumColumns(/*stream=*/nullptr, size.rows, size.columns, dy_->As(), workspace_->As(),
               sums_->As());
    if (narrow) products_->Narrow(dy_->As(), count, rounded.As<void>());
    return End(narrow ? &rounded : nullptr);
  }

  // In every order of threads.
  void ExpectLikePasses(MatrixSize size, Function function, bool narrow) {
    SCOPED_TRACE(testing::Message() << size.rows << " x " << size.columns << ", function "
                                    << static_cast<int>(function) << (narrow ? ", narrow" : ""));
    cuda_emulation::SetOrder(0);
    const Inner expected = Expected(size, function, narrow);
    for (uint64_t seed = 0; seed <= 2; ++seed) {
      cuda_emulation::SetOrder(seed);
      EXPECT_EQ(Fused(size, function, narrow), expected) << seed;
    }
  }

  // Both are of values that bfloat16 has.
  void ExpectNarrowLikeFloats(MatrixSize size, Function function) {
    SCOPED_TRACE(testing::Message() << size.rows << " x " << size.columns);
    Begin(size);
    const std::vector<uint16_t> narrow_y = ToNarrow(y_->Values());
    const std::vector<uint16_t> narrow_dy = ToNarrow(dy_->Values());
    y_ = OnDevice(gpu_.get(), FromNarrow(narrow_y));
    dy_ = OnDevice(gpu_.get(), FromNarrow(narrow_dy));
    SumColumns(/*stream=*/nullptr, size.rows, size.columns,
               InnerGradient{function, y_->As(), dy_->As(), nullptr}, workspace_->As(),
               sums_->As());
    const Inner expected = End(nullptr);
    const auto y = OnDevice(gpu_.get(), narrow_y);
    const auto dy = OnDevice(gpu_.get(), narrow_dy);
    SumColumns(/*stream=*/nullptr, size.rows, size.columns,
               NarrowInnerGradient{function, y->As<void>(), dy->As<void>()}, workspace_->As(),
               sums_->As());
    cudaDeviceSynchronize();
    EXPECT_EQ(sums_->Values(), expected.sums);
    EXPECT_EQ(FromNarrow(dy->Values<uint16_t>()), expected.gradient);
  }

 private:
  void Begin(MatrixSize size) {
    std::vector<float> y = RandomMatrix(size);
    std::vector<float> dy = RandomMatrix(size);
    for (size_t i = 0; i < y.size(); ++i) {
      y[i] = y[i] < -0.25f ? 0 : y[i] / 2;  // Below 1, as of tanh.
      dy[i] = 1 - dy[i];
    }
    y_ = OnDevice(gpu_.get(), y);
    dy_ = OnDevice(gpu_.get(), dy);
    workspace_ = std::make_unique<DeviceMemory>(gpu_.get(),
                                                SumColumnsWorkspaceBytes(size.rows, size.columns));
    sums_ = std::make_unique<DeviceMemory>(gpu_.get(),
                                           static_cast<size_t>(size.columns) * sizeof(float));
  }

  // Where it is rounded, what stands in the gradient's place does not matter.
  Inner End(DeviceMemory* rounded) {
    cudaDeviceSynchronize();
    Inner inner;
    inner.sums = sums_->Values();
    if (rounded == nullptr) {
      inner.gradient = dy_->Values();
    } else {
      inner.narrow = rounded->Values<uint16_t>();
      inner.narrow.resize(dy_->bytes() / sizeof(float));
    }
    return inner;
  }

  std::unique_ptr<Products> products_ = Products::Make(/*stream=*/nullptr);
  std::unique_ptr<DeviceMemory> y_, dy_, workspace_, sums_;
};

constexpr MatrixSize kMatrices[] = {{1, 1},     {1, 300},   {7, 3},     {33, 33},     {64, 10},
                                    {1000, 32}, {129, 513}, {5000, 1},  {4097, 2},    {3000, 100},
                                    {2, 70000}, {9000, 31}, {40000, 5}, {1 << 18, 1}, {512, 40},
                                    {513, 40},  {16384, 1}, {16385, 1}};

TEST_F(ColumnSumsTest, AreSumsOfColumns) {
  for (const MatrixSize size : kMatrices) {
    const std::vector<float> matrix = RandomMatrix(size);
    const std::vector<float> sums = Sums(size, matrix);
    for (int64_t column = 0; column < size.columns; ++column) {
      double sum = 0;
      for (int64_t row = 0; row < size.rows; ++row) sum += matrix[row * size.columns + column];
      ASSERT_NEAR(sums[column], sum, 1e-6 * (1 + std::abs(sum)))
          << size.rows << " x " << size.columns << ": " << column;
    }
  }
}

TEST_F(ColumnSumsTest, HaveTheSameBitsInEveryOrderOfThreads) {
  for (const MatrixSize size : kMatrices) {
    const std::vector<float> matrix = RandomMatrix(size);
    cuda_emulation::SetOrder(0);
    const std::vector<float> sums = Sums(size, matrix);
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      cuda_emulation::SetOrder(seed);
      ASSERT_EQ(Sums(size, matrix), sums) << size.rows << " x " << size.columns;
    }
  }
}

TEST_F(ColumnSumsTest, NeedWorkspaceOnlyWhereThereAreManyRows) {
  EXPECT_EQ(SumColumnsWorkspaceBytes(128, 512), 0);
  EXPECT_EQ(SumColumnsWorkspaceBytes(32, 10), 0);
  EXPECT_EQ(SumColumnsWorkspaceBytes(512, 2304), 0);
  EXPECT_GT(SumColumnsWorkspaceBytes(513, 2304), 0);
  EXPECT_GT(SumColumnsWorkspaceBytes(100000, 64), 0);
  // However many rows there are, there are no more parts of them than are added up quickly.
  EXPECT_EQ(SumColumnsWorkspaceBytes(int64_t{1} << 31, 64),
            SumColumnsWorkspaceBytes(int64_t{1} << 32, 64));
}

TEST_F(ColumnSumsTest, FewRowsAreSummedByOneLaunch) {
  const auto launches = [&](MatrixSize size) {
    const std::vector<float> matrix = RandomMatrix(size);
    const uint64_t before = cuda_emulation::Counted().launches;
    Sums(size, matrix);
    return cuda_emulation::Counted().launches - before;
  };
  EXPECT_EQ(launches({256, 2304}), 1);
  EXPECT_EQ(launches({512, 32}), 1);
  EXPECT_EQ(launches({513, 32}), 2);
}

TEST_F(ColumnSumsTest, OfNoRowsAreZero) {
  EXPECT_EQ(Sums({0, 40}, {}), std::vector<float>(40, 0.0f));
}

TEST_F(InnerGradientTest, HasTheBitsOfPassesOneAfterTheOther) {
  for (const MatrixSize size : {MatrixSize{1, 1},
                                {7, 3},
                                {64, 10},
                                {129, 513},
                                {513, 40},
                                {4097, 2},
                                {3000, 100},
                                {2, 7000},
                                {16385, 1}}) {
    for (const Function function : {Function::kLinear, Function::kRelu, Function::kTanh}) {
      for (const bool narrow : {false, true}) ExpectLikePasses(size, function, narrow);
    }
  }
}

TEST_F(InnerGradientTest, OfNarrowValuesIsThatOfTheSameFloats) {
  for (const MatrixSize size :
       {MatrixSize{1, 1}, {7, 3}, {129, 513}, {513, 40}, {4097, 2}, {3000, 100}, {16385, 1}}) {
    for (const Function function : {Function::kLinear, Function::kRelu}) {
      for (uint64_t seed = 0; seed <= 2; ++seed) {
        cuda_emulation::SetOrder(seed);
        ExpectNarrowLikeFloats(size, function);
      }
    }
  }
}

TEST_F(InnerGradientTest, OfReluTakesNoLaunchOfItsOwnNorDoesRounding) {
  const auto launches = [&](Function function, bool narrow) {
    const uint64_t before = cuda_emulation::Counted().launches;
    Fused({100, 40}, function, narrow);
    return cuda_emulation::Counted().launches - before;
  };
  for (const bool narrow : {false, true}) {
    EXPECT_EQ(launches(Function::kLinear, narrow), 1);
    EXPECT_EQ(launches(Function::kRelu, narrow), 1);
    EXPECT_EQ(launches(Function::kTanh, narrow), 2);
  }
}

TEST_F(ColumnSumsTest, OneNanIsInOneSum) {
  std::vector<float> matrix = RandomMatrix({9000, 31});
  matrix[8000 * 31 + 5] = NAN;
  const std::vector<float> sums = Sums({9000, 31}, matrix);
  for (size_t column = 0; column < sums.size(); ++column) {
    EXPECT_EQ(std::isnan(sums[column]), column == 5) << column;
  }
}

}  // namespace
}  // namespace millrace::cuda
