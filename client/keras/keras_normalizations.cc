#include <cstdint>
#include <string>

#include "client/keras/keras_kinds.h"
#include "client/keras/keras_values.h"
#include "common/status_macros.h"

namespace millrace::client {
namespace {

// epsilon, beta and gamma.
template <typename Normalization>
absl::Status TakeNormalization(KerasConfig* config, Normalization* norm) {
  MILLRACE_ASSIGN_OR_RETURN(const double epsilon, config->TakeNumber("epsilon", 0.001));
  norm->set_epsilon(epsilon);
  MILLRACE_ASSIGN_OR_RETURN(const bool center, config->TakeBool("center", true));
  norm->set_no_center(!center);
  MILLRACE_ASSIGN_OR_RETURN(const bool scale, config->TakeBool("scale", true));
  norm->set_no_scale(!scale);
  MILLRACE_ASSIGN_OR_RETURN(const auto beta, TakeVariableFields(config, "beta", ZEROS));
  norm->set_beta_initializer(beta.initializer);
  if (beta.has_regularizer) *norm->mutable_beta_regularizer() = beta.regularizer;
  MILLRACE_ASSIGN_OR_RETURN(const auto gamma, TakeVariableFields(config, "gamma", ONES));
  norm->set_gamma_initializer(gamma.initializer);
  if (gamma.has_regularizer) *norm->mutable_gamma_regularizer() = gamma.regularizer;
  return absl::OkStatus();
}

}  // namespace

absl::Status ConvertBatchNormalization(KerasConfig* config, LayerSpecs* layers) {
  BatchNormalization* norm = layers->emplace_back().mutable_batch_normalization();
  MILLRACE_ASSIGN_OR_RETURN(const double momentum, config->TakeNumber("momentum", 0.99));
  norm->set_momentum(momentum);
  MILLRACE_RETURN_IF_ERROR(TakeNormalization(config, norm));
  // Where they begin is long forgotten when somebody asks for them.
  config->Take("moving_mean_initializer");
  config->Take("moving_variance_initializer");
  MILLRACE_RETURN_IF_ERROR(config->Expect("renorm", {false}));
  config->Take("renorm_momentum");
  // Keras 2 writes the last dimension's number.
  return config->ExpectLastAxis("axis");
}

absl::Status ConvertLayerNormalization(KerasConfig* config, LayerSpecs* layers) {
  LayerNormalization* norm = layers->emplace_back().mutable_layer_normalization();
  MILLRACE_RETURN_IF_ERROR(TakeNormalization(config, norm));
  MILLRACE_RETURN_IF_ERROR(config->Expect("rms_scaling", {false}));
  return config->ExpectLastAxis("axis");
}

absl::Status ConvertEmbedding(KerasConfig* config, LayerSpecs* layers) {
  Embedding* embedding = layers->emplace_back().mutable_embedding();
  MILLRACE_ASSIGN_OR_RETURN(const uint32_t input_dim, config->TakeCount("input_dim"));
  embedding->set_input_dim(input_dim);
  MILLRACE_ASSIGN_OR_RETURN(const uint32_t output_dim, config->TakeCount("output_dim"));
  embedding->set_output_dim(output_dim);
  MILLRACE_ASSIGN_OR_RETURN(const auto rows, TakeVariableFields(config, "embeddings", UNIFORM));
  embedding->set_embeddings_initializer(rows.initializer);
  if (rows.has_regularizer) *embedding->mutable_embeddings_regularizer() = rows.regularizer;
  // Of the data; nothing is computed with it.
  config->Take("input_length");
  return config->Expect("mask_zero", {false});
}

}  // namespace millrace::client
