// What a GPU reaches in one large product of matrices by cuBLASLt itself, in each precision, with
// each factor as it is and transposed: a line of JSON each. `result` is what the product has in
// memory; factors have the precision's type. speed_table.py compares steps with the fastest of a
// precision.
//
//   product_benchmark [SIZE]
#include <cstdint>
#include <cstdlib>
#include <iostream>

#include "nlohmann/json.hpp"
#include "testing/benchmarks/large_product.h"

namespace millrace::testing {
namespace {

constexpr int kRounds = 5;

struct NamedTypes {
  ProductTypes types;
  const char* precision;
  const char* result;
};

constexpr NamedTypes kTypes[] = {{ProductTypes::kFloat32, "float32", "float32"},
                                 {ProductTypes::kTf32, "tf32", "float32"},
                                 {ProductTypes::kBfloat16, "bfloat16", "float32"},
                                 {ProductTypes::kBfloat16ToBfloat16, "bfloat16", "bfloat16"}};

void Measure(const NamedTypes& named, Transposed transposed, int64_t size) {
  const double rate = LargeProductRate(named.types, transposed, size, kRounds);
  std::cout << nlohmann::ordered_json{{"what", "product"},
                                      {"by", CublasLtName()},
                                      {"precision", named.precision},
                                      {"result", named.result},
                                      {"size", size},
                                      {"transposed_a", transposed.a},
                                      {"transposed_b", transposed.b},
                                      {"flops_per_second", rate}}
            << std::endl;
}

int Main(int64_t size) {
  for (const NamedTypes& named : kTypes) {
    for (const bool a : {false, true}) {
      for (const bool b : {false, true}) Measure(named, {a, b}, size);
    }
  }
  return 0;
}

}  // namespace
}  // namespace millrace::testing

int main(int argc, char** argv) {
  return millrace::testing::Main(argc > 1 ? std::atoi(argv[1]) : 8192);
}
