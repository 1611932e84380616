// The convolutions of ResNets for CIFAR-10 on a GPU, forwards, back to the input and for the
// kernel. cudnn_benchmark measures cuDNN's.
//
//   MILLRACE_TEST_GPU=/path/libmillrace_cuda.so convolution_benchmark --images=128
//
// Prints a line of JSON for each shape and precision, times in microseconds. Without
// MILLRACE_TEST_GPU it runs on the emulated GPU, whose times say nothing. The gradient of the
// kernel is measured without that of the input, and the other way round; so is cuDNN's.
#include <functional>
#include <iostream>
#include <memory>

#include "CLI/CLI.hpp"
#include "common/process.h"
#include "nlohmann/json.hpp"
#include "testing/benchmarks/convolution_shapes.h"
#include "testing/benchmarks/gpu_timing.h"
#include "worker/device/cuda/test_library.h"

namespace millrace::testing {
namespace {

struct Options {
  int images = 128;
  int rounds = 15;
  int times = 200;  // As cudnn_benchmark's.
  bool first_alone = false;
};

class KernelGradient final : public cuda::Gradients {
 public:
  KernelGradient(cuda::Gpu* gpu, size_t count) : memory_(gpu, count, 5) {}
  float* Buffer(int /*variable*/) override { return memory_.get(); }
  void Finished(int /*variable*/) override {}

 private:
  RandomFloats memory_;
};

cuda::ConvolutionDescription DescriptionOf(const ConvolutionShape& shape, cuda::Precision precision,
                                           bool trained) {
  cuda::ConvolutionDescription description;
  cuda::WindowDescription& window = description.window;
  window.input = {shape.side, shape.side, shape.channels};
  window.output = {shape.output_side(), shape.output_side(), shape.filters};
  window.size = {shape.kernel, shape.kernel};
  window.strides = {shape.stride, shape.stride};
  window.dilation = {1, 1};
  window.pad_before = {shape.stride == 1 ? shape.pad() : 0, shape.stride == 1 ? shape.pad() : 0};
  description.precision = precision;
  description.variables = {0, -1};
  description.trained = trained;
  return description;
}

size_t Elements(const ConvolutionShape& shape, bool output) {
  const size_t side = static_cast<size_t>(output ? shape.output_side() : shape.side);
  return side * side * static_cast<size_t>(shape.images) *
         static_cast<size_t>(output ? shape.filters : shape.channels);
}

ConvolutionSeconds Measure(cuda::Gpu* gpu, const ConvolutionShape& shape, cuda::Precision precision,
                           const Options& options) {
  const auto trained = gpu->Make(DescriptionOf(shape, precision, /*trained=*/true));
  const auto frozen = gpu->Make(DescriptionOf(shape, precision, /*trained=*/false));
  const auto kernel_size = static_cast<size_t>(shape.kernel * shape.kernel * shape.channels) *
                           static_cast<size_t>(shape.filters);
  const auto images = static_cast<size_t>(shape.images);
  const RandomFloats x(gpu, Elements(shape, false), 1), y(gpu, Elements(shape, true), 2);
  const RandomFloats dx(gpu, Elements(shape, false), 3), kernel(gpu, kernel_size, 4);
  trained->Prepare(images, /*training=*/true);
  const RandomFloats workspace(gpu, trained->WorkspaceBytes(images) / sizeof(float) + 1, 6);
  const RandomFloats carried(gpu, trained->CarriedBytes(images) / sizeof(float) + 1, 7);
  KernelGradient gradients(gpu, kernel_size);
  const float* const parameters[] = {kernel.get(), nullptr};
  const float* const inputs[] = {x.get()};
  float* const outputs[] = {dx.get()};
  float* const none[] = {nullptr};
  cuda::Pass pass;
  pass.batch = images;
  pass.training = true;
  pass.parameters = parameters;
  pass.carried = carried.get();
  pass.workspace = workspace.get();
  pass.gradients = &gradients;
  const auto seconds = [&](const std::function<void()>& run) {
    return SecondsOf(gpu, run, options.times, options.rounds).median;
  };
  return {
      seconds([&] { trained->Forward(pass, inputs, y.get()); }),
      seconds([&] { frozen->Backward(pass, inputs, y.get(), y.get(), outputs); }),
      seconds([&] { trained->Backward(pass, inputs, y.get(), y.get(), none); }),
  };
}

void Run(const Options& options) {
  const auto gpu = worker::TestLibrary()->Open(0, {});
  for (const NamedConvolution& convolution : kConvolutions) {
    const ConvolutionShape shape = convolution.Of(options.images);
    const double flops = 2.0 * shape.kernel * shape.kernel * shape.channels *
                         static_cast<double>(Elements(shape, true));
    for (const NamedPrecision& precision : kPrecisions) {
      const ConvolutionSeconds ours = Measure(gpu.get(), shape, precision.precision, options);
      std::cout << nlohmann::ordered_json{{"what", "convolution"},
                                          {"by", "millrace"},
                                          {"layer", convolution.name},
                                          {"images", options.images},
                                          {"precision", precision.name},
                                          {"gflop", flops / 1e9},
                                          {"forward_us", ours.forward * 1e6},
                                          {"data_us", ours.data * 1e6},
                                          {"weights_us", ours.weights * 1e6}}
                << std::endl;
    }
    if (options.first_alone) return;
  }
}

int Main(int argc, char** argv) {
  InitProcess(argv[0]);
  Options options;
  CLI::App app("Times of the convolutions of ResNets, on a GPU.");
  app.add_option("--images", options.images, "of a batch")->check(CLI::PositiveNumber);
  app.add_option("--rounds", options.rounds, "whose median counts")->check(CLI::PositiveNumber);
  app.add_option("--times", options.times, "of a round")->check(CLI::PositiveNumber);
  app.add_flag("--first_alone", options.first_alone, "the first shape alone");
  CLI11_PARSE(app, argc, argv);
  Run(options);
  return 0;
}

}  // namespace
}  // namespace millrace::testing

int main(int argc, char** argv) { return millrace::testing::Main(argc, argv); }
