#include "testing/benchmarks/cudnn_convolutions.h"

#if __has_include(<cudnn.h>)

#include <cuda_runtime.h>
#include <cudnn.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

namespace millrace::testing {
namespace {

constexpr char kFile[] = "libcudnn.so.9";
constexpr int kTimes = 200;  // Of each convolution in a round.

void Check(bool ok, const char* what, const char* error) {
  if (ok) return;
  std::fprintf(stderr, "%s: %s\n", what, error);
  std::exit(1);
}

void CheckCuda(cudaError_t error, const char* what) {
  Check(error == cudaSuccess, what, cudaGetErrorString(error));
}

// What is used of cuDNN.
struct Api {
  decltype(&cudnnCreate) create;
  decltype(&cudnnSetStream) set_stream;
  decltype(&cudnnGetVersion) version;
  decltype(&cudnnGetErrorString) error;
  decltype(&cudnnCreateTensorDescriptor) create_tensor;
  decltype(&cudnnDestroyTensorDescriptor) destroy_tensor;
  decltype(&cudnnSetTensor4dDescriptor) set_tensor;
  decltype(&cudnnCreateFilterDescriptor) create_filter;
  decltype(&cudnnDestroyFilterDescriptor) destroy_filter;
  decltype(&cudnnSetFilter4dDescriptor) set_filter;
  decltype(&cudnnCreateConvolutionDescriptor) create_convolution;
  decltype(&cudnnDestroyConvolutionDescriptor) destroy_convolution;
  decltype(&cudnnSetConvolution2dDescriptor) set_convolution;
  decltype(&cudnnSetConvolutionMathType) set_math;
  decltype(&cudnnFindConvolutionForwardAlgorithm) find_forward;
  decltype(&cudnnFindConvolutionBackwardDataAlgorithm) find_data;
  decltype(&cudnnFindConvolutionBackwardFilterAlgorithm) find_weights;
  decltype(&cudnnConvolutionForward) forward;
  decltype(&cudnnConvolutionBackwardData) data;
  decltype(&cudnnConvolutionBackwardFilter) weights;
};

template <typename Function>
bool Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

bool FindAll(void* library, Api* api) {
  return Find(library, "cudnnCreate", &api->create) &&
         Find(library, "cudnnSetStream", &api->set_stream) &&
         Find(library, "cudnnGetVersion", &api->version) &&
         Find(library, "cudnnGetErrorString", &api->error) &&
         Find(library, "cudnnCreateTensorDescriptor", &api->create_tensor) &&
         Find(library, "cudnnDestroyTensorDescriptor", &api->destroy_tensor) &&
         Find(library, "cudnnSetTensor4dDescriptor", &api->set_tensor) &&
         Find(library, "cudnnCreateFilterDescriptor", &api->create_filter) &&
         Find(library, "cudnnDestroyFilterDescriptor", &api->destroy_filter) &&
         Find(library, "cudnnSetFilter4dDescriptor", &api->set_filter) &&
         Find(library, "cudnnCreateConvolutionDescriptor", &api->create_convolution) &&
         Find(library, "cudnnDestroyConvolutionDescriptor", &api->destroy_convolution) &&
         Find(library, "cudnnSetConvolution2dDescriptor", &api->set_convolution) &&
         Find(library, "cudnnSetConvolutionMathType", &api->set_math) &&
         Find(library, "cudnnFindConvolutionForwardAlgorithm", &api->find_forward) &&
         Find(library, "cudnnFindConvolutionBackwardDataAlgorithm", &api->find_data) &&
         Find(library, "cudnnFindConvolutionBackwardFilterAlgorithm", &api->find_weights) &&
         Find(library, "cudnnConvolutionForward", &api->forward) &&
         Find(library, "cudnnConvolutionBackwardData", &api->data) &&
         Find(library, "cudnnConvolutionBackwardFilter", &api->weights);
}

// Random numbers of either type: bytes whose exponents are small.
class DeviceArray {
 public:
  explicit DeviceArray(size_t bytes) {
    CheckCuda(cudaMalloc(&memory_, std::max<size_t>(bytes, 4)), "cudaMalloc");
    std::vector<unsigned char> values(bytes);
    for (size_t i = 0; i < bytes; ++i) {
      values[i] = i % 2 == 1 ? 0x3e + (i % 4) / 2 * 0x80 : static_cast<unsigned char>(i * 37);
    }
    CheckCuda(cudaMemcpy(memory_, values.data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(memory_); }
  void* get() const { return memory_; }

 private:
  void* memory_ = nullptr;
};

// `run` kTimes times on the stream, to be launched at once: a call of cuDNN may take the host
// longer than the GPU. Null: cuDNN does something there that cannot be captured.
cudaGraphExec_t Captured(cudaStream_t stream, const std::function<cudnnStatus_t()>& run) {
  CheckCuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
  bool ok = true;
  for (int i = 0; i < kTimes && ok; ++i) ok = run() == CUDNN_STATUS_SUCCESS;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t runnable = nullptr;
  ok = cudaStreamEndCapture(stream, &graph) == cudaSuccess && ok &&
       cudaGraphInstantiate(&runnable, graph, /*flags=*/0) == cudaSuccess;
  if (graph != nullptr) cudaGraphDestroy(graph);
  cudaGetLastError();
  return ok ? runnable : nullptr;
}

// Seconds of `work`, which enqueues on the stream.
double SecondsOf(cudaStream_t stream, const std::function<void()>& work) {
  cudaEvent_t begin, end;
  CheckCuda(cudaEventCreate(&begin), "cudaEventCreate");
  CheckCuda(cudaEventCreate(&end), "cudaEventCreate");
  CheckCuda(cudaEventRecord(begin, stream), "cudaEventRecord");
  work();
  CheckCuda(cudaEventRecord(end, stream), "cudaEventRecord");
  CheckCuda(cudaEventSynchronize(end), "cudaEventSynchronize");
  float milliseconds = 0;
  CheckCuda(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return milliseconds / 1000.0;
}

// Median seconds of `run`; below 0 where it fails.
double Measure(cudaStream_t stream, const std::function<cudnnStatus_t()>& run, int rounds) {
  if (run() != CUDNN_STATUS_SUCCESS) return -1;
  CheckCuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  const cudaGraphExec_t graph = Captured(stream, run);
  const auto all = [&] {
    if (graph != nullptr) return CheckCuda(cudaGraphLaunch(graph, stream), "cudaGraphLaunch");
    for (int i = 0; i < kTimes; ++i) run();
  };
  SecondsOf(stream, all);  // To warm up.
  std::vector<double> seconds;
  for (int round = 0; round < rounds; ++round) seconds.push_back(SecondsOf(stream, all) / kTimes);
  if (graph != nullptr) cudaGraphExecDestroy(graph);
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

// One shape in one layout and type.
class Convolution {
 public:
  Convolution(const Api& api, cudnnHandle_t handle, cudaStream_t stream,
              const ConvolutionShape& shape, cuda::Precision precision, cudnnTensorFormat_t format)
      : api_(api),
        handle_(handle),
        stream_(stream),
        bytes_(precision == cuda::Precision::kBfloat16 ? 2 : 4),
        x_bytes_(bytes_ * shape.images * shape.side * shape.side * shape.channels),
        y_bytes_(bytes_ * shape.images * shape.output_side() * shape.output_side() * shape.filters),
        w_bytes_(bytes_ * shape.kernel * shape.kernel * shape.channels * shape.filters),
        x_(x_bytes_),
        y_(y_bytes_),
        w_(w_bytes_) {
    const cudnnDataType_t type = bytes_ == 2 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
    Must(api.create_tensor(&x_shape_));
    Must(api.create_tensor(&y_shape_));
    Must(api.create_filter(&w_shape_));
    Must(api.create_convolution(&convolution_));
    Must(api.set_tensor(x_shape_, format, type, shape.images, shape.channels, shape.side,
                        shape.side));
    Must(api.set_tensor(y_shape_, format, type, shape.images, shape.filters, shape.output_side(),
                        shape.output_side()));
    Must(api.set_filter(w_shape_, type, format, shape.filters, shape.channels, shape.kernel,
                        shape.kernel));
    Must(api.set_convolution(convolution_, shape.pad(), shape.pad(), shape.stride, shape.stride, 1,
                             1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    Must(api.set_math(convolution_, precision == cuda::Precision::kFloat32 ? CUDNN_FMA_MATH
                                    : bytes_ == 2                          ? CUDNN_TENSOR_OP_MATH
                                                                           : CUDNN_DEFAULT_MATH));
  }
  Convolution(const Convolution&) = delete;
  Convolution& operator=(const Convolution&) = delete;
  ~Convolution() {
    api_.destroy_tensor(x_shape_);
    api_.destroy_tensor(y_shape_);
    api_.destroy_filter(w_shape_);
    api_.destroy_convolution(convolution_);
  }

  double Forward(int rounds) {
    cudnnConvolutionFwdAlgoPerf_t found[kAlgorithms];
    int count = 0;
    if (api_.find_forward(handle_, x_shape_, w_shape_, convolution_, y_shape_, kAlgorithms, &count,
                          found) != CUDNN_STATUS_SUCCESS ||
        count == 0 || found[0].status != CUDNN_STATUS_SUCCESS) {
      return -1;
    }
    Must(api_.set_math(convolution_, found[0].mathType));
    const DeviceArray workspace(found[0].memory);
    return Measure(
        stream_,
        [&] {
          return api_.forward(handle_, &one_, x_shape_, x_.get(), w_shape_, w_.get(), convolution_,
                              found[0].algo, workspace.get(), found[0].memory, &zero_, y_shape_,
                              y_.get());
        },
        rounds);
  }

  double Data(int rounds) {
    cudnnConvolutionBwdDataAlgoPerf_t found[kAlgorithms];
    int count = 0;
    if (api_.find_data(handle_, w_shape_, y_shape_, convolution_, x_shape_, kAlgorithms, &count,
                       found) != CUDNN_STATUS_SUCCESS ||
        count == 0 || found[0].status != CUDNN_STATUS_SUCCESS) {
      return -1;
    }
    Must(api_.set_math(convolution_, found[0].mathType));
    const DeviceArray workspace(found[0].memory);
    return Measure(
        stream_,
        [&] {
          return api_.data(handle_, &one_, w_shape_, w_.get(), y_shape_, y_.get(), convolution_,
                           found[0].algo, workspace.get(), found[0].memory, &zero_, x_shape_,
                           x_.get());
        },
        rounds);
  }

  double Weights(int rounds) {
    cudnnConvolutionBwdFilterAlgoPerf_t found[kAlgorithms];
    int count = 0;
    if (api_.find_weights(handle_, x_shape_, y_shape_, convolution_, w_shape_, kAlgorithms, &count,
                          found) != CUDNN_STATUS_SUCCESS ||
        count == 0 || found[0].status != CUDNN_STATUS_SUCCESS) {
      return -1;
    }
    Must(api_.set_math(convolution_, found[0].mathType));
    const DeviceArray workspace(found[0].memory);
    return Measure(
        stream_,
        [&] {
          return api_.weights(handle_, &one_, x_shape_, x_.get(), y_shape_, y_.get(), convolution_,
                              found[0].algo, workspace.get(), found[0].memory, &zero_, w_shape_,
                              w_.get());
        },
        rounds);
  }

 private:
  static constexpr int kAlgorithms = 10;

  void Must(cudnnStatus_t status) const {
    Check(status == CUDNN_STATUS_SUCCESS, "cuDNN", api_.error(status));
  }

  const Api& api_;
  const cudnnHandle_t handle_;
  const cudaStream_t stream_;  // The handle's.
  const size_t bytes_, x_bytes_, y_bytes_, w_bytes_;
  const DeviceArray x_, y_, w_;
  const float one_ = 1, zero_ = 0;
  cudnnTensorDescriptor_t x_shape_, y_shape_;
  cudnnFilterDescriptor_t w_shape_;
  cudnnConvolutionDescriptor_t convolution_;
};

double Faster(double a, double b) {
  if (a < 0 || b < 0) return std::max(a, b);
  return std::min(a, b);
}

class LoadedCudnn final : public Cudnn {
 public:
  explicit LoadedCudnn(const Api& api) : api_(api) {
    const cudnnStatus_t status = api_.create(&handle_);
    Check(status == CUDNN_STATUS_SUCCESS, "cudnnCreate", api_.error(status));
    CheckCuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    Check(api_.set_stream(handle_, stream_) == CUDNN_STATUS_SUCCESS, "cudnnSetStream", "failed");
  }

  std::string version() const override { return std::to_string(api_.version()); }

  ConvolutionSeconds Measure(const ConvolutionShape& shape, cuda::Precision precision,
                             int rounds) override {
    ConvolutionSeconds fastest;
    for (const cudnnTensorFormat_t format : {CUDNN_TENSOR_NHWC, CUDNN_TENSOR_NCHW}) {
      const auto make = [&] {
        return std::make_unique<Convolution>(api_, handle_, stream_, shape, precision, format);
      };
      fastest.forward = Faster(fastest.forward, make()->Forward(rounds));
      fastest.data = Faster(fastest.data, make()->Data(rounds));
      fastest.weights = Faster(fastest.weights, make()->Weights(rounds));
    }
    return fastest;
  }

 private:
  const Api api_;
  cudnnHandle_t handle_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

}  // namespace

std::unique_ptr<Cudnn> Cudnn::Load(std::string* why) {
  void* const library = dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  Api api;
  if (library == nullptr || !FindAll(library, &api)) {
    *why = dlerror();
    return nullptr;
  }
  return std::make_unique<LoadedCudnn>(api);
}

}  // namespace millrace::testing

#else

namespace millrace::testing {

std::unique_ptr<Cudnn> Cudnn::Load(std::string* why) {
  *why = "built without cudnn.h";
  return nullptr;
}

}  // namespace millrace::testing

#endif
