// The records of a TFRecord file.
#ifndef MILLRACE_WORKER_INPUT_TFRECORD_READER_H_
#define MILLRACE_WORKER_INPUT_TFRECORD_READER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/input/byte_stream.h"

namespace millrace::worker {

// A record is its length (64 bits), the masked CRC-32C of that, its bytes, and their masked
// CRC-32C; all little-endian. Not thread-safe.
class TfRecordReader {
 public:
  // Bytes between those of two records.
  static constexpr uint32_t kGapBytes = 16;
  static constexpr uint64_t kMaxRecordBytes = uint64_t{1} << 30;

  // `stream` is not owned and must outlive this object.
  explicit TfRecordReader(ByteStream* stream) : stream_(*stream) {}

  // Moves on; false at the end. Memory grows with what is read. Blocks. INVALID_ARGUMENT: a record
  // that is cut off, damaged, or longer than kMaxRecordBytes; others as ByteStream::Read.
  absl::StatusOr<bool> Next();

  // Valid until Next is called.
  const std::string& record() const { return record_; }

  // Where the record's bytes begin.
  uint64_t offset() const { return offset_; }

 private:
  absl::Status Truncated() const;

  ByteStream& stream_;
  std::string header_;
  std::string record_;
  std::string footer_;
  uint64_t begin_ = 0;  // Of the record, with its length.
  uint64_t offset_ = 0;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_TFRECORD_READER_H_
