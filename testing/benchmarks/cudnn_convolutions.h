// Convolutions by cuDNN, to compare with. It is found when a program runs, and needed by none.
#ifndef MILLRACE_TESTING_BENCHMARKS_CUDNN_CONVOLUTIONS_H_
#define MILLRACE_TESTING_BENCHMARKS_CUDNN_CONVOLUTIONS_H_

#include <memory>
#include <string>

#include "testing/benchmarks/convolution_shapes.h"
#include "worker/device/cuda/descriptions.h"

namespace millrace::testing {

class Cudnn {
 public:
  // Null where libcudnn.so.9 cannot be loaded, or the program was built without its headers; says
  // why.
  static std::unique_ptr<Cudnn> Load(std::string* why);
  virtual ~Cudnn() = default;

  virtual std::string version() const = 0;

  // The fastest of its algorithms and of the layouts NHWC and NCHW, each the median of `rounds`: of
  // many in one graph, as convolution_benchmark has them, by the GPU's clock. In kBfloat16 images
  // and kernels are bfloat16 in memory. Stops the process where a call fails.
  virtual ConvolutionSeconds Measure(const ConvolutionShape& shape, cuda::Precision precision,
                                     int rounds) = 0;
};

}  // namespace millrace::testing

#endif  // MILLRACE_TESTING_BENCHMARKS_CUDNN_CONVOLUTIONS_H_
