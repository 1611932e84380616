// Numbers as they travel: narrower than float32 where a job says so (PrecisionSpec.wire).
#ifndef MILLRACE_COMMON_WIRE_ENCODING_H_
#define MILLRACE_COMMON_WIRE_ENCODING_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "protos/job.pb.h"

namespace millrace {

// Bytes of a number. REQUIRES: `encoding` is one of Encoding::Kind.
size_t WidthOf(Encoding::Kind encoding);

// Numbers to be sent, as they lie in memory. A view; cheap to copy.
class EncodedNumbers {
 public:
  EncodedNumbers() = default;
  // Not explicit: floats are FLOAT32 as they are.
  EncodedNumbers(absl::Span<const float> values)
      : EncodedNumbers(Encoding::FLOAT32, values.data(), values.size()) {}
  EncodedNumbers(const std::vector<float>& values) : EncodedNumbers(absl::MakeConstSpan(values)) {}
  // `size`: numbers.
  EncodedNumbers(Encoding::Kind encoding, const void* bytes, size_t size)
      : encoding_(encoding), bytes_(static_cast<const char*>(bytes)), size_(size) {}

  Encoding::Kind encoding() const { return encoding_; }
  const char* bytes() const { return bytes_; }
  size_t size() const { return size_; }  // In numbers.
  size_t byte_size() const { return size_ * WidthOf(encoding_); }

  // REQUIRES: begin + count <= size().
  EncodedNumbers subspan(size_t begin, size_t count) const {
    return EncodedNumbers(encoding_, bytes_ + begin * WidthOf(encoding_), count);
  }

 private:
  Encoding::Kind encoding_ = Encoding::FLOAT32;
  const char* bytes_ = nullptr;
  size_t size_ = 0;
};

// Rounds `values` to nearest, ties to even, and writes them to `to`: the same bits on every
// processor, denormal numbers and all. `to` may be where `values` begin, or before it. Stops at the
// first value that becomes infinite or NaN, and returns its index; it and those behind it are
// unchanged then. values.size(): there is
// none. REQUIRES: FLOAT16 or BFLOAT16.
size_t NarrowFinite(absl::Span<const float> values, Encoding::Kind encoding, void* to);

// The same, but infinities and NaN stay what they are: stops at the first number that would become
// infinite.
size_t Narrow(absl::Span<const float> values, Encoding::Kind encoding, void* to);

// Exact. `bytes` need not be aligned, and do not overlap with `to`.
void Widen(Encoding::Kind encoding, const char* bytes, absl::Span<float> to);

// For messages: "70000, which FLOAT16 cannot hold: its numbers go to 65504; set precision.wire to
// BFLOAT16".
std::string DoesNotFit(float value, Encoding::Kind encoding);

}  // namespace millrace

#endif  // MILLRACE_COMMON_WIRE_ENCODING_H_
