#include "common/safetensors/safetensors_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "common/storage/rocks_database.h"
#include "rocksdb/file_system.h"

namespace millrace {
namespace {

// Read at once to be converted.
constexpr size_t kConvertedBytes = 64 << 10;

float FromHalf(uint16_t half) {
  const uint32_t sign = uint32_t{half} >> 15 << 31;
  const uint32_t exponent = half >> 10 & 0x1f;
  const uint32_t mantissa = half & 0x3ff;
  if (exponent == 0) {  // Zero and numbers too small for the exponent: mantissa * 2^-24.
    const float value = static_cast<float>(mantissa) * 0x1p-24f;
    return sign == 0 ? value : -value;
  }
  const uint32_t wide = exponent == 0x1f ? 0xff : exponent + 127 - 15;
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}

template <typename T>
T Load(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

// Of one element of the type.
float ToFloat(absl::string_view dtype, const char* bytes) {
  if (dtype == "F64") return static_cast<float>(Load<double>(bytes));
  if (dtype == "F16") return FromHalf(Load<uint16_t>(bytes));
  if (dtype == "BF16") return std::bit_cast<float>(uint32_t{Load<uint16_t>(bytes)} << 16);
  return Load<float>(bytes);
}

// Of F64 elements from `begin` on: `values` is what they are as floats.
absl::Status CheckFit(const std::string& path, const SafetensorsEntry& entry, uint64_t begin,
                      const char* bytes, absl::Span<const float> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isinf(values[i])) continue;
    const auto value = Load<double>(bytes + i * sizeof(double));
    if (std::isinf(value)) continue;
    return absl::InvalidArgumentError(absl::StrCat(path, ": element ", begin + i, " of tensor '",
                                                   PrintableName(entry.name), "' is ", value,
                                                   ", which does not fit a float32"));
  }
  return absl::OkStatus();
}

absl::Span<char> AsBytes(absl::Span<float> values) {
  return absl::MakeSpan(reinterpret_cast<char*>(values.data()), values.size() * sizeof(float));
}

}  // namespace

RandomAccessReader::RandomAccessReader(std::string path, uint64_t bytes,
                                       std::unique_ptr<rocksdb::FSRandomAccessFile> file)
    : path_(std::move(path)), bytes_(bytes), file_(std::move(file)) {}
RandomAccessReader::RandomAccessReader(RandomAccessReader&&) noexcept = default;
RandomAccessReader& RandomAccessReader::operator=(RandomAccessReader&&) noexcept = default;
RandomAccessReader::~RandomAccessReader() = default;

absl::StatusOr<RandomAccessReader> RandomAccessReader::Open(const FileSystemPtr& file_system,
                                                            const std::string& path) {
  if (struct stat found = {}; stat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot read ", path, ": it is no regular file"));
  }
  std::unique_ptr<rocksdb::FSRandomAccessFile> file;
  rocksdb::IOStatus status =
      file_system->NewRandomAccessFile(path, rocksdb::FileOptions(), &file, nullptr);
  uint64_t bytes = 0;
  if (status.ok()) status = file_system->GetFileSize(path, rocksdb::IOOptions(), &bytes, nullptr);
  if (status.IsPathNotFound() || status.IsNotFound()) {
    return absl::NotFoundError(absl::StrCat("cannot read ", path, ": it is not there"));
  }
  if (const std::string why = status.ok() ? "" : WhyNothingCanBeAt(path); !why.empty()) {
    return absl::NotFoundError(absl::StrCat("cannot read ", path, ": ", why));
  }
  MILLRACE_RETURN_IF_ERROR(FromRocks(status, absl::StrCat("cannot open ", path)));
  return RandomAccessReader(path, bytes, std::move(file));
}

absl::Status RandomAccessReader::Read(uint64_t offset, absl::Span<char> target) const {
  while (!target.empty()) {
    rocksdb::Slice read;
    MILLRACE_RETURN_IF_ERROR(FromRocks(
        file_->Read(offset, target.size(), rocksdb::IOOptions(), &read, target.data(), nullptr),
        absl::StrCat("cannot read ", path_)));
    if (read.empty()) {
      return absl::DataLossError(absl::StrCat(path_, ": it ends at byte ", offset, ", and ",
                                              target.size(), " more are expected"));
    }
    if (read.data() != target.data()) std::memmove(target.data(), read.data(), read.size());
    offset += read.size();
    target.remove_prefix(read.size());
  }
  return absl::OkStatus();
}

SafetensorsReader::SafetensorsReader(RandomAccessReader file, SafetensorsHeader header)
    : file_(std::move(file)), header_(std::move(header)) {}

absl::StatusOr<SafetensorsReader> SafetensorsReader::Open(const FileSystemPtr& file_system,
                                                          const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(RandomAccessReader file, RandomAccessReader::Open(file_system, path));
  std::string text(std::min<uint64_t>(kSafetensorsLengthBytes, file.bytes()), '\0');
  MILLRACE_RETURN_IF_ERROR(file.Read(0, absl::MakeSpan(text)));
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t length,
                            ParseSafetensorsLength(path, text, file.bytes()));
  text.resize(length);
  MILLRACE_RETURN_IF_ERROR(file.Read(kSafetensorsLengthBytes, absl::MakeSpan(text)));
  MILLRACE_ASSIGN_OR_RETURN(SafetensorsHeader header,
                            ParseSafetensorsHeader(path, text, file.bytes()));
  return SafetensorsReader(std::move(file), std::move(header));
}

absl::optional<size_t> SafetensorsReader::Find(absl::string_view name) const {
  for (size_t i = 0; i < header_.tensors.size(); ++i) {
    if (header_.tensors[i].name == name) return i;
  }
  return absl::nullopt;
}

absl::Status SafetensorsReader::Read(size_t tensor, uint64_t begin,
                                     absl::Span<float> values) const {
  const SafetensorsEntry& entry = header_.tensors[tensor];
  if (!IsReadableAsFloat(entry.dtype)) {
    return absl::InvalidArgumentError(absl::StrCat(path(), ": tensor '", PrintableName(entry.name),
                                                   "' is ", entry.dtype,
                                                   "; F32, F64, F16 and BF16 can be read"));
  }
  const size_t element = static_cast<size_t>(*SafetensorsBits(entry.dtype) / 8);
  const uint64_t elements = (entry.end - entry.begin) / element;
  if (begin > elements || values.size() > elements - begin) {
    return absl::OutOfRangeError(absl::StrCat(path(), ": tensor '", PrintableName(entry.name),
                                              "' has ", elements, " elements, not ", begin, " to ",
                                              begin + values.size()));
  }
  uint64_t offset = header_.bytes + entry.begin + begin * element;
  if (entry.dtype == "F32") return file_.Read(offset, AsBytes(values));
  std::vector<char> bytes(std::min(kConvertedBytes, values.size() * element));
  while (!values.empty()) {
    const size_t count = std::min(kConvertedBytes / element, values.size());
    MILLRACE_RETURN_IF_ERROR(file_.Read(offset, absl::MakeSpan(bytes.data(), count * element)));
    for (size_t i = 0; i < count; ++i) values[i] = ToFloat(entry.dtype, &bytes[i * element]);
    if (entry.dtype == "F64") {
      MILLRACE_RETURN_IF_ERROR(CheckFit(path(), entry, begin, bytes.data(), values.first(count)));
    }
    offset += count * element;
    begin += count;
    values.remove_prefix(count);
  }
  return absl::OkStatus();
}

bool IsReadableAsFloat(absl::string_view dtype) {
  return dtype == "F32" || dtype == "F64" || dtype == "F16" || dtype == "BF16";
}

SafetensorsWriter::SafetensorsWriter(std::string path, DurableFile file, SafetensorsHeader header)
    : path_(std::move(path)), file_(std::move(file)), header_(std::move(header)) {}

absl::StatusOr<SafetensorsWriter> SafetensorsWriter::Create(const FileSystemPtr& file_system,
                                                            const std::string& path,
                                                            SafetensorsHeader header) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, EncodeSafetensorsHeader(path, &header));
  MILLRACE_ASSIGN_OR_RETURN(DurableFile file, DurableFile::Create(file_system, path));
  MILLRACE_RETURN_IF_ERROR(file.Append(text));
  return SafetensorsWriter(path, std::move(file), std::move(header));
}

absl::Status SafetensorsWriter::Append(absl::string_view bytes) {
  MILLRACE_RETURN_IF_ERROR(file_.Append(bytes));
  written_ += bytes.size();
  return absl::OkStatus();
}

absl::Status SafetensorsWriter::Append(absl::Span<const float> values) {
  return Append(absl::string_view(reinterpret_cast<const char*>(values.data()),
                                  values.size() * sizeof(float)));
}

absl::Status SafetensorsWriter::Finish() {
  if (written_ != header_.value_bytes()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path_, ": ", written_, " bytes of values came where the header says ",
                     header_.value_bytes()));
  }
  return file_.Commit();
}

}  // namespace millrace
