#include <cstring>
#include <utility>

#include "common/wire/tensor_codec.h"
#include "glog/logging.h"

namespace millrace {

FloatSlices::FloatSlices(std::vector<grpc::Slice> slices) : slices_(std::move(slices)) {
  size_t bytes = 0;
  for (const grpc::Slice& slice : slices_) bytes += slice.size();
  CHECK_EQ(bytes % sizeof(float), 0u) << "the slices do not hold a whole number of floats";
  size_ = bytes / sizeof(float);
}

void FloatSlices::ForEachRun(
    const std::function<void(size_t offset, const char* bytes, size_t count)>& visit) const {
  size_t offset = 0;
  char straddling[sizeof(float)];  // The first bytes of a float that the slice before has begun.
  size_t begun = 0;
  for (const grpc::Slice& slice : slices_) {
    const char* bytes = reinterpret_cast<const char*>(slice.begin());
    size_t left = slice.size();
    while (begun > 0 && left > 0) {
      straddling[begun++] = *bytes++;
      --left;
      if (begun < sizeof(float)) continue;
      visit(offset++, straddling, 1);
      begun = 0;
    }
    const size_t count = left / sizeof(float);
    if (count > 0) visit(offset, bytes, count);
    offset += count;
    for (size_t i = count * sizeof(float); i < left; ++i) straddling[begun++] = bytes[i];
  }
}

void FloatSlices::CopyTo(absl::Span<float> destination) const {
  CHECK_EQ(destination.size(), size_);
  char* to = reinterpret_cast<char*>(destination.data());
  for (const grpc::Slice& slice : slices_) {
    if (slice.size() == 0) continue;
    std::memcpy(to, slice.begin(), slice.size());
    to += slice.size();
  }
}

}  // namespace millrace
