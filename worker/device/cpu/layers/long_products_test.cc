// Against oneDNN's products, which compute what this leaves to them: the bits are the same.
#include "worker/device/cpu/layers/long_products.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "oneapi/dnnl/dnnl.hpp"
#include "worker/device/cpu/context.h"
#include "worker/device/cpu/layers/matrix_layout.h"
#include "worker/device/cpu/thread_settings.h"

namespace millrace::worker {
namespace {

std::vector<float> RandomNumbers(size_t count) {
  std::mt19937 random(static_cast<unsigned>(count));
  std::uniform_real_distribution<float> distribution(-1, 1);
  std::vector<float> numbers(count);
  for (float& number : numbers) number = distribution(random);
  return numbers;
}

struct Sizes {
  size_t rows;
  size_t inputs;
  size_t units;
};

std::vector<float> KernelGradientByOneDnn(const Sizes& sizes, const std::vector<float>& x,
                                          const std::vector<float>& dy) {
  std::vector<float> gradient(sizes.inputs * sizes.units);
  const auto inputs = static_cast<dnnl_dim_t>(sizes.inputs);
  const auto units = static_cast<dnnl_dim_t>(sizes.units);
  EXPECT_EQ(dnnl_sgemm('T', 'N', inputs, units, static_cast<dnnl_dim_t>(sizes.rows), 1, x.data(),
                       inputs, dy.data(), units, 0, gradient.data(), units),
            dnnl_success);
  return gradient;
}

std::vector<float> InputGradientByOneDnn(const Sizes& sizes, const std::vector<float>& dy,
                                         const std::vector<float>& kernel) {
  const auto rows = static_cast<int64_t>(sizes.rows);
  const auto inputs = static_cast<int64_t>(sizes.inputs);
  const auto units = static_cast<int64_t>(sizes.units);
  const dnnl::memory::desc transposed({units, inputs}, dnnl::memory::data_type::f32,
                                      dnnl::memory::format_tag::ba);
  CpuContext context;
  const dnnl::matmul::primitive_desc description(
      {Matrix(rows, units), transposed, Matrix(rows, inputs)}, CpuContext::Attributes(),
      context.engine());
  std::vector<float> dx(sizes.rows * sizes.inputs);
  CpuPrimitive::Make<dnnl::matmul>(&context, description,
                                   {{DNNL_ARG_SRC, Matrix(rows, units)},
                                    {DNNL_ARG_WEIGHTS, transposed},
                                    {DNNL_ARG_DST, Matrix(rows, inputs)}})
      .Run({{DNNL_ARG_SRC, dy.data()},
            {DNNL_ARG_WEIGHTS, kernel.data()},
            {DNNL_ARG_DST, dx.data()}});
  return dx;
}

void ExpectTheBitsOfOneDnn(const Sizes& sizes) {
  const std::vector<float> x = RandomNumbers(sizes.rows * sizes.inputs);
  const std::vector<float> dy = RandomNumbers(sizes.rows * sizes.units);
  const std::vector<float> kernel = RandomNumbers(sizes.inputs * sizes.units);
  LongProducts products(sizes.rows, sizes.inputs, sizes.units);
  products.SetOutputGradient(dy.data());
  std::vector<float> gradient(kernel.size());
  const size_t part = 5 * LongProducts::kInputsAtOnce;
  for (size_t begin = 0; begin < sizes.inputs; begin += part) {
    products.KernelGradient(x.data(), begin, std::min(begin + part, sizes.inputs),
                            gradient.data() + begin * sizes.units);
  }
  EXPECT_EQ(gradient, KernelGradientByOneDnn(sizes, x, dy));
  std::vector<float> dx(x.size());
  products.InputGradient(kernel.data(), dx.data());
  EXPECT_EQ(dx, InputGradientByOneDnn(sizes, dy, kernel));
}

bool HasAvx512() {
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) &
          static_cast<unsigned>(dnnl::cpu_isa::avx512_core)) ==
         static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
}

TEST(LongProductsTest, HaveTheBitsOfOneDnn) {
  if (!HasAvx512()) GTEST_SKIP() << "without AVX-512";
  const ScopedThreadSettings settings(/*threads=*/1);
  for (const size_t rows : {32, 64, 128}) {
    for (const size_t inputs : {1024, 2000}) {
      for (const size_t units : {64, 96, 512}) {
        ASSERT_TRUE(LongProducts::IsFor(rows, inputs, units));
        SCOPED_TRACE(testing::Message() << rows << ", " << inputs << ", " << units);
        ExpectTheBitsOfOneDnn({rows, inputs, units});
      }
    }
  }
}

TEST(LongProductsTest, LeaveOtherSizesAndSeveralThreadsToOneDnn) {
  if (!HasAvx512()) GTEST_SKIP() << "without AVX-512";
  {
    const ScopedThreadSettings settings(/*threads=*/1);
    EXPECT_TRUE(LongProducts::IsFor(/*rows=*/64, /*inputs=*/2048, /*units=*/128));
    EXPECT_FALSE(LongProducts::IsFor(/*rows=*/33, /*inputs=*/2048, /*units=*/128));
    EXPECT_FALSE(LongProducts::IsFor(/*rows=*/256, /*inputs=*/2048, /*units=*/128));
    EXPECT_FALSE(LongProducts::IsFor(/*rows=*/64, /*inputs=*/2050, /*units=*/128));
    EXPECT_FALSE(LongProducts::IsFor(/*rows=*/64, /*inputs=*/512, /*units=*/128));
    EXPECT_FALSE(LongProducts::IsFor(/*rows=*/64, /*inputs=*/2048, /*units=*/544));
    EXPECT_FALSE(LongProducts::IsFor(/*rows=*/64, /*inputs=*/2048, /*units=*/10));
  }
  const ScopedThreadSettings settings(/*threads=*/2);
  EXPECT_FALSE(LongProducts::IsFor(/*rows=*/64, /*inputs=*/2048, /*units=*/128));
}

}  // namespace
}  // namespace millrace::worker
