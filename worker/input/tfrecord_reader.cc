#include "worker/input/tfrecord_reader.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/crc32c.h"
#include "common/status_macros.h"

namespace millrace::worker {
namespace {

constexpr uint64_t kLengthBytes = 8;

uint64_t LittleEndian(absl::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

}  // namespace

absl::StatusOr<bool> TfRecordReader::Next() {
  begin_ = stream_.offset();
  MILLRACE_RETURN_IF_ERROR(ReadUpTo(&stream_, kLengthBytes + kCrcBytes, &header_));
  if (header_.empty()) return false;
  if (header_.size() < kLengthBytes + kCrcBytes) return Truncated();
  const absl::string_view length_bytes = absl::string_view(header_).substr(0, kLengthBytes);
  if (!MatchesMaskedCrc32c(length_bytes, absl::string_view(header_).substr(kLengthBytes))) {
    return stream_.Error(absl::StrCat("damaged: the checksum of the length at offset ", begin_,
                                      " is wrong", begin_ == 0 ? "; is it a TFRecord file?" : ""));
  }
  const uint64_t length = LittleEndian(length_bytes);
  if (length > kMaxRecordBytes) {
    return stream_.Error(absl::StrCat("a record of ", length, " bytes at offset ", begin_,
                                      "; at most ", kMaxRecordBytes, " are allowed"));
  }
  offset_ = stream_.offset();
  MILLRACE_RETURN_IF_ERROR(ReadUpTo(&stream_, length, &record_));
  if (record_.size() < length) return Truncated();
  MILLRACE_RETURN_IF_ERROR(ReadUpTo(&stream_, kCrcBytes, &footer_));
  if (footer_.size() < kCrcBytes) return Truncated();
  if (MatchesMaskedCrc32c(record_, footer_)) return true;
  return stream_.Error(
      absl::StrCat("damaged: the checksum of the record at offset ", begin_, " is wrong"));
}

absl::Status TfRecordReader::Truncated() const {
  return stream_.Error(absl::StrCat("truncated at offset ", stream_.offset(),
                                    ": a record begins at offset ", begin_));
}

}  // namespace millrace::worker
