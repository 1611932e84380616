// Bytes that are read from front to end.
#ifndef MILLRACE_WORKER_INPUT_BYTE_STREAM_H_
#define MILLRACE_WORKER_INPUT_BYTE_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace millrace::worker {

// A file, or a part of one, compressed or not. Not thread-safe.
class ByteStream {
 public:
  virtual ~ByteStream() = default;

  // The next offset, in bytes; of compressed data, of what is in them.
  virtual uint64_t offset() const = 0;

  // Fills `buffer` but for what lies beyond the end; returns how many bytes it got. Blocks.
  // INVALID_ARGUMENT: the compressed data are corrupt or truncated. UNAVAILABLE: the system cannot
  // read. CANCELLED: nobody wants the data any more, which is seen between two calls.
  virtual absl::StatusOr<size_t> Read(absl::Span<char> buffer) = 0;

  // INVALID_ARGUMENT: "FIELD: PATH: MESSAGE".
  virtual absl::Status Error(const std::string& message) const = 0;
};

// Reads up to `size` bytes into `bytes`, fewer only where the data end. Memory grows with what is
// there. Errors as ByteStream::Read.
absl::Status ReadUpTo(ByteStream* stream, uint64_t size, std::string* bytes);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_BYTE_STREAM_H_
