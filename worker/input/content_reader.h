// The content of an open file, decompressed where it is gzip.
#ifndef MILLRACE_WORKER_INPUT_CONTENT_READER_H_
#define MILLRACE_WORKER_INPUT_CONTENT_READER_H_

#include <zlib.h>

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace millrace::worker {

// zlib's own file functions end without a word where what follows a gzip member is no gzip, such as
// the next member of a file whose first bytes are damaged. Not thread-safe.
class ContentReader {
 public:
  // Reads on from where the file is. Does not own `descriptor`, which must outlive this object.
  // Whether it is gzip is seen by its first bytes.
  explicit ContentReader(int descriptor);
  ~ContentReader();
  ContentReader(const ContentReader&) = delete;
  ContentReader& operator=(const ContentReader&) = delete;

  bool compressed() const { return compressed_; }

  struct Got {
    size_t bytes = 0;  // That were read before the error, if there is one.
    // OUT_OF_RANGE: the gzip stream has no end. DATA_LOSS: it is damaged. UNAVAILABLE: the system's
    // error.
    absl::Status status;
  };
  // Fewer bytes than the buffer takes: the file ends, or there is an error. Blocks while it reads.
  Got Read(absl::Span<char> buffer);

 private:
  Got ReadPlain(absl::Span<char> buffer);
  Got ReadGzip(absl::Span<char> buffer);
  // Takes the next bytes of the file in, if none are left; none are left then: the file has ended.
  absl::Status Fill();
  // What `read` has to give, 0 bytes at the end.
  absl::StatusOr<size_t> ReadSome(void* buffer, size_t bytes);
  // Passes what may stand between two members. False: the file has ended.
  absl::StatusOr<bool> BeginNextMember();

  const int descriptor_;
  bool compressed_ = false;
  bool in_member_ = true;
  const std::unique_ptr<unsigned char[]> input_;
  z_stream stream_ = {};  // next_in and avail_in are what is left of input_, compressed or not.
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_CONTENT_READER_H_
