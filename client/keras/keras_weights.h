// Values of variables from the HDF5 files that Keras writes.
#ifndef MILLRACE_CLIENT_KERAS_KERAS_WEIGHTS_H_
#define MILLRACE_CLIENT_KERAS_KERAS_WEIGHTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/keras/hdf5_file.h"
#include "client/keras/keras_variables.h"

namespace millrace::client {

// A variable of ours, and the dataset that has its values.
struct KerasWeight {
  std::string name;
  std::vector<uint64_t> shape;
  std::string path;
};

// Where a file has all variables of a model's layers: model.weights.h5 of Keras 3 (and of Keras 2
// within .keras files), which knows layers by their classes and order; or an .h5 file of a whole
// model, or of weights, as Keras 2 writes them and Keras 3 still does, which knows them by their
// names.
// INVALID_ARGUMENT: "FILE: layers/dense/vars/0: ..." where one is missing, or has another shape, or
// a layer has more: the weights are of another model.
absl::StatusOr<std::vector<KerasWeight>> FindKerasWeights(
    const Hdf5File& file, const std::vector<KerasLayerVariables>& layers);

// Writes them as CreateTensorWriter does, with the memory of the largest one. Errors as there, and
// as Hdf5File::Values.
absl::Status WriteKerasWeights(const Hdf5File& file, const std::vector<KerasWeight>& weights,
                               const std::string& path);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_KERAS_KERAS_WEIGHTS_H_
