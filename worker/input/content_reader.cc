#include "worker/input/content_reader.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

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
  unsigned char first[2] = {};
  const off_t here = lseek(descriptor, 0, SEEK_CUR);
  return pread(descriptor, first, sizeof(first), here) == sizeof(first) && first[0] == 0x1f &&
         first[1] == 0x8b;
}

}  // namespace

ContentReader::ContentReader(int descriptor)
    : descriptor_(descriptor), compressed_(BeginsAsGzip(descriptor)), input_(kBufferBytes) {
  if (compressed_) CHECK_EQ(inflateInit2(&stream_, kGzipWindow), Z_OK) << "no memory for zlib";
}

ContentReader::~ContentReader() {
  if (compressed_) inflateEnd(&stream_);
}

ContentReader::Got ContentReader::Read(absl::Span<char> buffer) {
  return compressed_ ? ReadGzip(buffer) : ReadPlain(buffer);
}

absl::Status ContentReader::Fill() {
  if (stream_.avail_in > 0) return absl::OkStatus();
  ssize_t got = 0;
  do {
    got = read(descriptor_, input_.data(), input_.size());
  } while (got < 0 && errno == EINTR);
  if (got < 0) return absl::UnavailableError(std::strerror(errno));
  stream_.next_in = input_.data();
  stream_.avail_in = static_cast<unsigned>(got);
  return absl::OkStatus();
}

ContentReader::Got ContentReader::ReadPlain(absl::Span<char> buffer) {
  Got got;
  while (got.bytes < buffer.size()) {
    got.status = Fill();
    if (!got.status.ok() || stream_.avail_in == 0) break;
    const size_t part = std::min<size_t>(buffer.size() - got.bytes, stream_.avail_in);
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
