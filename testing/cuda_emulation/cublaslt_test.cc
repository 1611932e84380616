#include <cublasLt.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/cuda_emulation/control.h"
#include "testing/cuda_emulation/device_vector.h"

namespace cuda_emulation {
namespace {

using ::testing::ElementsAreArray;

// A product in column-major order, with all that cuBLASLt wants to know.
class Problem {
 public:
  Problem(int64_t rows, int64_t inner, int64_t columns, bool transpose_a, bool transpose_b,
          cublasLtEpilogue_t epilogue, int64_t gap = 0)
      : rows_(rows),
        inner_(inner),
        columns_(columns),
        ta_(transpose_a),
        tb_(transpose_b),
        epilogue_(epilogue),
        gap_(gap) {
    cublasLtCreate(&handle);
    cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    const int32_t yes = CUBLAS_OP_T;
    if (ta_) Set(CUBLASLT_MATMUL_DESC_TRANSA, yes);
    if (tb_) Set(CUBLASLT_MATMUL_DESC_TRANSB, yes);
    Set(CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<uint32_t>(epilogue));
    a_layout = MakeLayout(ta_ ? inner : rows, ta_ ? rows : inner);
    b_layout = MakeLayout(tb_ ? columns : inner, tb_ ? inner : columns);
    d_layout = MakeLayout(rows, columns);
    cublasLtMatmulPreferenceCreate(&preference);
    const uint64_t bytes = 1 << 20;
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                         &bytes, sizeof(bytes));
  }
  ~Problem() {
    cublasLtMatmulPreferenceDestroy(preference);
    for (auto* layout : {a_layout, b_layout, d_layout}) cublasLtMatrixLayoutDestroy(layout);
    cublasLtMatmulDescDestroy(description);
    cublasLtDestroy(handle);
  }

  template <typename T>
  void Set(cublasLtMatmulDescAttributes_t attribute, T value) {
    EXPECT_EQ(cublasLtMatmulDescSetAttribute(description, attribute, &value, sizeof(value)),
              CUBLAS_STATUS_SUCCESS);
  }

  std::vector<cublasLtMatmulHeuristicResult_t> Algorithms() {
    std::vector<cublasLtMatmulHeuristicResult_t> results(5);
    int count = 0;
    EXPECT_EQ(cublasLtMatmulAlgoGetHeuristic(handle, description, a_layout, b_layout, d_layout,
                                             d_layout, preference, 5, results.data(), &count),
              CUBLAS_STATUS_SUCCESS);
    results.resize(count);
    return results;
  }

  // alpha * a b + beta * d + bias, by `algorithm`.
  cublasStatus_t Multiply(const cublasLtMatmulHeuristicResult_t& algorithm, const float* a,
                          const float* b, const float* bias, float* d, float alpha = 1,
                          float beta = 0) {
    const DeviceVector<char> workspace(algorithm.workspaceSize + 1);
    if ((epilogue_ & CUBLASLT_EPILOGUE_BIAS) != 0) Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    return cublasLtMatmul(handle, description, &alpha, a, a_layout, b, b_layout, &beta, d, d_layout,
                          d, d_layout, &algorithm.algo, workspace.data(), algorithm.workspaceSize,
                          nullptr);
  }

  size_t APlaces() const { return Places(ta_ ? inner_ : rows_, ta_ ? rows_ : inner_); }
  size_t BPlaces() const { return Places(tb_ ? columns_ : inner_, tb_ ? inner_ : columns_); }
  size_t DPlaces() const { return Places(rows_, columns_); }

  // What it should give, by the definition; gaps of `d` stay.
  std::vector<float> Expected(const std::vector<float>& a, const std::vector<float>& b,
                              const std::vector<float>& bias, std::vector<float> d, float alpha,
                              float beta) const {
    for (int64_t i = 0; i < rows_; ++i) {
      for (int64_t j = 0; j < columns_; ++j) {
        float sum = 0;
        for (int64_t k = 0; k < inner_; ++k) {
          sum += a[ta_ ? k + i * (inner_ + gap_) : i + k * (rows_ + gap_)] *
                 b[tb_ ? j + k * (columns_ + gap_) : k + j * (inner_ + gap_)];
        }
        float& place = d[i + j * (rows_ + gap_)];
        place = alpha * sum + (beta == 0 ? 0 : beta * place);
        if ((epilogue_ & CUBLASLT_EPILOGUE_BIAS) != 0) place += bias[i];
        if ((epilogue_ & CUBLASLT_EPILOGUE_RELU) != 0 && place < 0) place = 0;
      }
    }
    return d;
  }

  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t description = nullptr;
  cublasLtMatrixLayout_t a_layout = nullptr, b_layout = nullptr, d_layout = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;

 private:
  cublasLtMatrixLayout_t MakeLayout(int64_t rows, int64_t columns) const {
    cublasLtMatrixLayout_t layout;
    cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, rows, columns, rows + gap_);
    return layout;
  }
  size_t Places(int64_t rows, int64_t columns) const { return (rows + gap_) * columns; }

  int64_t rows_, inner_, columns_;
  bool ta_, tb_;
  cublasLtEpilogue_t epilogue_;
  int64_t gap_;
};

// Small whole numbers: sums of them are exact.
std::vector<float> SmallNumbers(size_t count, int first) {
  std::vector<float> numbers(count);
  for (size_t i = 0; i < count; ++i) {
    numbers[i] = static_cast<float>(static_cast<int>((i * 7 + first) % 11) - 5);
  }
  return numbers;
}

class CublasLtTest : public ::testing::Test {
 protected:
  CublasLtTest() { Reset(); }
};

TEST_F(CublasLtTest, ProductsOfAllKindsAreThoseOfTheDefinition) {
  for (cublasLtEpilogue_t epilogue : {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_RELU,
                                      CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU_BIAS}) {
    for (int kind = 0; kind < 16; ++kind) {
      Problem problem(7, 5, 3, (kind & 1) != 0, (kind & 2) != 0, epilogue, (kind & 4) / 2);
      const float alpha = 1.5f, beta = (kind & 8) != 0 ? -2.0f : 0.0f;
      const std::vector<float> a = SmallNumbers(problem.APlaces(), 1);
      const std::vector<float> b = SmallNumbers(problem.BPlaces(), 2);
      const std::vector<float> bias = SmallNumbers(7, 3), d = SmallNumbers(problem.DPlaces(), 4);
      const DeviceVector<float> device_a(a), device_b(b), device_bias(bias);
      for (const auto& algorithm : problem.Algorithms()) {
        const DeviceVector<float> device_d(d);
        ASSERT_EQ(problem.Multiply(algorithm, device_a.data(), device_b.data(), device_bias.data(),
                                   device_d.data(), alpha, beta),
                  CUBLAS_STATUS_SUCCESS);
        EXPECT_THAT(device_d.Values(),
                    ElementsAreArray(problem.Expected(a, b, bias, d, alpha, beta)));
      }
    }
  }
}

TEST_F(CublasLtTest, AHandleThatIsDestroyedBreaksOffWhatIsCaptured) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  cublasLtHandle_t handle = nullptr;
  ASSERT_EQ(cublasLtCreate(&handle), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_EQ(cublasLtDestroy(handle), CUBLAS_STATUS_SUCCESS);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST_F(CublasLtTest, ReluMakesZeroOfWhatIsNoNumberWhereItIsToldTo) {
  const DeviceVector<float> a(std::vector<float>{NAN}), b(std::vector<float>{1}), d(1);
  Problem problem(1, 1, 1, false, false, CUBLASLT_EPILOGUE_RELU);
  const auto product = [&] {
    EXPECT_EQ(problem.Multiply(problem.Algorithms()[0], a.data(), b.data(), nullptr, d.data()),
              CUBLAS_STATUS_SUCCESS);
    return d.Values()[0];
  };
  EXPECT_TRUE(std::isnan(product()));
  SetReluKeepsNan(false);
  EXPECT_EQ(product(), 0);
}

TEST_F(CublasLtTest, FastComputeTypesRoundTheInputs) {
  const DeviceVector<float> a(std::vector<float>{1.0f + std::exp2(-12.0f)}),
      b(std::vector<float>{1.0f + std::exp2(-9.0f)}), d(1);
  const auto product = [&](cublasComputeType_t compute) {
    Problem problem(1, 1, 1, false, false, CUBLASLT_EPILOGUE_DEFAULT);
    problem.Set(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, static_cast<int32_t>(compute));
    EXPECT_EQ(problem.Multiply(problem.Algorithms()[0], a.data(), b.data(), nullptr, d.data()),
              CUBLAS_STATUS_SUCCESS);
    return d.Values()[0];
  };
  EXPECT_EQ(product(CUBLAS_COMPUTE_32F), (1.0f + std::exp2(-12.0f)) * (1.0f + std::exp2(-9.0f)));
  EXPECT_EQ(product(CUBLAS_COMPUTE_32F_FAST_TF32), 1.0f + std::exp2(-9.0f));
  EXPECT_EQ(product(CUBLAS_COMPUTE_32F_FAST_16BF), 1.0f);
}

TEST_F(CublasLtTest, Bfloat16InputsAreSummedAsFloats) {
  Problem problem(1, 2, 1, false, false, CUBLASLT_EPILOGUE_DEFAULT);
  const uint32_t type = CUDA_R_16BF;
  for (auto* layout : {problem.a_layout, problem.b_layout}) {
    ASSERT_EQ(
        cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_TYPE, &type, sizeof(type)),
        CUBLAS_STATUS_SUCCESS);
  }
  // 1 and 3; 2 and 0.5.
  const DeviceVector<uint16_t> a({0x3f80, 0x4040}), b({0x4000, 0x3f00});
  const DeviceVector<float> d(1);
  ASSERT_EQ(problem.Multiply(problem.Algorithms()[0], reinterpret_cast<float*>(a.data()),
                             reinterpret_cast<float*>(b.data()), nullptr, d.data()),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(d.Values()[0], 3.5f);
}

TEST_F(CublasLtTest, RowMajorProductsAreThoseOfTheDefinition) {
  Problem problem(2, 1, 2, false, false, CUBLASLT_EPILOGUE_DEFAULT);
  const int32_t order = CUBLASLT_ORDER_ROW;
  for (auto* layout : {problem.a_layout, problem.b_layout, problem.d_layout}) {
    ASSERT_EQ(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_ORDER, &order,
                                               sizeof(order)),
              CUBLAS_STATUS_SUCCESS);
  }
  int64_t leading = 2;
  ASSERT_EQ(cublasLtMatrixLayoutSetAttribute(problem.b_layout, CUBLASLT_MATRIX_LAYOUT_LD, &leading,
                                             sizeof(leading)),
            CUBLAS_STATUS_SUCCESS);
  const DeviceVector<float> a(std::vector<float>{1, 0, 2, 0}), b({3.0f, 5.0f}), d(4);
  ASSERT_EQ(problem.Multiply(problem.Algorithms()[0], a.data(), b.data(), nullptr, d.data()),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_THAT(d.Values(), ElementsAreArray({3, 5, 6, 10}));
}

TEST_F(CublasLtTest, AlgorithmsSplitSumsOnlyWhereTheyMay) {
  Problem problem(7, 5, 3, false, false, CUBLASLT_EPILOGUE_DEFAULT);
  const auto splits = [](const cublasLtMatmulHeuristicResult_t& result) {
    int32_t value = 0;
    size_t written = 0;
    EXPECT_EQ(cublasLtMatmulAlgoConfigGetAttribute(&result.algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM,
                                                   &value, sizeof(value), &written),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(written, sizeof(value));
    return value;
  };
  EXPECT_EQ(splits(problem.Algorithms()[0]), 2);
  const uint32_t none = CUBLASLT_REDUCTION_SCHEME_NONE;
  ASSERT_EQ(
      cublasLtMatmulPreferenceSetAttribute(
          problem.preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &none, sizeof(none)),
      CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(problem.Algorithms().size(), 1);
  EXPECT_EQ(splits(problem.Algorithms()[0]), 1);
}

TEST_F(CublasLtTest, WrongCallsAreRefused) {
  Problem problem(8, 4, 4, false, false, CUBLASLT_EPILOGUE_DEFAULT);
  const DeviceVector<float> a(32), b(16), d(33);
  const auto algorithm = problem.Algorithms()[0];
  const auto multiply = [&](const float* d_place, const cublasLtMatmulHeuristicResult_t& by) {
    return problem.Multiply(by, a.data(), b.data(), nullptr, const_cast<float*>(d_place));
  };
  EXPECT_EQ(multiply(d.data(), algorithm), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(multiply(d.data() + 1, algorithm), CUBLAS_STATUS_NOT_SUPPORTED);  // Not aligned.
  EXPECT_EQ(multiply(nullptr, algorithm), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(multiply(d.data() + 4, algorithm), CUBLAS_STATUS_INVALID_VALUE);  // Beyond its end.
  auto small = algorithm;
  --small.workspaceSize;
  EXPECT_EQ(multiply(d.data(), small), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(multiply(d.data(), {}), CUBLAS_STATUS_INVALID_VALUE);  // No algorithm.
  const int64_t leading = 7;
  ASSERT_EQ(cublasLtMatrixLayoutSetAttribute(problem.a_layout, CUBLASLT_MATRIX_LAYOUT_LD, &leading,
                                             sizeof(leading)),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(multiply(d.data(), algorithm), CUBLAS_STATUS_INVALID_VALUE);
  const int32_t half = 7;
  EXPECT_EQ(cublasLtMatrixLayoutSetAttribute(problem.a_layout, CUBLASLT_MATRIX_LAYOUT_LD, &half,
                                             sizeof(half)),
            CUBLAS_STATUS_INVALID_VALUE);
}

TEST_F(CublasLtTest, AlgorithmOfAnotherProblemIsRefused) {
  Problem problem(8, 4, 4, false, false, CUBLASLT_EPILOGUE_DEFAULT);
  Problem other(4, 4, 4, false, false, CUBLASLT_EPILOGUE_DEFAULT);
  const DeviceVector<float> a(32), b(16), d(32);
  EXPECT_EQ(other.Multiply(problem.Algorithms()[0], a.data(), b.data(), nullptr, d.data()),
            CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST_F(CublasLtTest, BiasOfRowMajorProductsIsNotSupported) {
  Problem problem(4, 4, 4, false, false, CUBLASLT_EPILOGUE_BIAS);
  const int32_t order = CUBLASLT_ORDER_ROW;
  cublasLtMatrixLayoutSetAttribute(problem.d_layout, CUBLASLT_MATRIX_LAYOUT_ORDER, &order,
                                   sizeof(order));
  int count = 0;
  cublasLtMatmulHeuristicResult_t result;
  EXPECT_EQ(cublasLtMatmulAlgoGetHeuristic(problem.handle, problem.description, problem.a_layout,
                                           problem.b_layout, problem.d_layout, problem.d_layout,
                                           problem.preference, 1, &result, &count),
            CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST_F(CublasLtTest, FailedLaunchIsAFailedExecution) {
  Problem problem(4, 4, 4, false, false, CUBLASLT_EPILOGUE_DEFAULT);
  const DeviceVector<float> a(16), b(16), d(16);
  FailLaunch(1);
  EXPECT_EQ(problem.Multiply(problem.Algorithms()[0], a.data(), b.data(), nullptr, d.data()),
            CUBLAS_STATUS_EXECUTION_FAILED);
}

}  // namespace
}  // namespace cuda_emulation
