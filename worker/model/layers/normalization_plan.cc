#include <cmath>

#include "common/status_macros.h"
#include "worker/model/invalid.h"
#include "worker/model/layers/plan_kinds.h"

namespace millrace::worker {

namespace {

constexpr double kBatchNormalizationMomentum = 0.99;
constexpr double kEpsilon = 1e-3;

// The variable that follows a statistic of the batches; a frozen layer's stays.
absl::Status AddMovingAverage(absl::string_view kind, Initializer initializer, LayerPlan* layer,
                              std::vector<VariableSpec>* variables) {
  const uint64_t channels = layer->input().back();
  MILLRACE_RETURN_IF_ERROR(
      AddVariable(kind, {channels}, initializer, FansOfVector(channels), layer, variables));
  if (!layer->trainable) return absl::OkStatus();
  variables->back().mutable_update()->mutable_moving_average()->set_momentum(
      layer->spec.batch_normalization().momentum());
  return absl::OkStatus();
}

template <typename Normalization>
void FillDefaults(Normalization* normalization) {
  if (!normalization->has_epsilon()) normalization->set_epsilon(kEpsilon);
  if (normalization->gamma_initializer() == INITIALIZER_UNSPECIFIED) {
    normalization->set_gamma_initializer(ONES);
  }
  if (normalization->beta_initializer() == INITIALIZER_UNSPECIFIED) {
    normalization->set_beta_initializer(ZEROS);
  }
}

absl::Status CheckEpsilon(double epsilon) {
  if (std::isfinite(epsilon) && static_cast<float>(epsilon) > 0) return absl::OkStatus();
  return Invalid("epsilon is ", epsilon, "; it must be a finite number above 0");
}

// A vector with an element for each channel, or none.
absl::Status AddChannels(bool absent, absl::string_view kind, Initializer initializer,
                         LayerPlan* layer, std::vector<VariableSpec>* variables) {
  if (absent) {
    AddNoVariable(layer);
    return absl::OkStatus();
  }
  const uint64_t channels = layer->input().back();
  return AddVariable(kind, {channels}, initializer, FansOfVector(channels), layer, variables);
}

// The output's shape too, and the check of epsilon.
template <typename Normalization>
absl::Status AddGammaAndBeta(const Normalization& normalization, LayerPlan* layer,
                             std::vector<VariableSpec>* variables) {
  MILLRACE_RETURN_IF_ERROR(CheckEpsilon(normalization.epsilon()));
  layer->output = layer->input();
  layer->regularizers = {normalization.gamma_regularizer(), normalization.beta_regularizer()};
  MILLRACE_RETURN_IF_ERROR(AddChannels(normalization.no_scale(), "gamma",
                                       normalization.gamma_initializer(), layer, variables));
  return AddChannels(normalization.no_center(), "beta", normalization.beta_initializer(), layer,
                     variables);
}

}  // namespace

absl::Status PlanBatchNormalization(LayerPlan* layer, std::vector<VariableSpec>* variables) {
  BatchNormalization* normalization = layer->spec.mutable_batch_normalization();
  FillDefaults(normalization);
  if (!normalization->has_momentum()) normalization->set_momentum(kBatchNormalizationMomentum);
  const double momentum = normalization->momentum();
  if (!(momentum >= 0 && momentum < 1)) {
    return Invalid("momentum is ", momentum, "; it must be at least 0 and below 1");
  }
  MILLRACE_RETURN_IF_ERROR(AddGammaAndBeta(*normalization, layer, variables));
  MILLRACE_RETURN_IF_ERROR(AddMovingAverage("moving_mean", ZEROS, layer, variables));
  return AddMovingAverage("moving_variance", ONES, layer, variables);
}

absl::Status PlanLayerNormalization(LayerPlan* layer, std::vector<VariableSpec>* variables) {
  LayerNormalization* normalization = layer->spec.mutable_layer_normalization();
  FillDefaults(normalization);
  return AddGammaAndBeta(*normalization, layer, variables);
}

}  // namespace millrace::worker
