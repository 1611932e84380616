#include "worker/input/byte_images.h"

#include <algorithm>
#include <utility>

namespace millrace::worker {

std::array<float, 256> ValuesOfBytes() {
  std::array<float, 256> values;
  for (int i = 0; i < 256; ++i) values[i] = static_cast<float>(i) / 255.0f;
  return values;
}

ByteImages::ByteImages(const ExampleSpec& example, uint64_t fingerprint,
                       std::vector<uint8_t> pixels, std::vector<int32_t> labels)
    : example_(example),
      fingerprint_(fingerprint),
      pixels_(std::move(pixels)),
      labels_(std::move(labels)),
      image_bytes_(labels_.empty() ? 0 : pixels_.size() / labels_.size()),
      value_of_byte_(ValuesOfBytes()) {}

absl::Status ByteImages::Read(absl::Span<const uint64_t> indices, Batch* batch) const {
  batch->size = indices.size();
  batch->features.resize(1);
  batch->features[0].floats.resize(indices.size() * image_bytes_);
  batch->labels.resize(1);
  batch->labels[0].ids.resize(indices.size());
  float* out = batch->features[0].floats.data();
  for (size_t i = 0; i < indices.size(); ++i) {
    const uint8_t* image = pixels_.data() + indices[i] * image_bytes_;
    out = std::transform(image, image + image_bytes_, out,
                         [this](uint8_t byte) { return value_of_byte_[byte]; });
    batch->labels[0].ids[i] = labels_[indices[i]];
  }
  return absl::OkStatus();
}

}  // namespace millrace::worker
