#include "worker/device/cpu/layers/batch_normalization.h"

#include <algorithm>
#include <cmath>

#include "worker/model/walk.h"

namespace millrace::worker {
namespace {

using dnnl::memory;
using Flags = dnnl::normalization_flags;

const Flags kScaleAndShift = Flags::use_scale | Flags::use_shift;

}  // namespace

BatchNormalizationLayer::BatchNormalizationLayer(CpuContext* context, const LayerPlan& plan,
                                                 const CpuParameters& parameters)
    : context_(context),
      rows_(static_cast<int64_t>(ElementCount(plan.input()) / plan.input().back())),
      channels_(static_cast<int64_t>(plan.input().back())),
      epsilon_(static_cast<float>(plan.spec.batch_normalization().epsilon())),
      trained_(IsTrained(plan)),
      variables_(plan.variables),
      parameters_(parameters),
      ones_(channels_, 1.0f),
      zeros_(channels_, 0.0f),
      unused_(2 * channels_) {}

std::unique_ptr<BatchNormalizationLayer::Primitives> BatchNormalizationLayer::MakePrimitives(
    int64_t batch) {
  const memory::desc values({batch, channels_, rows_, 1}, memory::data_type::f32,
                            memory::format_tag::nhwc);
  const memory::desc vector({channels_}, memory::data_type::f32, memory::format_tag::a);
  const auto describe = [&](dnnl::prop_kind kind, Flags flags) {
    return dnnl::batch_normalization_forward::primitive_desc(
        {kind, values, epsilon_, flags}, CpuContext::Attributes(), context_->engine());
  };
  const auto forward =
      describe(dnnl::prop_kind::forward_inference, kScaleAndShift | Flags::use_global_stats);
  // That of a batch's own statistics, which the gradient is of; nobody runs it.
  const auto of_batch = describe(dnnl::prop_kind::forward_training, kScaleAndShift);
  const dnnl::batch_normalization_backward::primitive_desc gradient(
      {dnnl::prop_kind::backward, values, values, epsilon_, kScaleAndShift},
      CpuContext::Attributes(), context_->engine(), of_batch);
  return std::make_unique<Primitives>(Primitives{
      CpuPrimitive::Make<dnnl::batch_normalization_forward>(context_, forward,
                                                            {{DNNL_ARG_SRC, values},
                                                             {DNNL_ARG_DST, values},
                                                             {DNNL_ARG_MEAN, vector},
                                                             {DNNL_ARG_VARIANCE, vector},
                                                             {DNNL_ARG_SCALE, vector},
                                                             {DNNL_ARG_SHIFT, vector}}),
      CpuPrimitive::Make<dnnl::batch_normalization_backward>(context_, gradient,
                                                             {{DNNL_ARG_SRC, values},
                                                              {DNNL_ARG_DIFF_DST, values},
                                                              {DNNL_ARG_MEAN, vector},
                                                              {DNNL_ARG_VARIANCE, vector},
                                                              {DNNL_ARG_SCALE, vector},
                                                              {DNNL_ARG_SHIFT, vector},
                                                              {DNNL_ARG_DIFF_SRC, values},
                                                              {DNNL_ARG_DIFF_SCALE, vector},
                                                              {DNNL_ARG_DIFF_SHIFT, vector}})});
}

BatchNormalizationLayer::Primitives& BatchNormalizationLayer::ForBatch(size_t batch) {
  return primitives_.Get(batch, [&] { return MakePrimitives(static_cast<int64_t>(batch)); });
}

void BatchNormalizationLayer::Prepare(size_t batch) {
  ForBatch(batch);
  if (trained_) statistics_.Reserve(batch * rows_, channels_);
}

void BatchNormalizationLayer::Forward(const CpuPass& pass, const float* x, float* y) {
  const float* const gamma = parameters_[kGamma] != nullptr ? parameters_[kGamma] : ones_.data();
  const float* const beta = parameters_[kBeta] != nullptr ? parameters_[kBeta] : zeros_.data();
  const bool of_batch = pass.training && trained_;
  if (of_batch) {
    statistics_.Compute(x, pass.batch * rows_, channels_, pass.kept, pass.kept + channels_);
  }
  ForBatch(pass.batch)
      .forward.Run(
          {{DNNL_ARG_SRC, x},
           {DNNL_ARG_DST, y},
           {DNNL_ARG_MEAN, of_batch ? pass.kept : parameters_[kMovingMean]},
           {DNNL_ARG_VARIANCE, of_batch ? pass.kept + channels_ : parameters_[kMovingVariance]},
           {DNNL_ARG_SCALE, gamma},
           {DNNL_ARG_SHIFT, beta}});
}

void BatchNormalizationLayer::FinishStatistics(const CpuPass& pass) {
  const float* statistic = pass.kept;
  for (const size_t which : {kMovingMean, kMovingVariance}) {
    std::copy(statistic, statistic + channels_, pass.gradients->Buffer(variables_[which]).data());
    pass.gradients->Finished(variables_[which]);
    statistic += channels_;
  }
}

void BatchNormalizationLayer::ScaleGradient(size_t rows, const float* dy, float* dx) const {
  std::vector<float> factors(channels_);
  for (size_t c = 0; c < factors.size(); ++c) {
    const float gamma = parameters_[kGamma] != nullptr ? parameters_[kGamma][c] : 1.0f;
    factors[c] = gamma / std::sqrt(parameters_[kMovingVariance][c] + epsilon_);
  }
  for (size_t row = 0; row < rows; ++row) {
    for (size_t c = 0; c < factors.size(); ++c) *dx++ = *dy++ * factors[c];
  }
}

void BatchNormalizationLayer::Backward(const CpuPass& pass, const float* x, const float* /*y*/,
                                       float* dy, float* dx) {
  if (!trained_) {
    if (dx != nullptr) ScaleGradient(pass.batch * rows_, dy, dx);
    return;
  }
  FinishStatistics(pass);
  const auto buffer = [&](size_t which) {
    return variables_[which] < 0 ? unused_.data() + which * channels_
                                 : pass.gradients->Buffer(variables_[which]).data();
  };
  ForBatch(pass.batch)
      .gradient.Run(
          {{DNNL_ARG_SRC, x},
           {DNNL_ARG_DIFF_DST, dy},
           {DNNL_ARG_MEAN, pass.kept},
           {DNNL_ARG_VARIANCE, pass.kept + channels_},
           {DNNL_ARG_SCALE, parameters_[kGamma] != nullptr ? parameters_[kGamma] : ones_.data()},
           {DNNL_ARG_SHIFT, zeros_.data()},  // It asks for one and takes no notice.
           {DNNL_ARG_DIFF_SRC, dx == nullptr ? dy : dx},
           {DNNL_ARG_DIFF_SCALE, buffer(kGamma)},
           {DNNL_ARG_DIFF_SHIFT, buffer(kBeta)}});
  for (const size_t which : {kBeta, kGamma}) {
    if (variables_[which] >= 0) pass.gradients->Finished(variables_[which]);
  }
}

}  // namespace millrace::worker
