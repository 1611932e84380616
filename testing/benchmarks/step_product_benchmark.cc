// What each product of a step of examples/wide_mlp.textproto takes, in each precision, by the
// algorithm that the CUDA device takes and by the fastest that it might: a line of JSON each, and
// one with the sums. Where the sums are far apart, algorithms should be chosen by trying; where
// first_flops of a product with a factor transposed is far below those of others, that factor
// should be laid out anew before.
//
//   step_product_benchmark [EXAMPLES [WIDTH [ROUNDS]]]
#include <algorithm>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <vector>

#include "nlohmann/json.hpp"
#include "testing/benchmarks/step_products.h"

namespace millrace::testing {
namespace {

using nlohmann::ordered_json;

struct NamedPrecision {
  cuda::Precision precision;
  const char* name;
};

// Those of tensor cores first: they are what there is to gain.
constexpr NamedPrecision kPrecisions[] = {{cuda::Precision::kBfloat16, "bfloat16"},
                                          {cuda::Precision::kTf32, "tf32"},
                                          {cuda::Precision::kFloat32, "float32"}};

ordered_json LineOf(const MeasuredProduct& product, const char* precision) {
  return {{"what", "step_product"},
          {"product", product.name},
          {"precision", precision},
          {"result", product.narrow_result ? "bfloat16" : "float32"},
          {"rows", product.rows},
          {"inner", product.inner},
          {"columns", product.columns},
          {"transposed_a", product.transposed_a},
          {"transposed_b", product.transposed_b},
          {"epilogue", product.epilogue},
          {"algorithms", product.algorithms},
          {"first_us", product.first_seconds * 1e6},
          {"fastest_us", product.fastest_seconds * 1e6},
          {"first_flops_per_second", product.flops() / product.first_seconds},
          {"fastest_flops_per_second", product.flops() / product.fastest_seconds},
          {"first", product.first},
          {"fastest", product.fastest}};
}

void Measure(const NamedPrecision& named, int64_t examples, int64_t width, int rounds) {
  double flops = 0, first = 0, fastest = 0;
  for (const MeasuredProduct& product :
       MeasureStepProducts(named.precision, examples, width, rounds)) {
    std::cout << LineOf(product, named.name) << std::endl;
    flops += product.flops();
    first += product.first_seconds;
    fastest += product.fastest_seconds;
  }
  std::cout << ordered_json{{"what", "step_products"},
                            {"precision", named.name},
                            {"first_us", first * 1e6},
                            {"fastest_us", fastest * 1e6},
                            {"first_flops_per_second", flops / first},
                            {"fastest_flops_per_second", flops / fastest}}
            << std::endl;
}

int Main(int argc, char** argv) {
  const auto argument = [&](int i, int otherwise) {
    return argc > i ? std::max(std::atoi(argv[i]), 1) : otherwise;
  };
  try {
    for (const NamedPrecision& named : kPrecisions) {
      Measure(named, argument(1, 4096), argument(2, 4096), argument(3, 9));
    }
  } catch (const std::exception& error) {
    std::cerr << "step_product_benchmark: " << error.what() << std::endl;
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace millrace::testing

int main(int argc, char** argv) { return millrace::testing::Main(argc, argv); }
