// Files of NumPy's arrays.
#ifndef MILLRACE_TESTING_EXAMPLE_DATA_NPZ_H_
#define MILLRACE_TESTING_EXAMPLE_DATA_NPZ_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace millrace::testing {

struct NpzArray {
  std::string name;
  std::string type;             // As NumPy says it: "|u1", "<f4", "<i8".
  std::vector<uint64_t> shape;  // At least one dimension.
  std::string bytes;            // Little-endian, row-major, as many as type and shape say.
};

// `values` as the bytes of an NpzArray.
template <typename T>
std::string BytesOf(absl::Span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// What numpy.save writes of an array, whose name is not in it.
std::string NpyFile(const NpzArray& array);

// What numpy.savez writes, of less than 4 GiB in all.
std::string NpzFile(const std::vector<NpzArray>& arrays);

}  // namespace millrace::testing

#endif  // MILLRACE_TESTING_EXAMPLE_DATA_NPZ_H_
