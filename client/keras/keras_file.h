// The files that Keras writes, by what is in them.
#ifndef MILLRACE_CLIENT_KERAS_KERAS_FILE_H_
#define MILLRACE_CLIENT_KERAS_KERAS_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "client/keras/hdf5_file.h"

namespace millrace::client {

enum class KerasFormat {
  kJson,     // Of Model.to_json; or the file cannot be read.
  kArchive,  // A .keras file: a zip archive.
  kHdf5,     // A whole model, or weights.
};

// By the first bytes of a file, or by its name where these are none that one of them has.
KerasFormat KerasFormatOf(const std::string& path);

struct KerasFile {
  std::string json;       // The model.
  std::string json_name;  // For messages.
  std::string training;   // See KerasModelOptions.
  bool in_keras2_hdf5 = false;
  absl::optional<Hdf5File> weights;
};

// How large an archive's weights may be: they are read, and copied twice when HDF5 opens them.
uint64_t MostKerasWeightBytes();

// A .keras file. With `with_weights` its weights too, which then are in memory.
// INVALID_ARGUMENT: it is damaged, or lacks a part, or its weights have more than
// `most_weight_bytes`; the message names the file and the part. UNAVAILABLE: it cannot be read.
absl::StatusOr<KerasFile> ReadKerasArchive(const std::string& path, bool with_weights,
                                           uint64_t most_weight_bytes = MostKerasWeightBytes());

// A whole model in HDF5 (Model.save("model.h5")). INVALID_ARGUMENT: it is no whole HDF5 file, or
// has weights alone.
absl::StatusOr<KerasFile> ReadKerasHdf5(const std::string& path);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_KERAS_KERAS_FILE_H_
