// The headers of NumPy's array files (.npy).
#ifndef MILLRACE_WORKER_INPUT_NPY_HEADER_H_
#define MILLRACE_WORKER_INPUT_NPY_HEADER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/input/byte_stream.h"

namespace millrace::worker {

// What the elements of an array are.
struct NpyType {
  char kind = 'f';  // f: floating point, i: signed, u: unsigned, b: boolean.
  uint32_t bytes = 4;
  bool big_endian = false;

  bool operator==(const NpyType&) const = default;
};

// An array with at least one row, and at least one element in each.
struct NpyHeader {
  NpyType type;
  bool fortran_order = false;
  uint64_t rows = 0;
  std::vector<uint64_t> row_shape;  // The array's shape without its first dimension.
  uint64_t row_elements = 1;

  uint64_t row_bytes() const { return row_elements * type.bytes; }
  // Below 2^63.
  uint64_t bytes() const { return rows * row_bytes(); }
};

inline constexpr size_t kNpyMagicBytes = 8;

// Of version 1, 2 or 3. `magic` is the first kNpyMagicBytes of the file (or all that it has), and
// has been read from `stream` already. Leaves the stream at the first element. INVALID_ARGUMENT: no
// such header, or of an array that cannot be used.
absl::StatusOr<NpyHeader> ReadNpyHeader(absl::string_view magic, ByteStream* stream);

// "float32 [3, 4]".
std::string Describe(const NpyHeader& header);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_NPY_HEADER_H_
