// A small record in memory that outlives the process, and changes from whole to whole.
#ifndef MILLRACE_PS_BLOCK_ROOT_FILE_H_
#define MILLRACE_PS_BLOCK_ROOT_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "ps/block/mapped_file.h"

namespace millrace::ps {

// A list of numbers and a mark. See the essay in the .cc file. Not thread-safe.
class RootFile {
 public:
  struct Contents {
    std::vector<uint64_t> words;
    bool marked = false;
  };

  // An empty one, in the place of an older one. `capacity`: in words; it grows when they do not do.
  // Statuses as for MappedFile.
  static absl::StatusOr<std::unique_ptr<RootFile>> Create(const std::string& path, size_t capacity,
                                                          const ReserveFile& reserve);
  static absl::StatusOr<std::unique_ptr<RootFile>> Open(const std::string& path,
                                                        const ReserveFile& reserve);

  // Replaces the contents. A process that is killed meanwhile leaves the old ones or the new ones.
  // No system call, unless it has to grow: where it cannot, it keeps the old ones.
  absl::Status Write(absl::Span<const uint64_t> words, bool marked);

  // Marks what was written last.
  void Mark();

  // nullopt: there is nothing, or nothing that is whole.
  absl::optional<Contents> Read() const;

  // From now on it is empty.
  void Erase();

  void Unlink() { file_->Unlink(); }

 private:
  struct Slot;

  RootFile(std::unique_ptr<MappedFile> file, const ReserveFile& reserve);
  Slot* slot(int index) const;
  size_t capacity() const;  // Of a slot, in words.
  // The slot that counts, or -1.
  int Newest() const;
  absl::Status Grow(absl::Span<const uint64_t> words, bool marked);

  std::unique_ptr<MappedFile> file_;
  const ReserveFile reserve_;
  int newest_;
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_BLOCK_ROOT_FILE_H_
