// The rows of one array that is in several files of NumPy's.
#ifndef MILLRACE_WORKER_INPUT_NPY_ARRAY_H_
#define MILLRACE_WORKER_INPUT_NPY_ARRAY_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "protos/job.pb.h"
#include "worker/input/byte_stream.h"
#include "worker/input/example_selection.h"
#include "worker/input/input_file.h"
#include "worker/input/input_files.h"
#include "worker/input/npy_header.h"
#include "worker/input/record_store.h"

namespace millrace::worker {

// Gathers the rows of a selection. Not thread-safe.
class NpyArray {
 public:
  // `name`: of the array in .npz files; empty: the only one. `in_place`: rows stay in their files,
  // where these are .npy in C's order and not compressed. At most `most_kept` bytes of memory are
  // kept: of rows, of the index of all, and of an array in Fortran's order while its rows are made.
  // `selection` must outlive this object.
  NpyArray(std::string name, const ExampleSelection& selection, bool in_place, uint64_t most_kept)
      : name_(std::move(name)), selection_(selection), in_place_(in_place), most_kept_(most_kept) {}

  // Adds the rows of a file, .npy or .npz by its content. INVALID_ARGUMENT: it is damaged, or its
  // rows are not like those before. RESOURCE_EXHAUSTED: too many bytes.
  absl::Status AddFile(const DataDirectory& directory, const NamedFile& file);

  // REQUIRES, as all below: at least one file was added.
  const NpyType& type() const { return first_->type; }
  const std::vector<uint64_t>& row_shape() const { return first_->row_shape; }

  // In all files, selected or not.
  uint64_t rows() const { return rows_; }

  // Names as they are shown, with .gz where that was added, and the number of each one's rows.
  const std::vector<NamedFile>& files() const { return files_; }

  // "FILE", as files() has it, and the row's number in it. REQUIRES: row < rows().
  std::pair<absl::string_view, uint64_t> Find(uint64_t row) const;

  // Of rows in memory, and of the index of all. At most `most_kept`.
  uint64_t kept_bytes() const { return records_.kept_bytes(); }

  RecordStore TakeRecords() { return std::move(records_); }

 private:
  absl::Status AddZip(const InputFile& file);
  absl::Status AddArray(absl::string_view magic, ByteStream* stream, const std::string& shown_name,
                        const InputFile& file, bool in_place);
  absl::Status CheckLikeOthers(const NpyHeader& header, const ByteStream& stream) const;
  absl::Status AddRows(const NpyHeader& header, ByteStream* stream);
  absl::Status AddFortranRows(const NpyHeader& header, ByteStream* stream);
  absl::Status AddRowsInPlace(const NpyHeader& header, const InputFile& file);

  const std::string name_;
  const ExampleSelection& selection_;
  const bool in_place_;
  const uint64_t most_kept_;
  absl::optional<NpyHeader> first_;
  RecordStore records_;
  uint64_t rows_ = 0;
  std::vector<NamedFile> files_;
  std::vector<uint64_t> ends_;  // Rows of files_[0] to files_[i].
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_NPY_ARRAY_H_
