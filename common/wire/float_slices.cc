#include <cstring>
#include <memory>
#include <utility>

#include "common/wire/tensor_codec.h"
#include "glog/logging.h"

namespace millrace {

FloatSlices::FloatSlices(std::vector<grpc::Slice> slices, Encoding::Kind encoding)
    : encoding_(encoding), slices_(std::move(slices)) {
  size_t bytes = 0;
  for (const grpc::Slice& slice : slices_) bytes += slice.size();
  CHECK_EQ(bytes % WidthOf(encoding_), 0u) << "the slices do not hold a whole number of floats";
  size_ = bytes / WidthOf(encoding_);
}

FloatSlices::FloatSlices(std::unique_ptr<float[]> floats, size_t size) : size_(size) {
  float* const owned = floats.release();
  slices_.emplace_back(
      owned, size * sizeof(float), [](void* what) { delete[] static_cast<float*>(what); }, owned);
}

void FloatSlices::ForEachRun(
    const std::function<void(size_t offset, const char* bytes, size_t count)>& visit) const {
  const size_t width = WidthOf(encoding_);
  size_t offset = 0;
  char straddling[sizeof(float)];  // The first bytes of a number that the slice before has begun.
  size_t begun = 0;
  for (const grpc::Slice& slice : slices_) {
    const char* bytes = reinterpret_cast<const char*>(slice.begin());
    size_t left = slice.size();
    while (begun > 0 && left > 0) {
      straddling[begun++] = *bytes++;
      --left;
      if (begun < width) continue;
      visit(offset++, straddling, 1);
      begun = 0;
    }
    const size_t count = left / width;
    if (count > 0) visit(offset, bytes, count);
    offset += count;
    for (size_t i = count * width; i < left; ++i) straddling[begun++] = bytes[i];
  }
}

void FloatSlices::CopyTo(absl::Span<float> destination) const {
  CHECK_EQ(destination.size(), size_);
  ForEachRun([&](size_t offset, const char* bytes, size_t count) {
    Widen(encoding_, bytes, destination.subspan(offset, count));
  });
}

FloatSlices FloatSlices::Widened() const {
  if (encoding_ == Encoding::FLOAT32) return *this;
  std::unique_ptr<float[]> floats(new float[size_]);
  CopyTo(absl::MakeSpan(floats.get(), size_));
  return FloatSlices(std::move(floats), size_);
}

}  // namespace millrace
