// Pictures that are kept as bytes, each with its class.
#ifndef MILLRACE_WORKER_INPUT_BYTE_IMAGES_H_
#define MILLRACE_WORKER_INPUT_BYTE_IMAGES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "worker/input/dataset.h"

namespace millrace::worker {

// Of each byte, as a share of the brightest: value / 255.
std::array<float, 256> ValuesOfBytes();

class ByteImages final : public Dataset {
 public:
  // `example`: one feature of floats, one label of a class; `pixels`: the examples' bytes, one
  // example after the other. REQUIRES: `labels` has one for each.
  ByteImages(const ExampleSpec& example, uint64_t fingerprint, std::vector<uint8_t> pixels,
             std::vector<int32_t> labels);

  uint64_t size() const override { return labels_.size(); }
  const ExampleSpec& example() const override { return example_; }
  uint64_t fingerprint() const override { return fingerprint_; }
  absl::Status Read(absl::Span<const uint64_t> indices, Batch* batch) const override;

 private:
  const ExampleSpec example_;
  const uint64_t fingerprint_;
  const std::vector<uint8_t> pixels_;
  const std::vector<int32_t> labels_;
  const size_t image_bytes_;
  const std::array<float, 256> value_of_byte_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_BYTE_IMAGES_H_
