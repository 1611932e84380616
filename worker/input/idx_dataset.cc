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
#include "worker/input/byte_images.h"
#include "worker/input/example_selection.h"
#include "worker/input/fingerprint.h"
#include "worker/input/input_file.h"
#include "worker/input/input_files.h"

namespace millrace::worker {
namespace {

constexpr uint32_t kImagesMagic = 0x00000803;
constexpr uint32_t kLabelsMagic = 0x00000801;
constexpr uint64_t kMaxPixels = uint64_t{1} << 24;  // Of one image.
constexpr size_t kChunkBytes = size_t{1} << 20;
constexpr uint64_t kLabelBytes = sizeof(uint8_t) + sizeof(int32_t);  // As read, and as kept.

struct IdxHeader {
  uint64_t count = 0;
  uint64_t rows = 1;
  uint64_t columns = 1;

  uint64_t item_bytes() const { return rows * columns; }
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

// In bytes.
struct Room {
  uint64_t most;    // May be kept.
  uint64_t others;  // Of labels where images are read, and the other way round.
};

// Reads all that follows the header, and appends to `kept` what belongs to items of `selection`, in
// which the file's items are numbered from `first` on. `claim` is what the header says, in words.
absl::Status ReadItems(const IdxHeader& header, const ExampleSelection& selection, uint64_t first,
                       const std::string& claim, const Room& room, InputFile* file,
                       std::vector<uint8_t>* kept) {
  const uint64_t header_bytes = file->offset();
  const uint64_t item_bytes = header.item_bytes();
  const uint64_t end = header_bytes + header.count * item_bytes;
  const std::string says = absl::StrCat("the header says ", claim, ", ", end, " bytes");

  std::vector<char> chunk(std::min<uint64_t>(kChunkBytes, end - header_bytes + 1));
  while (true) {
    const uint64_t offset = file->offset();
    // Asks for one byte more than there should be.
    const uint64_t wanted = std::min<uint64_t>(chunk.size(), end - offset + 1);
    MILLRACE_ASSIGN_OR_RETURN(const size_t got, file->Read(absl::MakeSpan(chunk).first(wanted)));
    if (offset + got > end) {
      return file->Error(absl::StrCat("goes on after offset ", end, ": ", says));
    }
    for (uint64_t at = 0; at < got;) {
      const uint64_t position = offset + at - header_bytes;
      const uint64_t rest = std::min(item_bytes - position % item_bytes, got - at);
      if (selection.Contains(first + position / item_bytes)) {
        MILLRACE_RETURN_IF_ERROR(
            CheckKept(room.others + BytesWhileAdding(*kept, rest), room.most, *file));
        kept->insert(kept->end(), chunk.begin() + at, chunk.begin() + at + rest);
      }
      at += rest;
    }
    if (got < wanted) break;
  }
  if (file->offset() < end) {
    return file->Error(absl::StrCat("truncated at offset ", file->offset(), ": ", says));
  }
  return absl::OkStatus();
}

// The examples of several pairs of files.
class IdxCollector {
 public:
  IdxCollector(const DataDirectory& directory, const ExampleSelection& selection,
               uint64_t most_kept)
      : directory_(directory), selection_(selection), most_kept_(most_kept) {}

  absl::Status AddPair(const NamedFile& images_name, const NamedFile& labels_name) {
    MILLRACE_ASSIGN_OR_RETURN(InputFile images_file,
                              InputFile::Open(directory_, images_name.name, images_name.field));
    MILLRACE_ASSIGN_OR_RETURN(InputFile labels_file,
                              InputFile::Open(directory_, labels_name.name, labels_name.field));
    MILLRACE_ASSIGN_OR_RETURN(const IdxHeader images, ReadImagesHeader(&images_file));
    MILLRACE_ASSIGN_OR_RETURN(const IdxHeader labels, ReadLabelsHeader(&labels_file));
    if (labels.count != images.count) {
      return labels_file.Error(absl::StrCat(labels.count, " labels at offset 4, but ",
                                            images_file.name(), " has ", images.count, " images"));
    }
    MILLRACE_RETURN_IF_ERROR(CheckSameSize(images, images_file));
    shown_names_.push_back({images_file.name(), images_name.field});
    MILLRACE_RETURN_IF_ERROR(AddLabels(labels, &labels_file));
    const std::string claim =
        absl::StrCat(images.count, " images of ", images.rows, "x", images.columns);
    MILLRACE_RETURN_IF_ERROR(ReadItems(images, selection_, header_.count, claim,
                                       {most_kept_, labels_.size() * kLabelBytes}, &images_file,
                                       &pixels_));
    const uint64_t count = header_.count + images.count;
    header_ = images;
    header_.count = count;
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<Dataset>> Finish(const std::string& field) && {
    MILLRACE_RETURN_IF_ERROR(
        selection_.CheckCount(header_.count, labels_.size(), NameAll(shown_names_), field));
    const ExampleSpec example =
        FloatsAndClass({header_.rows, header_.columns, 1}, largest_ + 1, largest_label_);
    const uint64_t fingerprint =
        FingerprintOf(FingerprintOf(FingerprintOf(0, example.features[0].shape), labels_), pixels_);
    return std::make_unique<ByteImages>(example, fingerprint, std::move(pixels_),
                                        std::vector<int32_t>(labels_.begin(), labels_.end()));
  }

 private:
  absl::Status CheckSameSize(const IdxHeader& images, const InputFile& file) const {
    if (shown_names_.empty()) return absl::OkStatus();
    if (images.rows == header_.rows && images.columns == header_.columns) return absl::OkStatus();
    return file.Error(absl::StrCat("images of ", images.rows, "x", images.columns,
                                   " at offset 8, but those of ", shown_names_.front().name,
                                   " are ", header_.rows, "x", header_.columns));
  }

  absl::Status AddLabels(const IdxHeader& labels, InputFile* file) {
    const size_t before = labels_.size();
    MILLRACE_RETURN_IF_ERROR(ReadItems(labels, selection_, header_.count,
                                       absl::StrCat(labels.count, " labels"),
                                       {most_kept_, pixels_.size()}, file, &labels_));
    size_t kept = before;
    for (uint64_t number = 0; kept < labels_.size(); ++number) {
      if (!selection_.Contains(header_.count + number)) continue;
      const int label = labels_[kept++];
      if (label <= largest_) continue;
      largest_ = label;
      largest_label_ = absl::StrCat(file->name(), ": example ", number);
    }
    return absl::OkStatus();
  }

  const DataDirectory& directory_;
  const ExampleSelection& selection_;
  const uint64_t most_kept_;
  std::vector<NamedFile> shown_names_;  // Of images, with .gz where that was added.
  IdxHeader header_;                    // The count is of all files.
  std::vector<uint8_t> pixels_;
  std::vector<uint8_t> labels_;
  int largest_ = -1;
  std::string largest_label_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenIdxDataset(const IdxFiles& files,
                                                        const ExampleSelection& selection,
                                                        const DataDirectory& directory,
                                                        const std::string& field,
                                                        uint64_t most_kept) {
  MILLRACE_ASSIGN_OR_RETURN(
      const std::vector<NamedFile> images,
      FindFiles(directory.path, {files.images()}, absl::StrCat(field, ".idx.images")));
  MILLRACE_ASSIGN_OR_RETURN(
      const std::vector<NamedFile> labels,
      FindFiles(directory.path, {files.labels()}, absl::StrCat(field, ".idx.labels")));
  if (images.size() != labels.size()) {
    return absl::InvalidArgumentError(absl::StrCat(labels[0].field, ": ", NameAll(labels),
                                                   "; each file of labels belongs to one of ",
                                                   NameAll(images)));
  }
  IdxCollector collector(directory, selection, most_kept);
  for (size_t i = 0; i < images.size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(collector.AddPair(images[i], labels[i]));
  }
  return std::move(collector).Finish(field);
}

}  // namespace millrace::worker
