// A data file, read from front to end, compressed or not.
#ifndef MILLRACE_WORKER_INPUT_INPUT_FILE_H_
#define MILLRACE_WORKER_INPUT_INPUT_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/input/byte_stream.h"
#include "worker/input/content_reader.h"
#include "worker/input/data_directory.h"
#include "worker/input/file_state.h"

namespace millrace::worker {

// Gzip, of one member or several, is recognised by content, whatever the file is called; its
// checksums are verified, and nothing else may follow it. Blocks
// while it reads. Not thread-safe.
class InputFile final : public ByteStream {
 public:
  // Opens `directory`/`name`, or where that is absent `directory`/`name`.gz. An absolute `name`
  // stands alone. `field` is the field of the job that names the file ("data.train.idx.images").
  // INVALID_ARGUMENT: no such file, or not one that can be read; `directory` is missing. CANCELLED,
  // and so Read: nobody wants the directory's files any more.
  static absl::StatusOr<InputFile> Open(const DataDirectory& directory, const std::string& name,
                                        const std::string& field);

  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile() override;

  // As given to Open, with .gz where that was added; for messages about content.
  const std::string& name() const { return name_; }

  // Where it was found.
  const std::string& path() const { return path_; }
  const std::string& field() const { return field_; }
  // The directory's.
  const std::stop_token& stop() const { return stop_; }

  bool compressed() const { return content_->compressed(); }

  // The open file, which goes with this object; whoever reads from it must not move it.
  int descriptor() const { return descriptor_; }
  // When it was opened.
  const FileState& state() const { return state_; }

  uint64_t offset() const override { return offset_; }
  absl::StatusOr<size_t> Read(absl::Span<char> buffer) override;
  absl::Status Error(const std::string& message) const override;

  // INVALID_ARGUMENT: "FIELD: PATH:LINE:COLUMN: MESSAGE", both counted from 1.
  absl::Status ErrorAt(uint64_t line, uint64_t column, const std::string& message) const;

 private:
  InputFile(std::stop_token stop, std::string path, std::string name, std::string field);

  absl::Status OpenPath();

  absl::Status ReadError(const absl::Status& error) const;

  int descriptor_ = -1;  // Owned.
  std::unique_ptr<ContentReader> content_;
  FileState state_;
  std::stop_token stop_;
  std::string path_;
  std::string name_;
  std::string field_;
  uint64_t offset_ = 0;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_INPUT_FILE_H_
