#include "worker/input/content_reader.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "glog/logging.h"

namespace millrace::worker {
namespace {

constexpr size_t kBufferBytes = 256 << 10;
constexpr size_t kMostOutput = size_t{1} << 30;  // zlib counts in unsigned int.
// inflateInit2: the largest window, and a gzip header.
constexpr int kGzipWindow = MAX_WBITS + 16;

bool BeginsAsGzip(int descriptor) {
  constexpr unsigned char kMagic[] = {0x1f, 0x8b, Z_DEFLATED};
  unsigned char first[sizeof(kMagic)] = {};
  const off_t here = lseek(descriptor, 0, SEEK_CUR);
  return pread(descriptor, first, sizeof(first), here) == sizeof(first) &&
         std::memcmp(first, kMagic, sizeof(kMagic)) == 0;
}

}  // namespace

// The buffer is not filled with zeros: a picture needs a few of its pages.
ContentReader::ContentReader(int descriptor)
    : descriptor_(descriptor),
      compressed_(BeginsAsGzip(descriptor)),
      input_(new unsigned char[kBufferBytes]) {
  // The only failure of these arguments.
  if (compressed_ && inflateInit2(&stream_, kGzipWindow) != Z_OK) throw std::bad_alloc();
}

ContentReader::~ContentReader() {
  if (compressed_) inflateEnd(&stream_);
}

ContentReader::Got ContentReader::Read(absl::Span<char> buffer) {
  return compressed_ ? ReadGzip(buffer) : ReadPlain(buffer);
}

absl::StatusOr<size_t> ContentReader::ReadSome(void* buffer, size_t bytes) {
  for (;;) {
    const ssize_t got = read(descriptor_, buffer, bytes);
    if (got >= 0) return static_cast<size_t>(got);
    if (errno != EINTR) return absl::UnavailableError(std::strerror(errno));
  }
}

absl::Status ContentReader::Fill() {
  if (stream_.avail_in > 0) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const size_t got, ReadSome(input_.get(), kBufferBytes));
  stream_.next_in = input_.get();
  stream_.avail_in = static_cast<unsigned>(got);
  return absl::OkStatus();
}

ContentReader::Got ContentReader::ReadPlain(absl::Span<char> buffer) {
  Got got;
  while (got.bytes < buffer.size()) {
    const size_t left = buffer.size() - got.bytes;
    if (stream_.avail_in == 0 && left >= kBufferBytes) {
      const absl::StatusOr<size_t> some = ReadSome(buffer.data() + got.bytes, left);
      got.status = some.status();
      if (!some.ok() || *some == 0) break;
      got.bytes += *some;
      continue;
    }
    got.status = Fill();
    if (!got.status.ok() || stream_.avail_in == 0) break;
    const size_t part = std::min<size_t>(left, stream_.avail_in);
    std::memcpy(buffer.data() + got.bytes, stream_.next_in, part);
    stream_.next_in += part;
    stream_.avail_in -= static_cast<unsigned>(part);
    got.bytes += part;
  }
  return got;
}

// Zeros are what tapes and block devices fill up with; gzip takes them, too.
absl::StatusOr<bool> ContentReader::BeginNextMember() {
  for (;;) {
    MILLRACE_RETURN_IF_ERROR(Fill());
    if (stream_.avail_in == 0) return false;
    if (*stream_.next_in != 0) break;
    ++stream_.next_in;
    --stream_.avail_in;
  }
  CHECK_EQ(inflateReset(&stream_), Z_OK);
  in_member_ = true;
  return true;
}

ContentReader::Got ContentReader::ReadGzip(absl::Span<char> buffer) {
  Got got;
  while (got.bytes < buffer.size()) {
    if (!in_member_) {
      const absl::StatusOr<bool> begun = BeginNextMember();
      got.status = begun.status();
      if (!begun.ok() || !*begun) break;
    }
    got.status = Fill();
    if (!got.status.ok()) break;
    const bool at_end = stream_.avail_in == 0;
    const size_t most = std::min(buffer.size() - got.bytes, kMostOutput);
    stream_.next_out = reinterpret_cast<unsigned char*>(buffer.data() + got.bytes);
    stream_.avail_out = static_cast<unsigned>(most);
    const int code = inflate(&stream_, Z_NO_FLUSH);
    const size_t made = most - stream_.avail_out;
    if (code == Z_DATA_ERROR || code == Z_NEED_DICT || code == Z_STREAM_ERROR) {
      got.status = absl::DataLossError(stream_.msg == nullptr ? "no gzip" : stream_.msg);
      break;
    }
    if (code == Z_MEM_ERROR) {
      got.status = absl::UnavailableError("out of memory");
      break;
    }
    got.bytes += made;
    in_member_ = code != Z_STREAM_END;
    if (in_member_ && at_end && made == 0) {
      got.status = absl::OutOfRangeError("the gzip stream has no end");
      break;
    }
  }
  return got;
}

}  // namespace millrace::worker
