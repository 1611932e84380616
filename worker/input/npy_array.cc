// A header is only a claim: memory grows with what is really read, never with what a header says.
#include "worker/input/npy_array.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "worker/input/in_place_file.h"
#include "worker/input/memory_budget.h"
#include "worker/input/zip_file.h"

namespace millrace::worker {
namespace {

absl::Status Truncated(const NpyHeader& header, const ByteStream& stream) {
  return stream.Error(absl::StrCat("truncated at offset ", stream.offset(), ": the header says ",
                                   Describe(header), ", ", header.bytes(), " bytes"));
}

absl::Status CheckAtEnd(const NpyHeader& header, ByteStream* stream) {
  const uint64_t end = stream->offset();
  char byte;
  MILLRACE_ASSIGN_OR_RETURN(const size_t got, stream->Read(absl::MakeSpan(&byte, 1)));
  if (got == 0) return absl::OkStatus();
  return stream->Error(absl::StrCat("goes on after offset ", end, ": the header says ",
                                    Describe(header), ", ", header.bytes(), " bytes"));
}

// Elements that are neighbours in this dimension of a row stand `stride` elements apart.
struct FortranDimension {
  uint64_t size;
  uint64_t stride;
};

// Of each row, without those of one element.
std::vector<FortranDimension> FortranDimensions(const NpyHeader& header) {
  std::vector<FortranDimension> dimensions;
  uint64_t stride = header.rows;
  for (const uint64_t size : header.row_shape) {
    if (size > 1) dimensions.push_back({size, stride});
    stride *= size;
  }
  return dimensions;
}

// Appends, in C's order, the part of a row that has these dimensions and begins at element `first`
// of `elements`, each of `width` bytes.
void AppendFortran(absl::Span<const FortranDimension> dimensions, absl::string_view elements,
                   uint64_t first, uint32_t width, std::string* row) {
  if (dimensions.empty()) {
    row->append(elements.data() + first * width, width);
    return;
  }
  const FortranDimension& dimension = dimensions.front();
  for (uint64_t i = 0; i < dimension.size; ++i) {
    AppendFortran(dimensions.subspan(1), elements, first + i * dimension.stride, width, row);
  }
}

std::vector<std::string> ArrayNames(const ZipFile& archive) {
  std::vector<std::string> names;
  for (const ZipEntry& entry : archive.entries()) {
    names.push_back(Printable(absl::StripSuffix(entry.name, ".npy")));
  }
  return names;
}

absl::StatusOr<const ZipEntry*> FindArray(const ZipFile& archive, const std::string& name) {
  constexpr size_t kMaxNames = 20;
  if (name.empty() && archive.entries().size() == 1) return &archive.entries().front();
  for (const ZipEntry& entry : archive.entries()) {
    if (!name.empty() && (entry.name == name + ".npy" || entry.name == name)) return &entry;
  }
  std::vector<std::string> names = ArrayNames(archive);
  if (names.size() > kMaxNames) names.resize(kMaxNames);
  const std::string has =
      absl::StrCat("it has ", archive.entries().size(), " arrays: ", absl::StrJoin(names, ", "));
  if (name.empty()) return archive.Error(absl::StrCat("which array? Set `array`; ", has));
  return archive.Error(absl::StrCat("no array '", Printable(name), "'; ", has));
}

absl::StatusOr<ZipFile> OpenZip(const InputFile& file) {
  MILLRACE_ASSIGN_OR_RETURN(InPlaceFile opened, InPlaceFile::Open(file));
  return ZipFile::Open(std::move(opened));
}

}  // namespace

absl::Status NpyArray::AddFile(const DataDirectory& directory, const NamedFile& named) {
  MILLRACE_ASSIGN_OR_RETURN(InputFile file, InputFile::Open(directory, named.name, named.field));
  std::string magic;
  MILLRACE_RETURN_IF_ERROR(ReadUpTo(&file, kNpyMagicBytes, &magic));
  if (absl::StartsWith(magic, "PK")) return AddZip(file);
  return AddArray(magic, &file, file.name(), file, in_place_ && !file.compressed());
}

absl::Status NpyArray::AddZip(const InputFile& file) {
  MILLRACE_ASSIGN_OR_RETURN(const ZipFile archive, OpenZip(file));
  MILLRACE_ASSIGN_OR_RETURN(const ZipEntry* const entry, FindArray(archive, name_));
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<ZipStream> stream,
                            archive.Read(*entry, file.stop()));
  std::string magic;
  MILLRACE_RETURN_IF_ERROR(ReadUpTo(stream.get(), kNpyMagicBytes, &magic));
  return AddArray(magic, stream.get(), file.name(), file, /*in_place=*/false);
}

absl::Status NpyArray::AddArray(absl::string_view magic, ByteStream* stream,
                                const std::string& shown_name, const InputFile& file,
                                bool in_place) {
  MILLRACE_ASSIGN_OR_RETURN(const NpyHeader header, ReadNpyHeader(magic, stream));
  MILLRACE_RETURN_IF_ERROR(CheckLikeOthers(header, *stream));
  if (header.fortran_order) {
    MILLRACE_RETURN_IF_ERROR(AddFortranRows(header, stream));
  } else if (in_place) {
    MILLRACE_RETURN_IF_ERROR(AddRowsInPlace(header, file));
  } else {
    MILLRACE_RETURN_IF_ERROR(AddRows(header, stream));
  }
  if (!first_.has_value()) first_ = header;
  rows_ += header.rows;
  files_.push_back({shown_name, file.field()});
  ends_.push_back(rows_);
  return absl::OkStatus();
}

absl::Status NpyArray::CheckLikeOthers(const NpyHeader& header, const ByteStream& stream) const {
  if (!first_.has_value()) return absl::OkStatus();
  if (first_->type == header.type && first_->row_shape == header.row_shape) {
    return absl::OkStatus();
  }
  return stream.Error(absl::StrCat(Describe(header), ", but ", files_.front().name, " has ",
                                   Describe(*first_),
                                   "; types, byte orders and shapes of rows must agree"));
}

absl::Status NpyArray::AddRows(const NpyHeader& header, ByteStream* stream) {
  std::string row;
  for (uint64_t i = 0; i < header.rows; ++i) {
    MILLRACE_RETURN_IF_ERROR(ReadUpTo(stream, header.row_bytes(), &row));
    if (row.size() < header.row_bytes()) return Truncated(header, *stream);
    if (!selection_.Contains(rows_ + i)) continue;
    MILLRACE_RETURN_IF_ERROR(CheckKept(records_.KeptWhileAdding(row.size()), most_kept_, *stream));
    records_.Add(row);
  }
  return CheckAtEnd(header, stream);
}

absl::Status NpyArray::AddFortranRows(const NpyHeader& header, ByteStream* stream) {
  // All of it is read before a row is whole, into a buffer that is there twice while it grows.
  // Whether so much is there comes before whether it fits.
  const uint64_t wanted = std::min(header.bytes(), (most_kept_ - kept_bytes()) / 2);
  std::string elements;
  MILLRACE_RETURN_IF_ERROR(ReadUpTo(stream, wanted, &elements));
  if (elements.size() < wanted) return Truncated(header, *stream);
  MILLRACE_RETURN_IF_ERROR(CheckKept(kept_bytes() + 2 * header.bytes(), most_kept_, *stream));
  MILLRACE_RETURN_IF_ERROR(CheckAtEnd(header, stream));
  const std::vector<FortranDimension> dimensions = FortranDimensions(header);
  std::string row;
  for (uint64_t i = 0; i < header.rows; ++i) {
    if (!selection_.Contains(rows_ + i)) continue;
    const uint64_t kept = records_.KeptWhileAdding(header.row_bytes());
    MILLRACE_RETURN_IF_ERROR(
        CheckKept(header.bytes() + header.row_bytes() + kept, most_kept_, *stream));
    row.clear();
    row.reserve(header.row_bytes());
    AppendFortran(dimensions, elements, i, header.type.bytes, &row);
    records_.Add(row);
  }
  return absl::OkStatus();
}

absl::Status NpyArray::AddRowsInPlace(const NpyHeader& header, const InputFile& file) {
  const uint64_t begin = file.offset();
  MILLRACE_ASSIGN_OR_RETURN(InPlaceFile opened, InPlaceFile::Open(file));
  if (opened.size() != begin + header.bytes()) {
    return file.Error(absl::StrCat("ends at offset ", opened.size(), " instead of ",
                                   begin + header.bytes(), ": the header says ", Describe(header),
                                   ", ", header.bytes(), " bytes"));
  }
  records_.BeginFile(std::move(opened));
  for (uint64_t i = 0; i < header.rows; ++i) {
    if (!selection_.Contains(rows_ + i)) continue;
    MILLRACE_RETURN_IF_ERROR(CheckKept(records_.KeptWhileAdding(0), most_kept_, file));
    records_.AddInPlace(begin + i * header.row_bytes(), static_cast<uint32_t>(header.row_bytes()));
  }
  return absl::OkStatus();
}

std::pair<absl::string_view, uint64_t> NpyArray::Find(uint64_t row) const {
  const size_t file = std::upper_bound(ends_.begin(), ends_.end(), row) - ends_.begin();
  return {files_[file].name, row - (file == 0 ? 0 : ends_[file - 1])};
}

}  // namespace millrace::worker
