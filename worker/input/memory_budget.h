// How much of a set may be kept in memory.
#ifndef MILLRACE_WORKER_INPUT_MEMORY_BUDGET_H_
#define MILLRACE_WORKER_INPUT_MEMORY_BUDGET_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/memory_limit.h"
#include "worker/input/byte_stream.h"

namespace millrace::worker {

// The default of those who open sets, in bytes: all but an eighth of the memory that there is. With
// more the system would end the process, with no word of why. A compressed file of a few megabytes
// may have many gigabytes in it.
inline uint64_t MostKeptBytes() { return MemoryLimit() / 8 * 7; }

// Of a vector that gets `more` elements: while it grows there are two of it.
template <typename T>
uint64_t BytesWhileAdding(const std::vector<T>& elements, size_t more) {
  const bool grows = elements.size() + more > elements.capacity();
  return (elements.size() * (grows ? 2 : 1) + more) * sizeof(T);
}

// RESOURCE_EXHAUSTED, with the file and how far it was read: so many bytes are more than `most`.
absl::Status CheckKept(uint64_t bytes, uint64_t most, const ByteStream& stream);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_MEMORY_BUDGET_H_
