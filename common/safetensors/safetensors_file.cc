#include "common/safetensors/safetensors_file.h"

#include <utility>

#include "rocksdb/file_system.h"

namespace millrace {
RandomAccessReader::RandomAccessReader(std::string path, uint64_t bytes,
                                       std::unique_ptr<rocksdb::FSRandomAccessFile> file)
    : path_(std::move(path)), bytes_(bytes), file_(std::move(file)) {}
RandomAccessReader::RandomAccessReader(RandomAccessReader&&) noexcept = default;
RandomAccessReader& RandomAccessReader::operator=(RandomAccessReader&&) noexcept = default;
RandomAccessReader::~RandomAccessReader() = default;
absl::StatusOr<RandomAccessReader> RandomAccessReader::Open(const FileSystemPtr&,
                                                            const std::string&) {
  return absl::UnimplementedError("not yet");
}
absl::Status RandomAccessReader::Read(uint64_t, absl::Span<char>) const {
  return absl::UnimplementedError("not yet");
}
SafetensorsReader::SafetensorsReader(RandomAccessReader file, SafetensorsHeader header)
    : file_(std::move(file)), header_(std::move(header)) {}
absl::StatusOr<SafetensorsReader> SafetensorsReader::Open(const FileSystemPtr&,
                                                          const std::string&) {
  return absl::UnimplementedError("not yet");
}
absl::optional<size_t> SafetensorsReader::Find(absl::string_view) const { return absl::nullopt; }
absl::Status SafetensorsReader::Read(size_t, uint64_t, absl::Span<float>) const {
  return absl::UnimplementedError("not yet");
}
bool IsReadableAsFloat(absl::string_view) { return false; }
SafetensorsWriter::SafetensorsWriter(std::string path, DurableFile file, SafetensorsHeader header)
    : path_(std::move(path)), file_(std::move(file)), header_(std::move(header)) {}
absl::StatusOr<SafetensorsWriter> SafetensorsWriter::Create(const FileSystemPtr&,
                                                            const std::string&, SafetensorsHeader) {
  return absl::UnimplementedError("not yet");
}
absl::Status SafetensorsWriter::Append(absl::string_view) {
  return absl::UnimplementedError("not yet");
}
absl::Status SafetensorsWriter::Append(absl::Span<const float>) {
  return absl::UnimplementedError("not yet");
}
absl::Status SafetensorsWriter::Finish() { return absl::UnimplementedError("not yet"); }
}  // namespace millrace
