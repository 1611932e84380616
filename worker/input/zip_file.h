// Files in zip archives, as numpy.savez writes them.
#ifndef MILLRACE_WORKER_INPUT_ZIP_FILE_H_
#define MILLRACE_WORKER_INPUT_ZIP_FILE_H_

#include <zlib.h>

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/input/byte_stream.h"
#include "worker/input/in_place_file.h"

namespace millrace::worker {

// As the archive's directory has it, which is a claim until it is read.
struct ZipEntry {
  std::string name;
  uint16_t flags = 0;
  uint16_t method = 0;
  uint32_t crc = 0;
  uint64_t compressed_bytes = 0;
  uint64_t bytes = 0;
  uint64_t offset = 0;  // Of its own header.
};

// One file of an archive, stored or deflated. Its length and its CRC-32 are checked when somebody
// reads beyond its end.
class ZipStream final : public ByteStream {
 public:
  // The contents begin at `begin` of `file`, which must outlive this object and has all of them.
  ZipStream(const InPlaceFile* file, const ZipEntry& entry, uint64_t begin, std::stop_token stop);

  uint64_t offset() const override { return offset_; }
  absl::StatusOr<size_t> Read(absl::Span<char> buffer) override;
  absl::Status Error(const std::string& message) const override;

 private:
  struct EndInflate {
    void operator()(z_stream* stream) const;
  };

  absl::StatusOr<size_t> ReadStored(absl::Span<char> buffer);
  absl::StatusOr<size_t> ReadDeflated(absl::Span<char> buffer);
  absl::Status RefillInput();
  absl::Status CheckEnd();

  const InPlaceFile& file_;
  const ZipEntry entry_;
  const std::stop_token stop_;
  uint64_t next_;  // Of the file.
  const uint64_t end_;
  uint64_t offset_ = 0;
  uint32_t crc_ = 0;
  std::unique_ptr<z_stream, EndInflate> inflate_;  // Null: stored.
  bool inflate_ended_ = false;
  std::string input_;
};

// Thread-safe but for moves.
class ZipFile {
 public:
  // Reads the directory. INVALID_ARGUMENT: it is damaged. Others as InPlaceFile.
  static absl::StatusOr<ZipFile> Open(InPlaceFile opened);

  const std::vector<ZipEntry>& entries() const { return entries_; }

  // The archive must outlive the stream. REQUIRES: `entry` is one of entries(). INVALID_ARGUMENT:
  // its header is damaged, or it is encrypted or compressed in another way than by deflating. Once
  // `stop` is requested the stream is CANCELLED.
  absl::StatusOr<std::unique_ptr<ZipStream>> Read(const ZipEntry& entry,
                                                  std::stop_token stop = {}) const;

  // INVALID_ARGUMENT: "FIELD: PATH: MESSAGE".
  absl::Status Error(const std::string& message) const { return file_->Error(message); }

 private:
  explicit ZipFile(InPlaceFile file) : file_(std::make_unique<InPlaceFile>(std::move(file))) {}

  absl::Status ReadDirectory();

  std::unique_ptr<const InPlaceFile> file_;
  std::vector<ZipEntry> entries_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_ZIP_FILE_H_
