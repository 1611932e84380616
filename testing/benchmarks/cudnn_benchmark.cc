// The convolutions of convolution_benchmark by cuDNN, to compare with: a line of JSON for each
// shape and precision, times in microseconds. Where cuDNN is missing a line says so, and that is
// all.
//
//   cudnn_benchmark [IMAGES]
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>

#include "nlohmann/json.hpp"
#include "testing/benchmarks/convolution_shapes.h"
#include "testing/benchmarks/cudnn_convolutions.h"

namespace millrace::testing {
namespace {

constexpr int kRounds = 15;

int Main(int images) {
  std::string why;
  const std::unique_ptr<Cudnn> cudnn = Cudnn::Load(&why);
  if (cudnn == nullptr) {
    std::cout << "without cuDNN: " << why << std::endl;
    return 0;
  }
  for (const NamedConvolution& convolution : kConvolutions) {
    for (const NamedPrecision& precision : kPrecisions) {
      const ConvolutionSeconds seconds =
          cudnn->Measure(convolution.Of(images), precision.precision, kRounds);
      std::cout << nlohmann::ordered_json{{"what", "convolution"},
                                          {"by", "cuDNN " + cudnn->version()},
                                          {"layer", convolution.name},
                                          {"images", images},
                                          {"precision", precision.name},
                                          {"forward_us", seconds.forward * 1e6},
                                          {"data_us", seconds.data * 1e6},
                                          {"weights_us", seconds.weights * 1e6}}
                << std::endl;
    }
  }
  return 0;
}

}  // namespace
}  // namespace millrace::testing

int main(int argc, char** argv) {
  return millrace::testing::Main(argc > 1 ? std::atoi(argv[1]) : 128);
}
