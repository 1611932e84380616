#include "common/checkpoint/stored_shard.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/checkpoint/checkpoint_records.h"
#include "common/checkpoint/checksum.h"
#include "common/printable.h"
#include "common/safetensors/safetensors_header.h"
#include "common/status_macros.h"

namespace millrace {
namespace {

// Where the tensors of a file of values are.
struct TensorPlaces {
  struct Place {
    uint64_t begin = 0;  // In bytes, in the file.
    uint64_t end = 0;
  };
  bool damaged = false;
  absl::flat_hash_map<std::string, Place> tensors;
};

absl::Status CountRead(const ReadHook& on_read, uint64_t bytes) {
  return on_read == nullptr ? absl::OkStatus() : on_read(bytes);
}

// Bytes [begin, end) of the file are damaged: "PATH: damaged: WHAT".
absl::Status Tell(const ProblemSink& sink, const std::string& directory, const std::string& name,
                  uint64_t begin, uint64_t end, absl::string_view what) {
  return sink({name, begin, end, absl::StrCat(JoinPath(directory, name), ": damaged: ", what)});
}

class ValueFileReader {
 public:
  ValueFileReader(const FileSystemPtr& file_system, const std::string& directory,
                  const ValueFile& file, const ProblemSink& sink, const ReadHook& on_read)
      : file_system_(file_system),
        directory_(directory),
        file_(file),
        path_(JoinPath(directory, file.path())),
        sink_(sink),
        on_read_(on_read) {}

  absl::StatusOr<TensorPlaces> Read() const {
    const auto reader = OpenCheckpointFile(file_system_, directory_, file_.path());
    if (absl::IsDataLoss(reader.status())) {
      MILLRACE_RETURN_IF_ERROR(
          sink_({file_.path(), 0, file_.bytes(), std::string(reader.status().message())}));
      TensorPlaces places;
      places.damaged = true;
      return places;
    }
    if (absl::IsNotFound(reader.status())) {
      return Damaged(0, file_.bytes(), "it is not there");
    }
    MILLRACE_RETURN_IF_ERROR(reader.status());
    if (reader->bytes() != file_.bytes()) {
      return Damaged(
          std::min(reader->bytes(), file_.bytes()), std::max(reader->bytes(), file_.bytes()),
          absl::StrCat("it has ", reader->bytes(), " bytes where its record says ", file_.bytes()));
    }
    std::string text(file_.header_bytes(), '\0');
    const absl::Status read = reader->Read(0, absl::MakeSpan(text));
    if (absl::IsDataLoss(read)) return Damaged(0, file_.header_bytes(), "it is too short");
    MILLRACE_RETURN_IF_ERROR(read);
    MILLRACE_RETURN_IF_ERROR(CountRead(on_read_, text.size()));
    if (const std::string found = Checksum(text); found != file_.header_checksum()) {
      return Damaged(
          0, file_.header_bytes(),
          absl::StrCat("bytes 0 to ", file_.header_bytes(), " (the header): their checksum is ",
                       found, ", not ", file_.header_checksum()));
    }
    return Places(text);
  }

 private:
  absl::StatusOr<TensorPlaces> Damaged(uint64_t begin, uint64_t end, absl::string_view what) const {
    MILLRACE_RETURN_IF_ERROR(Tell(sink_, directory_, file_.path(), begin, end, what));
    TensorPlaces places;
    places.damaged = true;
    return places;
  }

  absl::StatusOr<SafetensorsHeader> ParseHeader(absl::string_view text) const {
    MILLRACE_ASSIGN_OR_RETURN(const uint64_t length,
                              ParseSafetensorsLength(path_, text, file_.bytes()));
    if (length != text.size() - kSafetensorsLengthBytes) {
      return absl::InvalidArgumentError("its header has another length than its record says");
    }
    return ParseSafetensorsHeader(path_, text.substr(kSafetensorsLengthBytes), file_.bytes());
  }

  absl::StatusOr<TensorPlaces> Places(absl::string_view text) const {
    const absl::StatusOr<SafetensorsHeader> header = ParseHeader(text);
    if (!header.ok()) return Damaged(0, file_.header_bytes(), header.status().message());
    TensorPlaces places;
    for (const SafetensorsEntry& tensor : header->tensors) {
      if (tensor.dtype != "F32") continue;
      places.tensors[tensor.name] = {header->bytes + tensor.begin, header->bytes + tensor.end};
    }
    return places;
  }

  const FileSystemPtr& file_system_;
  const std::string& directory_;
  const ValueFile& file_;
  const std::string path_;
  const ProblemSink& sink_;
  const ReadHook& on_read_;
};

// Nothing: it is in a damaged file, or the record is wrong, which the sink knows.
absl::StatusOr<StoredShard::Block> Place(const StoredBlock& block,
                                         const std::vector<TensorPlaces>& files,
                                         const ProblemSink& sink, const std::string& directory,
                                         const CheckpointShard& shard) {
  StoredShard::Block placed;
  placed.variable = block.variable();
  placed.offset = block.offset();
  placed.elements = block.length();
  for (const StoredArray& array : block.arrays()) {
    const TensorPlaces& file = files[array.file()];
    StoredElements elements{array.file(), 0, array.checksum()};
    const auto tensor = file.tensors.find(array.tensor());
    const uint64_t available = tensor == file.tensors.end()
                                   ? 0
                                   : (tensor->second.end - tensor->second.begin) / sizeof(float);
    if (array.begin() <= available && block.length() <= available - array.begin()) {
      elements.offset = tensor->second.begin + array.begin() * sizeof(float);
    } else if (!file.damaged) {
      MILLRACE_RETURN_IF_ERROR(
          Tell(sink, directory, shard.record(), 0, shard.record_bytes(),
               absl::StrCat("it places elements of '", PrintableName(block.variable()),
                            "' at element ", array.begin(), " of tensor '",
                            PrintableName(array.tensor()), "', which has ", available)));
    }
    if (elements.offset == 0) return StoredShard::Block{};
    placed.arrays.push_back(std::move(elements));
  }
  return placed;
}

}  // namespace

absl::StatusOr<StoredShard> ReadStoredShard(const FileSystemPtr& file_system,
                                            const std::string& directory,
                                            const CheckpointManifest& manifest, uint32_t shard,
                                            const ProblemSink& sink, const ReadHook& on_read) {
  const CheckpointShard& expected = manifest.shards(static_cast<int>(shard));
  const auto record = ReadShardRecord(file_system, directory, manifest, shard);
  if (absl::IsDataLoss(record.status())) {
    MILLRACE_RETURN_IF_ERROR(sink(
        {expected.record(), 0, expected.record_bytes(), std::string(record.status().message())}));
    return StoredShard{};
  }
  MILLRACE_RETURN_IF_ERROR(record.status());
  MILLRACE_RETURN_IF_ERROR(CountRead(on_read, expected.record_bytes()));
  StoredShard result;
  std::vector<TensorPlaces> files;
  for (const ValueFile& file : record->files()) {
    MILLRACE_ASSIGN_OR_RETURN(TensorPlaces places,
                              ValueFileReader(file_system, directory, file, sink, on_read).Read());
    files.push_back(std::move(places));
    result.files.push_back(file.path());
  }
  for (const StoredBlock& block : record->blocks()) {
    MILLRACE_ASSIGN_OR_RETURN(StoredShard::Block placed,
                              Place(block, files, sink, directory, expected));
    if (placed.elements > 0) result.blocks.push_back(std::move(placed));
  }
  return result;
}

absl::Status CheckValueFile(const FileSystemPtr& file_system, const std::string& directory,
                            const ValueFile& file) {
  const ProblemSink refuse = [](const CheckpointProblem& problem) {
    return absl::DataLossError(problem.what);
  };
  return ValueFileReader(file_system, directory, file, refuse, nullptr).Read().status();
}

absl::Status ReadElements(const RandomAccessReader& file, const std::string& name,
                          const StoredShard::Block& block, int array, absl::Span<float> target,
                          const ProblemSink& sink) {
  const StoredElements& elements = block.arrays[static_cast<size_t>(array)];
  char* const bytes = reinterpret_cast<char*>(target.data());
  const uint64_t length = target.size() * sizeof(float);
  absl::Status status = file.Read(elements.offset, absl::MakeSpan(bytes, length));
  std::string what = "they are missing";
  if (status.ok()) {
    const std::string found = Checksum(absl::string_view(bytes, length));
    if (found == elements.checksum) return absl::OkStatus();
    what = absl::StrCat("their checksum is ", found, ", not ", elements.checksum);
  } else if (!absl::IsDataLoss(status)) {
    return status;
  }
  const uint64_t end = elements.offset + length;
  return sink({name, elements.offset, end,
               absl::StrCat(file.path(), ": damaged: bytes ", elements.offset, " to ", end, " (",
                            array == 0 ? "values" : "a slot", " of '",
                            PrintableName(block.variable), "', elements ", block.offset, " to ",
                            block.offset + block.elements, "): ", what)});
}

}  // namespace millrace
