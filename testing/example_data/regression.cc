#include <array>
#include <cmath>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "testing/digits/random.h"
#include "testing/example_data/example_data.h"
#include "testing/example_data/write_file.h"

namespace millrace::testing {
namespace {

constexpr int kRegressionRows = 6000;

double Friedman(const std::array<double, 10>& x) {
  return 10 * std::sin(std::numbers::pi * x[0] * x[1]) + 20 * (x[2] - 0.5) * (x[2] - 0.5) +
         10 * x[3] + 5 * x[4];
}

}  // namespace

absl::Status WriteRegressionData(const std::string& directory, uint64_t seed) {
  Random random(seed);
  std::string text = "x1,x2,x3,x4,x5,x6,x7,x8,x9,x10,y\n";
  for (int row = 0; row < kRegressionRows; ++row) {
    std::array<double, 10> x;
    for (double& value : x) value = random.Uniform(0, 1);
    const double y = Friedman(x) + random.Normal();
    absl::StrAppend(&text, absl::StrJoin(x, ","), ",", y, "\n");
  }
  MILLRACE_RETURN_IF_ERROR(MakeFolder(directory));
  return WriteBytes(directory + "/friedman.csv", text);
}

}  // namespace millrace::testing
