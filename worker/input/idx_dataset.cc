// A header is only a claim: memory grows with what is really read, never with what a header
// promises, and the dimensions are bounded before they are multiplied.
#include "worker/input/idx_dataset.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "common/status_macros.h"
#include "worker/input/example_range.h"
#include "worker/input/fingerprint.h"
#include "worker/input/input_file.h"

namespace millrace::worker {
namespace {

constexpr uint32_t kImagesMagic = 0x00000803;
constexpr uint32_t kLabelsMagic = 0x00000801;
constexpr uint64_t kMaxPixels = uint64_t{1} << 24;  // Of one image.
constexpr size_t kChunkBytes = size_t{1} << 20;

struct IdxHeader {
  uint64_t count = 0;
  uint64_t rows = 1;
  uint64_t columns = 1;

  uint64_t item_bytes() const { return rows * columns; }
};

// `labels` are of the examples from `first_example` on.
ExampleSpec DescribeExample(const IdxHeader& header, const std::vector<uint8_t>& labels,
                            uint64_t first_example, const std::string& labels_name) {
  const auto largest = std::max_element(labels.begin(), labels.end());
  const uint64_t example = first_example + static_cast<uint64_t>(largest - labels.begin());
  return FloatsAndClass({header.rows, header.columns, 1}, *largest + 1,
                        absl::StrCat(labels_name, ": example ", example));
}

class IdxDataset final : public Dataset {
 public:
  IdxDataset(IdxHeader header, std::vector<uint8_t> pixels, std::vector<uint8_t> labels,
             uint64_t first_example, const std::string& labels_name)
      : image_bytes_(header.item_bytes()),
        pixels_(std::move(pixels)),
        labels_(std::move(labels)),
        example_(DescribeExample(header, labels_, first_example, labels_name)),
        fingerprint_(FingerprintOf(
            FingerprintOf(FingerprintOf(0, example_.features[0].shape), labels_), pixels_)) {
    for (int i = 0; i < 256; ++i) value_of_byte_[i] = static_cast<float>(i) / 255.0f;
  }

  uint64_t size() const override { return labels_.size(); }
  const ExampleSpec& example() const override { return example_; }
  uint64_t fingerprint() const override { return fingerprint_; }

  absl::Status Read(absl::Span<const uint64_t> indices, Batch* batch) const override {
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

 private:
  const size_t image_bytes_;
  const std::vector<uint8_t> pixels_;
  const std::vector<uint8_t> labels_;
  const ExampleSpec example_;
  const uint64_t fingerprint_;
  std::array<float, 256> value_of_byte_;
};

absl::StatusOr<uint32_t> ReadBigEndian32(InputFile* file) {
  const uint64_t offset = file->offset();
  std::array<char, 4> bytes;
  MILLRACE_ASSIGN_OR_RETURN(const size_t got, file->Read(absl::MakeSpan(bytes)));
  if (got < bytes.size()) {
    return file->Error(absl::StrCat("truncated at offset ", offset + got, ", within its header"));
  }
  uint32_t value = 0;
  for (const char byte : bytes) value = value << 8 | static_cast<uint8_t>(byte);
  return value;
}

absl::Status CheckMagic(InputFile* file, uint32_t wanted, const char* what) {
  MILLRACE_ASSIGN_OR_RETURN(const uint32_t magic, ReadBigEndian32(file));
  if (magic == wanted) return absl::OkStatus();
  if (magic >> 16 != 0) {  // No IDX file at all: what it begins with is not for messages.
    return file->Error(
        absl::StrFormat("not a file of IDX %s: its first two bytes are not 0", what));
  }
  return file->Error(absl::StrFormat(
      "not a file of IDX %s: its first four bytes are 0x%08x, not 0x%08x", what, magic, wanted));
}

absl::StatusOr<IdxHeader> ReadImagesHeader(InputFile* file) {
  MILLRACE_RETURN_IF_ERROR(CheckMagic(file, kImagesMagic, "images"));
  IdxHeader header;
  MILLRACE_ASSIGN_OR_RETURN(header.count, ReadBigEndian32(file));
  MILLRACE_ASSIGN_OR_RETURN(header.rows, ReadBigEndian32(file));
  MILLRACE_ASSIGN_OR_RETURN(header.columns, ReadBigEndian32(file));
  if (header.count == 0) return file->Error("holds no images: the count at offset 4 is 0");
  if (header.rows == 0 || header.columns == 0 || header.item_bytes() > kMaxPixels) {
    return file->Error(absl::StrCat("images of ", header.rows, "x", header.columns,
                                    " at offset 8; 1 to ", kMaxPixels, " pixels are allowed"));
  }
  return header;
}

absl::StatusOr<IdxHeader> ReadLabelsHeader(InputFile* file) {
  MILLRACE_RETURN_IF_ERROR(CheckMagic(file, kLabelsMagic, "labels"));
  IdxHeader header;
  MILLRACE_ASSIGN_OR_RETURN(header.count, ReadBigEndian32(file));
  return header;
}

// Reads all that follows the header, and returns what belongs to items of `range`. `claim` is what
// the header says, in words.
absl::StatusOr<std::vector<uint8_t>> ReadItems(const IdxHeader& header, const ResolvedRange& range,
                                               const std::string& claim, InputFile* file) {
  const uint64_t header_bytes = file->offset();
  const uint64_t end = header_bytes + header.count * header.item_bytes();
  const uint64_t keep_begin = header_bytes + range.begin * header.item_bytes();
  const uint64_t keep_end = header_bytes + range.end * header.item_bytes();
  const std::string says = absl::StrCat("the header says ", claim, ", ", end, " bytes");

  std::vector<uint8_t> kept;
  std::vector<char> chunk(std::min<uint64_t>(kChunkBytes, end - header_bytes + 1));
  while (true) {
    const uint64_t offset = file->offset();
    // Asks for one byte more than there should be.
    const uint64_t wanted = std::min<uint64_t>(chunk.size(), end - offset + 1);
    MILLRACE_ASSIGN_OR_RETURN(const size_t got, file->Read(absl::MakeSpan(chunk).first(wanted)));
    if (offset + got > end) {
      return file->Error(absl::StrCat("goes on after offset ", end, ": ", says));
    }
    const uint64_t from = std::clamp(keep_begin, offset, offset + got) - offset;
    const uint64_t to = std::clamp(keep_end, offset, offset + got) - offset;
    kept.insert(kept.end(), chunk.begin() + from, chunk.begin() + to);
    if (got < wanted) break;
  }
  if (file->offset() < end) {
    return file->Error(absl::StrCat("truncated at offset ", file->offset(), ": ", says));
  }
  kept.shrink_to_fit();
  return kept;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenIdxDataset(const IdxFiles& files,
                                                        const ExampleRange& range,
                                                        const std::string& directory,
                                                        const std::string& field) {
  MILLRACE_ASSIGN_OR_RETURN(
      InputFile images_file,
      InputFile::Open(directory, files.images(), absl::StrCat(field, ".idx.images")));
  MILLRACE_ASSIGN_OR_RETURN(
      InputFile labels_file,
      InputFile::Open(directory, files.labels(), absl::StrCat(field, ".idx.labels")));
  MILLRACE_ASSIGN_OR_RETURN(const IdxHeader images, ReadImagesHeader(&images_file));
  MILLRACE_ASSIGN_OR_RETURN(const IdxHeader labels, ReadLabelsHeader(&labels_file));
  if (labels.count != images.count) {
    return labels_file.Error(absl::StrCat(labels.count, " labels at offset 4, but ",
                                          images_file.name(), " has ", images.count, " images"));
  }
  MILLRACE_ASSIGN_OR_RETURN(const ResolvedRange kept,
                            ResolveRange(range, images.count, images_file.name(), field));
  MILLRACE_ASSIGN_OR_RETURN(
      std::vector<uint8_t> label_bytes,
      ReadItems(labels, kept, absl::StrCat(labels.count, " labels"), &labels_file));
  const std::string claim =
      absl::StrCat(images.count, " images of ", images.rows, "x", images.columns);
  MILLRACE_ASSIGN_OR_RETURN(std::vector<uint8_t> pixels,
                            ReadItems(images, kept, claim, &images_file));
  return std::make_unique<IdxDataset>(images, std::move(pixels), std::move(label_bytes), kept.begin,
                                      labels_file.name());
}

}  // namespace millrace::worker
