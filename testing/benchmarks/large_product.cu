#include <cublasLt.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "testing/benchmarks/large_product.h"
#include "testing/benchmarks/random_matrix.h"

namespace millrace::testing {
namespace {

constexpr int kTimes = 5;  // Of the product in a round.
constexpr int kMostAlgorithms = 8;
constexpr size_t kWorkspaceBytes = size_t{32} << 20;

void CheckProduct(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  std::fprintf(stderr, "%s: %s\n", call, cublasLtGetStatusString(status));
  std::exit(1);
}

class LargeProduct {
 public:
  LargeProduct(ProductTypes types, Transposed transposed, int64_t size)
      : has_narrow_factors_(types == ProductTypes::kBfloat16 ||
                            types == ProductTypes::kBfloat16ToBfloat16),
        has_narrow_result_(types == ProductTypes::kBfloat16ToBfloat16),
        a_(static_cast<size_t>(size * size), has_narrow_factors_),
        b_(static_cast<size_t>(size * size), has_narrow_factors_),
        c_(static_cast<size_t>(size * size), has_narrow_result_),
        workspace_(kWorkspaceBytes / sizeof(float), /*is_narrow=*/false) {
    CheckProductCuda(cudaStreamCreate(&stream_), "cudaStreamCreate");
    CheckProduct(cublasLtCreate(&lt_), "cublasLtCreate");
    const cublasComputeType_t compute =
        types == ProductTypes::kTf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    CheckProduct(cublasLtMatmulDescCreate(&product_, compute, CUDA_R_32F),
                 "cublasLtMatmulDescCreate");
    // It takes matrices column-major: so its first factor is our second one (product_plan.cu).
    SetTransposed(CUBLASLT_MATMUL_DESC_TRANSA, transposed.b);
    SetTransposed(CUBLASLT_MATMUL_DESC_TRANSB, transposed.a);
    MakeLayout(has_narrow_factors_, size, &factor_layout_);
    MakeLayout(has_narrow_result_, size, &result_layout_);
  }
  LargeProduct(const LargeProduct&) = delete;
  LargeProduct& operator=(const LargeProduct&) = delete;
  ~LargeProduct() {
    cublasLtMatrixLayoutDestroy(result_layout_);
    cublasLtMatrixLayoutDestroy(factor_layout_);
    cublasLtMatmulDescDestroy(product_);
    cublasLtDestroy(lt_);
    cudaStreamDestroy(stream_);
  }

  // Median seconds of one product with the fastest algorithm.
  double Seconds(int rounds) {
    cublasLtMatmulHeuristicResult_t suggested[kMostAlgorithms] = {};
    const int count = Suggest(suggested);
    double least = 0;
    for (int i = 0; i < count; ++i) {
      if (Multiply(suggested[i].algo) != CUBLAS_STATUS_SUCCESS) continue;
      const double seconds = MedianSeconds(suggested[i].algo, rounds);
      if (least == 0 || seconds < least) least = seconds;
    }
    if (least > 0) return least;
    std::fprintf(stderr, "cublasLtMatmul: no algorithm works\n");
    std::exit(1);
  }

 private:
  static void MakeLayout(bool is_narrow, int64_t size, cublasLtMatrixLayout_t* layout) {
    const auto side = static_cast<uint64_t>(size);
    CheckProduct(
        cublasLtMatrixLayoutCreate(layout, is_narrow ? CUDA_R_16BF : CUDA_R_32F, side, side, size),
        "cublasLtMatrixLayoutCreate");
  }

  void SetTransposed(cublasLtMatmulDescAttributes_t attribute, bool transposed) const {
    const cublasOperation_t operation = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    CheckProduct(cublasLtMatmulDescSetAttribute(product_, attribute, &operation, sizeof(operation)),
                 "cublasLtMatmulDescSetAttribute");
  }

  // Returns how many there are.
  int Suggest(cublasLtMatmulHeuristicResult_t* results) const {
    cublasLtMatmulPreference_t preference = nullptr;
    CheckProduct(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    const uint64_t bytes = kWorkspaceBytes;
    CheckProduct(cublasLtMatmulPreferenceSetAttribute(
                     preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof(bytes)),
                 "cublasLtMatmulPreferenceSetAttribute");
    int count = 0;
    CheckProduct(cublasLtMatmulAlgoGetHeuristic(lt_, product_, factor_layout_, factor_layout_,
                                                result_layout_, result_layout_, preference,
                                                kMostAlgorithms, results, &count),
                 "cublasLtMatmulAlgoGetHeuristic");
    cublasLtMatmulPreferenceDestroy(preference);
    return count;
  }

  cublasStatus_t Multiply(const cublasLtMatmulAlgo_t& algorithm) {
    const float one = 1;
    const float zero = 0;
    return cublasLtMatmul(lt_, product_, &one, a_.get(), factor_layout_, b_.get(), factor_layout_,
                          &zero, c_.get(), result_layout_, c_.get(), result_layout_, &algorithm,
                          workspace_.get(), kWorkspaceBytes, stream_);
  }

  double MedianSeconds(const cublasLtMatmulAlgo_t& algorithm, int rounds) {
    RoundSeconds(algorithm);  // To warm up.
    std::vector<double> seconds;
    for (int round = 0; round < rounds; ++round) seconds.push_back(RoundSeconds(algorithm));
    std::sort(seconds.begin(), seconds.end());
    return seconds[seconds.size() / 2];
  }

  double RoundSeconds(const cublasLtMatmulAlgo_t& algorithm) {
    cudaEvent_t begin, end;
    CheckProductCuda(cudaEventCreate(&begin), "cudaEventCreate");
    CheckProductCuda(cudaEventCreate(&end), "cudaEventCreate");
    CheckProductCuda(cudaEventRecord(begin, stream_), "cudaEventRecord");
    for (int i = 0; i < kTimes; ++i) CheckProduct(Multiply(algorithm), "cublasLtMatmul");
    CheckProductCuda(cudaEventRecord(end, stream_), "cudaEventRecord");
    CheckProductCuda(cudaEventSynchronize(end), "cudaEventSynchronize");
    float milliseconds = 0;
    CheckProductCuda(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    return milliseconds / 1000.0 / kTimes;
  }

  const bool has_narrow_factors_, has_narrow_result_;
  const RandomMatrix a_, b_, c_, workspace_;
  cudaStream_t stream_ = nullptr;
  cublasLtHandle_t lt_ = nullptr;
  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatrixLayout_t factor_layout_ = nullptr;
  cublasLtMatrixLayout_t result_layout_ = nullptr;
};

}  // namespace

double LargeProductRate(ProductTypes types, Transposed transposed, int64_t size, int rounds) {
  const double side = static_cast<double>(size);
  return 2 * side * side * side / LargeProduct(types, transposed, size).Seconds(rounds);
}

std::string CublasLtName() {
  const size_t version = cublasLtGetVersion();
  return "cuBLASLt " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) +
         "." + std::to_string(version % 100);
}

}  // namespace millrace::testing
