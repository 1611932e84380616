#include "worker/device/cpu/layers/conv2d.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "glog/logging.h"
#include "worker/device/cpu/layers/column_sums.h"
#include "worker/device/cpu/openmp.h"
#include "worker/model/walk.h"

namespace millrace::worker {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using Tag = memory::format_tag;

CpuBuffer BufferFor(const memory::desc& layout) {
  return CpuBuffer((layout.get_size() + sizeof(float) - 1) / sizeof(float));
}

// Elements of a window, up to which, without dilation, the implementations that ForwardDescription
// chooses from have the same bits.
constexpr int64_t kSmallWindow = 9;

// Whether this implementation adds the bias's gradient up pixel by pixel, as SumColumns does and in
// twice the time or more: oneDNN's for AVX-512 do, in one thread.
bool AddsBiasUpSlowly(absl::string_view implementation) {
  return omp_get_max_threads() == 1 && (absl::StartsWith(implementation, "jit:avx512") ||
                                        absl::StartsWith(implementation, "jit_1x1:avx512"));
}

// Whether this implementation of a kernel's gradient writes past its workspace: oneDNN's for
// windows of one pixel copies the pixels that the strides leave, and takes room for the channels
// that there are but writes whole vectors of them, up to 16. Wrong gradients, and crashes, are what
// comes of it (https://github.com/uxlfoundation/oneDNN/issues/6035).
bool OverrunsWorkspace(absl::string_view implementation, const memory::dims& strides,
                       int64_t channels) {
  constexpr int64_t kMostOfVector = 16;
  return absl::StartsWith(implementation, "jit_1x1:") && (strides[0] > 1 || strides[1] > 1) &&
         channels < kMostOfVector;
}

}  // namespace

Conv2DLayer::Conv2DLayer(CpuContext* context, const LayerPlan& plan,
                         const CpuParameters& parameters, bool input_gradient)
    : Conv2DLayer(context, plan, ImageWindowOf(plan), parameters, input_gradient) {}

Conv2DLayer::Conv2DLayer(CpuContext* context, const LayerPlan& plan, const ImageWindow& window,
                         const CpuParameters& parameters, bool input_gradient)
    : context_(context),
      input_(window.input),
      output_(window.output),
      windows_(MakeWindows(window)),
      groups_(static_cast<int64_t>(window.groups)),
      kernel_(plan.variable(kKernel)),
      bias_(plan.variable(kBias)),
      trained_(IsTrained(plan)),
      parameters_(parameters),
      wants_input_gradient_(input_gradient),
      activation_(context, LastActivation(plan.spec), window.output) {}

memory::desc Conv2DLayer::BiasLayout() const {
  return memory::desc({static_cast<int64_t>(output_[2])}, memory::data_type::f32, Tag::a);
}

memory::dims Conv2DLayer::KernelSizes() const {
  const int64_t filters = static_cast<int64_t>(output_[2]);
  const int64_t channels = static_cast<int64_t>(input_[2]);
  if (groups_ == 1) return {filters, channels, windows_.size[0], windows_.size[1]};
  return {groups_, filters / groups_, channels / groups_, windows_.size[0], windows_.size[1]};
}

memory::desc Conv2DLayer::AnyKernel() const {
  return memory::desc(KernelSizes(), memory::data_type::f32, Tag::any);
}

memory::desc Conv2DLayer::KerasKernel() const {
  const memory::dims sizes = KernelSizes();
  if (groups_ == 1) return memory::desc(sizes, memory::data_type::f32, Tag::hwio);
  const int64_t filters = static_cast<int64_t>(output_[2]);
  const int64_t column = sizes[2] * filters;  // [height, width, channels / groups, filters]
  return memory::desc(sizes, memory::data_type::f32,
                      {sizes[1], 1, filters, windows_.size[1] * column, column});
}

CpuPrimitive Conv2DLayer::MakeReorder(const memory::desc& from, const memory::desc& to) {
  const dnnl::reorder::primitive_desc description(context_->engine(), from, context_->engine(), to,
                                                  CpuContext::Attributes());
  return CpuPrimitive::Make<dnnl::reorder>(context_, description,
                                           {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

dnnl::convolution_forward::primitive_desc Conv2DLayer::ForwardDescription(
    int64_t batch, const memory::desc& kernel) const {
  return dnnl::convolution_forward::primitive_desc(
      {dnnl::prop_kind::forward_training, algorithm::convolution_direct, ImageLayout(batch, input_),
       kernel, has_bias() ? BiasLayout() : memory::desc(), ImageLayout(batch, output_),
       windows_.strides, windows_.dilation, windows_.pad_before, windows_.pad_after},
      CpuContext::Attributes(), context_->engine());
}

// With one channel and a small window there is little to compute for each value of the output.
bool Conv2DLayer::IsMostlyWriting() const {
  const bool is_dense = windows_.dilation[0] == 0 && windows_.dilation[1] == 0;
  return input_[2] == 1 && is_dense && windows_.size[0] * windows_.size[1] <= kSmallWindow;
}

dnnl::convolution_forward::primitive_desc Conv2DLayer::ForwardDescription(int64_t batch) const {
  const dnnl::convolution_forward::primitive_desc best = ForwardDescription(batch, AnyKernel());
  if (!IsMostlyWriting() || !absl::StartsWith(best.impl_info_str(), "brgconv:avx512")) return best;
  // Then another implementation, with the same bits, takes half of the time where the output is not
  // in the cache. Not all shapes have it: others get oneDNN's reference code for this layout.
  const dnnl::convolution_forward::primitive_desc other =
      ForwardDescription(batch, memory::desc(KernelSizes(), memory::data_type::f32, Tag::Ohwi16o));
  return absl::StartsWith(other.impl_info_str(), "jit:avx512") ? other : best;
}

Conv2DLayer::WithKernel Conv2DLayer::MakeForward(
    const dnnl::convolution_forward::primitive_desc& description) {
  const memory::desc x = description.src_desc();
  const memory::desc kernel = description.weights_desc();
  const memory::desc y = description.dst_desc();
  CpuPrimitive convolution =
      has_bias() ? CpuPrimitive::Make<dnnl::convolution_forward>(context_, description,
                                                                 {{DNNL_ARG_SRC, x},
                                                                  {DNNL_ARG_WEIGHTS, kernel},
                                                                  {DNNL_ARG_DST, y},
                                                                  {DNNL_ARG_BIAS, BiasLayout()}})
                 : CpuPrimitive::Make<dnnl::convolution_forward>(
                       context_, description,
                       {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, kernel}, {DNNL_ARG_DST, y}});
  return {std::move(convolution), MakeReorder(KerasKernel(), kernel), BufferFor(kernel)};
}

dnnl::convolution_backward_weights::primitive_desc Conv2DLayer::KernelGradientDescription(
    int64_t batch, const dnnl::convolution_forward::primitive_desc& forward, bool bias) const {
  dnnl::convolution_backward_weights::primitive_desc description(
      {algorithm::convolution_direct, ImageLayout(batch, input_), AnyKernel(),
       bias ? BiasLayout() : memory::desc(), ImageLayout(batch, output_), windows_.strides,
       windows_.dilation, windows_.pad_before, windows_.pad_after},
      CpuContext::Attributes(), context_->engine(), forward);
  const int64_t channels = static_cast<int64_t>(input_[2]) / groups_;
  while (OverrunsWorkspace(description.impl_info_str(), windows_.strides, channels)) {
    CHECK(description.next_impl());  // The last one is oneDNN's reference code, for all shapes.
  }
  return description;
}

Conv2DLayer::WithKernel Conv2DLayer::MakeKernelGradient(
    int64_t batch, const dnnl::convolution_forward::primitive_desc& forward, bool bias) {
  const memory::desc x = ImageLayout(batch, input_);
  const memory::desc y = ImageLayout(batch, output_);
  const dnnl::convolution_backward_weights::primitive_desc description =
      KernelGradientDescription(batch, forward, bias);
  const memory::desc kernel = description.diff_weights_desc();
  CpuPrimitive convolution =
      bias ? CpuPrimitive::Make<dnnl::convolution_backward_weights>(
                 context_, description,
                 {{DNNL_ARG_SRC, x},
                  {DNNL_ARG_DIFF_DST, y},
                  {DNNL_ARG_DIFF_WEIGHTS, kernel},
                  {DNNL_ARG_DIFF_BIAS, BiasLayout()}})
           : CpuPrimitive::Make<dnnl::convolution_backward_weights>(
                 context_, description,
                 {{DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_DST, y}, {DNNL_ARG_DIFF_WEIGHTS, kernel}});
  return {std::move(convolution), MakeReorder(kernel, KerasKernel()), BufferFor(kernel)};
}

Conv2DLayer::WithKernel Conv2DLayer::MakeInputGradient(
    int64_t batch, const dnnl::convolution_forward::primitive_desc& forward) {
  const memory::desc x = ImageLayout(batch, input_);
  const memory::desc y = ImageLayout(batch, output_);
  const dnnl::convolution_backward_data::primitive_desc description(
      {algorithm::convolution_direct, x, AnyKernel(), y, windows_.strides, windows_.dilation,
       windows_.pad_before, windows_.pad_after},
      CpuContext::Attributes(), context_->engine(), forward);
  const memory::desc kernel = description.weights_desc();
  return {CpuPrimitive::Make<dnnl::convolution_backward_data>(
              context_, description,
              {{DNNL_ARG_DIFF_DST, y}, {DNNL_ARG_WEIGHTS, kernel}, {DNNL_ARG_DIFF_SRC, x}}),
          MakeReorder(KerasKernel(), kernel), BufferFor(kernel)};
}

std::unique_ptr<Conv2DLayer::Primitives> Conv2DLayer::MakePrimitives(int64_t batch) {
  const dnnl::convolution_forward::primitive_desc forward = ForwardDescription(batch);
  const bool sums_bias =
      has_bias() &&
      AddsBiasUpSlowly(KernelGradientDescription(batch, forward, /*bias=*/true).impl_info_str());
  auto primitives = std::make_unique<Primitives>(Primitives{
      MakeForward(forward), MakeKernelGradient(batch, forward, /*bias=*/has_bias() && !sums_bias),
      sums_bias, nullptr});
  if (wants_input_gradient_) {
    primitives->input_gradient = std::make_unique<WithKernel>(MakeInputGradient(batch, forward));
  }
  return primitives;
}

Conv2DLayer::Primitives& Conv2DLayer::ForBatch(size_t batch) {
  return primitives_.Get(batch, [&] { return MakePrimitives(static_cast<int64_t>(batch)); });
}

void Conv2DLayer::Prepare(size_t batch) {
  ForBatch(batch);
  activation_.Prepare(batch);
}

void Conv2DLayer::Forward(const CpuPass& pass, const float* x, float* y) {
  WithKernel& forward = ForBatch(pass.batch).forward;
  float* const kernel = forward.kernel.data();
  forward.reorder.Run({{DNNL_ARG_FROM, parameters_[kKernel]}, {DNNL_ARG_TO, kernel}});
  if (has_bias()) {
    forward.convolution.Run({{DNNL_ARG_SRC, x},
                             {DNNL_ARG_WEIGHTS, kernel},
                             {DNNL_ARG_DST, y},
                             {DNNL_ARG_BIAS, parameters_[kBias]}});
  } else {
    forward.convolution.Run({{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, kernel}, {DNNL_ARG_DST, y}});
  }
  activation_.Forward(pass.batch, y, y);
}

void Conv2DLayer::FinishGradients(const CpuPass& pass, Primitives* primitives, const float* x,
                                  const float* dy) {
  WithKernel& gradient = primitives->kernel_gradient;
  float* const kernel = gradient.kernel.data();
  float* const bias = has_bias() ? pass.gradients->Buffer(bias_).data() : nullptr;
  if (has_bias() && !primitives->sums_bias) {
    gradient.convolution.Run({{DNNL_ARG_SRC, x},
                              {DNNL_ARG_DIFF_DST, dy},
                              {DNNL_ARG_DIFF_WEIGHTS, kernel},
                              {DNNL_ARG_DIFF_BIAS, bias}});
  } else {
    gradient.convolution.Run(
        {{DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_WEIGHTS, kernel}});
  }
  if (primitives->sums_bias) {
    SumColumns(dy, pass.batch * output_[0] * output_[1], output_[2], bias);
  }
  if (has_bias()) pass.gradients->Finished(bias_);
  gradient.reorder.Run(
      {{DNNL_ARG_FROM, kernel}, {DNNL_ARG_TO, pass.gradients->Buffer(kernel_).data()}});
  pass.gradients->Finished(kernel_);
}

void Conv2DLayer::Backward(const CpuPass& pass, const float* x, const float* y, float* dy,
                           float* dx) {
  Primitives& primitives = ForBatch(pass.batch);
  activation_.Backward(pass.batch, y, dy, dy);
  if (trained_) FinishGradients(pass, &primitives, x, dy);
  if (dx == nullptr) return;
  WithKernel& input = *primitives.input_gradient;
  input.reorder.Run({{DNNL_ARG_FROM, parameters_[kKernel]}, {DNNL_ARG_TO, input.kernel.data()}});
  input.convolution.Run(
      {{DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_WEIGHTS, input.kernel.data()}, {DNNL_ARG_DIFF_SRC, dx}});
}

}  // namespace millrace::worker
