// The format: PKWARE's APPNOTE.TXT, 6.3. A file's CRC is known when all of it has been written; so
// it stands behind the file, in a data descriptor, and in the directory at the end, from which
// readers take it. Sizes are known before and stand in the local header too.
#include "client/tensor_files/zip_writer.h"

#include <zlib.h>

#include <utility>

#include "common/status_macros.h"
#include "glog/logging.h"

namespace millrace::client {
namespace {

constexpr uint32_t kLocalSignature = 0x04034b50;
constexpr uint32_t kDescriptorSignature = 0x08074b50;
constexpr uint32_t kEntrySignature = 0x02014b50;
constexpr uint32_t kEndSignature = 0x06054b50;
constexpr uint32_t kZip64EndSignature = 0x06064b50;
constexpr uint32_t kZip64LocatorSignature = 0x07064b50;
constexpr uint16_t kVersion = 20;  // Folders and data descriptors.
constexpr uint16_t kZip64Version = 45;
constexpr uint16_t kFlags = 1 << 3 | 1 << 11;  // A data descriptor follows; names are UTF-8.
constexpr uint16_t kStored = 0;
constexpr uint16_t kMidnight = 0;
constexpr uint16_t kFirstDay = 1 << 5 | 1;  // 1980-01-01: the bytes are the same whenever written.
constexpr uint16_t kZip64Extra = 1;
constexpr uint32_t kSeeExtra32 = 0xFFFFFFFF;
constexpr uint16_t kSeeExtra16 = 0xFFFF;

// Numbers, little-endian.
class Fields {
 public:
  Fields& U16(uint16_t value) { return Number(value, 2); }
  Fields& U32(uint32_t value) { return Number(value, 4); }
  Fields& U64(uint64_t value) { return Number(value, 8); }
  Fields& Bytes(const std::string& bytes) {
    text_ += bytes;
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  Fields& Number(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) text_ += static_cast<char>(value >> (8 * i) & 0xFF);
    return *this;
  }

  std::string text_;
};

uint32_t Low32(uint64_t value, bool in_extra) {
  return in_extra ? kSeeExtra32 : static_cast<uint32_t>(value);
}

}  // namespace

absl::StatusOr<ZipWriter> ZipWriter::Create(const FileSystemPtr& file_system,
                                            const std::string& path, uint64_t zip64_from) {
  MILLRACE_ASSIGN_OR_RETURN(DurableFile file, DurableFile::Create(file_system, path));
  return ZipWriter(std::move(file), zip64_from);
}

absl::Status ZipWriter::Write(absl::string_view bytes) {
  MILLRACE_RETURN_IF_ERROR(file_.Append(bytes));
  written_ += bytes.size();
  return absl::OkStatus();
}

absl::Status ZipWriter::Begin(const std::string& name, uint64_t bytes) {
  CHECK_EQ(missing_, 0u);
  CHECK_LT(name.size(), size_t{kSeeExtra16});
  Entry entry;
  entry.name = name;
  entry.bytes = bytes;
  entry.offset = written_;
  entry.crc = static_cast<uint32_t>(crc32_z(0, nullptr, 0));
  entries_.push_back(entry);
  missing_ = bytes;
  const bool large = Large(bytes);
  Fields header;
  header.U32(kLocalSignature).U16(large ? kZip64Version : kVersion).U16(kFlags).U16(kStored);
  header.U16(kMidnight).U16(kFirstDay).U32(/*crc=*/0);
  header.U32(Low32(bytes, large)).U32(Low32(bytes, large));
  header.U16(static_cast<uint16_t>(name.size())).U16(large ? 20 : 0).Bytes(name);
  if (large) header.U16(kZip64Extra).U16(16).U64(bytes).U64(bytes);
  return Write(header.text());
}

absl::Status ZipWriter::Append(absl::string_view bytes) {
  CHECK_LE(bytes.size(), missing_);
  Entry& entry = entries_.back();
  entry.crc = static_cast<uint32_t>(
      crc32_z(entry.crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
  missing_ -= bytes.size();
  return Write(bytes);
}

absl::Status ZipWriter::End() {
  CHECK_EQ(missing_, 0u);
  const Entry& entry = entries_.back();
  Fields descriptor;
  descriptor.U32(kDescriptorSignature).U32(entry.crc);
  if (Large(entry.bytes)) {
    descriptor.U64(entry.bytes).U64(entry.bytes);
  } else {
    descriptor.U32(static_cast<uint32_t>(entry.bytes)).U32(static_cast<uint32_t>(entry.bytes));
  }
  return Write(descriptor.text());
}

std::string ZipWriter::DirectoryEntry(const Entry& entry) const {
  const bool large = Large(entry.bytes);
  const bool far = Large(entry.offset);
  Fields extra;
  if (large) extra.U64(entry.bytes).U64(entry.bytes);
  if (far) extra.U64(entry.offset);
  Fields fields;
  fields.U32(kEntrySignature).U16(kZip64Version).U16(large || far ? kZip64Version : kVersion);
  fields.U16(kFlags).U16(kStored).U16(kMidnight).U16(kFirstDay).U32(entry.crc);
  fields.U32(Low32(entry.bytes, large)).U32(Low32(entry.bytes, large));
  fields.U16(static_cast<uint16_t>(entry.name.size()));
  fields.U16(static_cast<uint16_t>(extra.text().empty() ? 0 : extra.text().size() + 4));
  fields.U16(/*comment=*/0).U16(/*disk=*/0).U16(/*internal_attributes=*/0);
  fields.U32(/*external_attributes=*/0).U32(Low32(entry.offset, far)).Bytes(entry.name);
  if (!extra.text().empty()) {
    fields.U16(kZip64Extra).U16(static_cast<uint16_t>(extra.text().size())).Bytes(extra.text());
  }
  return fields.text();
}

std::string ZipWriter::EndOfDirectory(uint64_t offset, uint64_t bytes) const {
  const uint64_t count = entries_.size();
  const bool many = count >= kSeeExtra16;
  Fields fields;
  if (many || Large(offset) || Large(bytes)) {
    fields.U32(kZip64EndSignature).U64(/*bytes_that_follow=*/44).U16(kZip64Version);
    fields.U16(kZip64Version).U32(/*disk=*/0).U32(/*disk=*/0).U64(count).U64(count);
    fields.U64(bytes).U64(offset);
    fields.U32(kZip64LocatorSignature).U32(/*disk=*/0).U64(offset + bytes).U32(/*disks=*/1);
  }
  const uint16_t count16 = many ? kSeeExtra16 : static_cast<uint16_t>(count);
  fields.U32(kEndSignature).U16(/*disk=*/0).U16(/*disk=*/0).U16(count16).U16(count16);
  fields.U32(Low32(bytes, Large(bytes))).U32(Low32(offset, Large(offset))).U16(/*comment=*/0);
  return fields.text();
}

absl::Status ZipWriter::Commit() {
  const uint64_t offset = written_;
  for (const Entry& entry : entries_) MILLRACE_RETURN_IF_ERROR(Write(DirectoryEntry(entry)));
  MILLRACE_RETURN_IF_ERROR(Write(EndOfDirectory(offset, written_ - offset)));
  return file_.Commit();
}

}  // namespace millrace::client
