// How layers of a Functional model are called. Internal to client/keras.
#ifndef MILLRACE_CLIENT_KERAS_KERAS_CALL_H_
#define MILLRACE_CLIENT_KERAS_KERAS_CALL_H_

#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "client/keras/keras_json.h"

namespace millrace::client {

// A tensor that a layer gave: which layer, at which of its calls, and which of its outputs.
struct KerasTensor {
  std::string layer;
  size_t call = 0;
  size_t output = 0;
};

struct KerasCall {
  std::vector<KerasTensor> tensors;
  // Layers compute as in training, or as elsewhere, whatever is done. Unset: as it comes.
  absl::optional<bool> training;
};

// One of a layer's inbound_nodes: Keras 2 writes lists of histories, Keras 3 objects with
// arguments. INVALID_ARGUMENT, beginning with what is wrong: it takes something else than tensors.
absl::StatusOr<KerasCall> ParseKerasCall(const KerasJson& json);

// The tensors of a model's input_layers or output_layers. INVALID_ARGUMENT as above.
absl::StatusOr<std::vector<KerasTensor>> ParseKerasTensors(const KerasJson& json);

// Counts calls from 0. Models within a model are called once before anybody does, which counts in
// some places: in Keras 2 where they have an InputLayer; in Keras 3 in the list of a model's
// outputs only, for Functional ones.
class KerasCallNumbers {
 public:
  // `layers`: of a Functional model.
  explicit KerasCallNumbers(const KerasJson& layers);

  // What a layer is called with, and what a model gives. No call has the number of a tensor that
  // cannot be.
  KerasTensor InCall(KerasTensor tensor) const { return Less(in_calls_, std::move(tensor)); }
  KerasTensor InOutputs(KerasTensor tensor) const { return Less(in_outputs_, std::move(tensor)); }

 private:
  static KerasTensor Less(const std::set<std::string>& names, KerasTensor tensor);

  std::set<std::string> in_calls_;
  std::set<std::string> in_outputs_;
};

bool IsKerasModelClass(const std::string& class_name);
bool IsKerasInputLayer(const KerasJson& layer);
std::string KerasLayerName(const KerasJson& layer);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_KERAS_KERAS_CALL_H_
