// HDF5 files, as far as Keras's weights need them. Internal to client/keras.
#ifndef MILLRACE_CLIENT_KERAS_HDF5_FILE_H_
#define MILLRACE_CLIENT_KERAS_HDF5_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace millrace::client {

// Read-only. The library keeps its state for the whole process: one thread at a time may use any
// file of it. Errors are INVALID_ARGUMENT (UNAVAILABLE: no
// process can be started), and begin with the name of the file; those of an
// object then name its path.
class Hdf5File {
 public:
  // Reads a file in place. All of it is read once before, in a child process: REQUIRES that no
  // other thread uses the library.
  static absl::StatusOr<Hdf5File> Open(const std::string& path);
  // One in memory, which holds `bytes`, and nobody a copy of them; `name` is for messages.
  static absl::StatusOr<Hdf5File> FromBytes(std::string bytes, const std::string& name);

  Hdf5File(Hdf5File&&) noexcept;
  Hdf5File& operator=(Hdf5File&&) noexcept;
  ~Hdf5File();

  const std::string& name() const { return name_; }

  // Whether there is something of the path "a/b/c" in this file itself: links to other places, and
  // to other files in particular, count as nothing.
  bool Has(const std::string& path) const;

  // An attribute of the group or dataset at `path` ("" is the root): a string, or a list of them.
  // An attribute that is not there, and a list of nothing, is empty.
  absl::StatusOr<std::vector<std::string>> Texts(const std::string& path,
                                                 const std::string& attribute) const;

  // Of a dataset of floating-point numbers that stands in one piece in the file.
  absl::StatusOr<std::vector<uint64_t>> Shape(const std::string& path) const;
  // Its values as float32, row-major. Uses memory for no more than the file has.
  absl::StatusOr<std::vector<float>> Values(const std::string& path) const;

 private:
  struct Library;  // Keeps the library's types out of this header.

  Hdf5File(std::string name, std::unique_ptr<Library> library);

  static absl::StatusOr<Hdf5File> OpenUntried(const std::string& path);
  static absl::StatusOr<Hdf5File> FromBytesUntried(std::shared_ptr<std::string> bytes,
                                                   const std::string& name);

  void ReadAll() const;
  absl::Status Error(const std::string& path, const std::string& what) const;

  std::string name_;
  std::unique_ptr<Library> library_;
};

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_KERAS_HDF5_FILE_H_
