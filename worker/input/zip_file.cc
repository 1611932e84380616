// The format: PKWARE's APPNOTE.TXT, 6.3. Everything that the archive says of itself is checked
// against the size of the file before it is used.
#include "worker/input/zip_file.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "worker/input/data_directory.h"

namespace millrace::worker {
namespace {

constexpr uint32_t kZipLocalSignature = 0x04034b50;
constexpr uint32_t kZipEntrySignature = 0x02014b50;
constexpr uint32_t kZipEndSignature = 0x06054b50;
constexpr uint32_t kZip64EndSignature = 0x06064b50;
constexpr uint32_t kZip64LocatorSignature = 0x07064b50;
constexpr uint64_t kZipLocalBytes = 30;
constexpr uint64_t kZipEntryBytes = 46;
constexpr uint64_t kZipEndBytes = 22;
constexpr uint64_t kZip64EndBytes = 56;
constexpr uint64_t kZip64LocatorBytes = 20;
constexpr uint64_t kMaxZipCommentBytes = 0xffff;
constexpr uint64_t kMaxZipDirectoryBytes = uint64_t{64} << 20;
constexpr size_t kZipInputBytes = size_t{256} << 10;
constexpr uint16_t kZipStored = 0;
constexpr uint16_t kZipDeflated = 8;
constexpr uint16_t kZipEncrypted = 1;

// A little-endian number of `size` bytes. REQUIRES: they are there.
uint64_t NumberAt(absl::string_view bytes, uint64_t at, int size) {
  uint64_t value = 0;
  for (int i = size - 1; i >= 0; --i) value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  return value;
}

absl::StatusOr<std::string> ReadAt(const InPlaceFile& file, uint64_t offset, uint64_t size) {
  std::string bytes(size, '\0');
  MILLRACE_RETURN_IF_ERROR(file.ReadAt(offset, absl::MakeSpan(bytes)));
  return bytes;
}

struct ZipDirectory {
  uint64_t entries = 0;
  uint64_t bytes = 0;
  uint64_t offset = 0;
};

// Where a large archive says it again, in wider numbers. `end`: where the narrow record stands.
absl::StatusOr<ZipDirectory> FindZip64Directory(const InPlaceFile& file, uint64_t end) {
  const absl::Status damaged = file.Error("damaged: the archive's directory is not where it says");
  if (end < kZip64LocatorBytes) return damaged;
  MILLRACE_ASSIGN_OR_RETURN(const std::string locator,
                            ReadAt(file, end - kZip64LocatorBytes, kZip64LocatorBytes));
  const uint64_t offset = NumberAt(locator, 8, 8);
  if (NumberAt(locator, 0, 4) != kZip64LocatorSignature || offset > file.size() ||
      file.size() - offset < kZip64EndBytes) {
    return damaged;
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::string record, ReadAt(file, offset, kZip64EndBytes));
  if (NumberAt(record, 0, 4) != kZip64EndSignature) return damaged;
  return ZipDirectory{NumberAt(record, 32, 8), NumberAt(record, 40, 8), NumberAt(record, 48, 8)};
}

absl::StatusOr<ZipDirectory> FindZipDirectory(const InPlaceFile& file) {
  const uint64_t tail = std::min(file.size(), kZipEndBytes + kMaxZipCommentBytes);
  MILLRACE_ASSIGN_OR_RETURN(const std::string bytes, ReadAt(file, file.size() - tail, tail));
  for (uint64_t at = tail < kZipEndBytes ? 0 : tail - kZipEndBytes + 1; at-- > 0;) {
    if (NumberAt(bytes, at, 4) != kZipEndSignature) continue;
    const ZipDirectory directory = {NumberAt(bytes, at + 10, 2), NumberAt(bytes, at + 12, 4),
                                    NumberAt(bytes, at + 16, 4)};
    const bool narrow = directory.entries != 0xffff && directory.bytes != 0xffffffff &&
                        directory.offset != 0xffffffff;
    if (narrow) return directory;
    return FindZip64Directory(file, file.size() - tail + at);
  }
  return file.Error("truncated: a zip archive's directory is missing at its end");
}

// Takes the wide numbers of an entry from its extra fields, in place of those that are all ones.
void WidenZipEntry(absl::string_view extra, ZipEntry* entry) {
  constexpr uint64_t kZip64Extra = 1;
  while (extra.size() >= 4) {
    const uint64_t kind = NumberAt(extra, 0, 2);
    absl::string_view field = extra.substr(4, NumberAt(extra, 2, 2));
    extra.remove_prefix(4 + field.size());
    if (kind != kZip64Extra) continue;
    for (uint64_t* number : {&entry->bytes, &entry->compressed_bytes, &entry->offset}) {
      if (*number != 0xffffffff || field.size() < 8) continue;
      *number = NumberAt(field, 0, 8);
      field.remove_prefix(8);
    }
  }
}

}  // namespace

void ZipStream::EndInflate::operator()(z_stream* stream) const {
  inflateEnd(stream);
  delete stream;
}

ZipStream::ZipStream(const InPlaceFile* file, const ZipEntry& entry, uint64_t begin,
                     std::stop_token stop)
    : file_(*file),
      entry_(entry),
      stop_(std::move(stop)),
      next_(begin),
      end_(begin + entry.compressed_bytes) {
  crc_ = static_cast<uint32_t>(crc32_z(0, nullptr, 0));
  if (entry.method == kZipStored) return;
  constexpr int kRawWindowBits = -15;
  auto stream = std::make_unique<z_stream>();
  *stream = {};
  CHECK_EQ(inflateInit2(stream.get(), kRawWindowBits), Z_OK);
  inflate_.reset(stream.release());
}

absl::Status ZipStream::Error(const std::string& message) const {
  return file_.Error(absl::StrCat(entry_.name, ": ", message));
}

absl::StatusOr<size_t> ZipStream::Read(absl::Span<char> buffer) {
  MILLRACE_RETURN_IF_ERROR(CheckWanted(stop_));
  MILLRACE_ASSIGN_OR_RETURN(const size_t got,
                            inflate_ == nullptr ? ReadStored(buffer) : ReadDeflated(buffer));
  crc_ = static_cast<uint32_t>(crc32_z(crc_, reinterpret_cast<const Bytef*>(buffer.data()), got));
  offset_ += got;
  if (offset_ > entry_.bytes) {
    return Error(absl::StrCat("damaged: more than the ", entry_.bytes,
                              " bytes that the archive's directory says"));
  }
  if (got < buffer.size()) MILLRACE_RETURN_IF_ERROR(CheckEnd());
  return got;
}

absl::StatusOr<size_t> ZipStream::ReadStored(absl::Span<char> buffer) {
  const size_t got = std::min<uint64_t>(buffer.size(), end_ - next_);
  MILLRACE_RETURN_IF_ERROR(file_.ReadAt(next_, buffer.first(got)));
  next_ += got;
  return got;
}

absl::StatusOr<size_t> ZipStream::ReadDeflated(absl::Span<char> buffer) {
  size_t got = 0;
  while (got < buffer.size() && !inflate_ended_) {
    if (inflate_->avail_in == 0) MILLRACE_RETURN_IF_ERROR(RefillInput());
    const size_t wanted = std::min(buffer.size() - got, size_t{1} << 30);
    inflate_->next_out = reinterpret_cast<Bytef*>(buffer.data() + got);
    inflate_->avail_out = static_cast<uInt>(wanted);
    const int result = inflate(inflate_.get(), Z_NO_FLUSH);
    got += wanted - inflate_->avail_out;
    if (result == Z_STREAM_END) inflate_ended_ = true;
    const bool starved = result == Z_BUF_ERROR && next_ < end_;
    if (result != Z_OK && result != Z_STREAM_END && !starved) {
      return Error(absl::StrCat("damaged after offset ", offset_ + got,
                                " of the uncompressed data: it cannot be inflated"));
    }
  }
  return got;
}

absl::Status ZipStream::RefillInput() {
  input_.resize(std::min<uint64_t>(kZipInputBytes, end_ - next_));
  MILLRACE_RETURN_IF_ERROR(file_.ReadAt(next_, absl::MakeSpan(input_)));
  next_ += input_.size();
  inflate_->next_in = reinterpret_cast<Bytef*>(input_.data());
  inflate_->avail_in = static_cast<uInt>(input_.size());
  return absl::OkStatus();
}

absl::Status ZipStream::CheckEnd() {
  if (offset_ < entry_.bytes) {
    return Error(absl::StrCat("damaged: it ends at offset ", offset_,
                              ", but the archive's directory says ", entry_.bytes, " bytes"));
  }
  return crc_ == entry_.crc ? absl::OkStatus() : Error("damaged: its CRC-32 is another one");
}

absl::StatusOr<ZipFile> ZipFile::Open(InPlaceFile opened) {
  ZipFile file(std::move(opened));
  MILLRACE_RETURN_IF_ERROR(file.ReadDirectory());
  return file;
}

absl::Status ZipFile::ReadDirectory() {
  MILLRACE_ASSIGN_OR_RETURN(const ZipDirectory directory, FindZipDirectory(*file_));
  if (directory.offset > file_->size() || directory.bytes > file_->size() - directory.offset ||
      directory.bytes > kMaxZipDirectoryBytes) {
    return Error(absl::StrCat("damaged: its directory is ", directory.bytes, " bytes at offset ",
                              directory.offset, ", of ", file_->size(), " bytes"));
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::string bytes,
                            ReadAt(*file_, directory.offset, directory.bytes));
  absl::string_view rest = bytes;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    const bool whole = rest.size() >= kZipEntryBytes && NumberAt(rest, 0, 4) == kZipEntrySignature;
    const uint64_t names = whole ? NumberAt(rest, 28, 2) : 0;
    const uint64_t extras = whole ? NumberAt(rest, 30, 2) : 0;
    const uint64_t size = kZipEntryBytes + names + extras + (whole ? NumberAt(rest, 32, 2) : 0);
    if (!whole || size > rest.size()) {
      return Error(absl::StrCat("damaged: entry ", i, " of its directory is no entry"));
    }
    ZipEntry entry;
    entry.name = std::string(rest.substr(kZipEntryBytes, names));
    entry.flags = static_cast<uint16_t>(NumberAt(rest, 8, 2));
    entry.method = static_cast<uint16_t>(NumberAt(rest, 10, 2));
    entry.crc = static_cast<uint32_t>(NumberAt(rest, 16, 4));
    entry.compressed_bytes = NumberAt(rest, 20, 4);
    entry.bytes = NumberAt(rest, 24, 4);
    entry.offset = NumberAt(rest, 42, 4);
    WidenZipEntry(rest.substr(kZipEntryBytes + names, extras), &entry);
    entries_.push_back(std::move(entry));
    rest.remove_prefix(size);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ZipStream>> ZipFile::Read(const ZipEntry& entry,
                                                         std::stop_token stop) const {
  if ((entry.flags & kZipEncrypted) != 0 ||
      (entry.method != kZipStored && entry.method != kZipDeflated)) {
    return Error(absl::StrCat(entry.name, ": compressed by method ", entry.method,
                              " or encrypted; must be stored or deflated"));
  }
  const absl::Status damaged = Error(absl::StrCat(entry.name, ": damaged: it is not at offset ",
                                                  entry.offset, ", where the directory says"));
  if (entry.offset > file_->size() || file_->size() - entry.offset < kZipLocalBytes) return damaged;
  MILLRACE_ASSIGN_OR_RETURN(const std::string header, ReadAt(*file_, entry.offset, kZipLocalBytes));
  const uint64_t begin =
      entry.offset + kZipLocalBytes + NumberAt(header, 26, 2) + NumberAt(header, 28, 2);
  if (NumberAt(header, 0, 4) != kZipLocalSignature || begin > file_->size() ||
      file_->size() - begin < entry.compressed_bytes) {
    return damaged;
  }
  return std::make_unique<ZipStream>(file_.get(), entry, begin, std::move(stop));
}

}  // namespace millrace::worker
