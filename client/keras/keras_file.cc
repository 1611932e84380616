#include "client/keras/keras_file.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/memory_limit.h"
#include "common/status_macros.h"
#include "worker/input/in_place_file.h"
#include "worker/input/zip_file.h"

namespace millrace::client {
namespace {

using ::millrace::worker::InPlaceFile;
using ::millrace::worker::ZipEntry;
using ::millrace::worker::ZipFile;
using ::millrace::worker::ZipStream;

constexpr char kConfig[] = "config.json";
constexpr char kWeights[] = "model.weights.h5";
constexpr uint64_t kMaxConfigBytes = uint64_t{64} << 20;
constexpr absl::string_view kZipMagic("PK\3\4", 4);
constexpr absl::string_view kHdf5Magic("\x89HDF\r\n\x1a\n", 8);

absl::StatusOr<ZipEntry> FindPart(const ZipFile& archive, const std::string& name) {
  const auto& entries = archive.entries();
  const auto entry = std::find_if(entries.begin(), entries.end(),
                                  [&](const ZipEntry& one) { return one.name == name; });
  if (entry != entries.end()) return *entry;
  return archive.Error(absl::StrCat(name, ": not there; must be in a .keras file"));
}

// Before all of it is read.
absl::Status CheckBeginsAsHdf5(const ZipFile& archive, const std::string& name) {
  MILLRACE_ASSIGN_OR_RETURN(const ZipEntry entry, FindPart(archive, name));
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<ZipStream> stream, archive.Read(entry));
  std::string begin;
  MILLRACE_RETURN_IF_ERROR(worker::ReadUpTo(stream.get(), kHdf5Magic.size(), &begin));
  if (begin == kHdf5Magic) return absl::OkStatus();
  return archive.Error(absl::StrCat(name, ": no whole HDF5 file: it does not begin as one"));
}

// A file of the archive, whole.
absl::StatusOr<std::string> ReadPart(const ZipFile& archive, const std::string& name,
                                     uint64_t most_bytes, absl::string_view why = "") {
  MILLRACE_ASSIGN_OR_RETURN(const ZipEntry entry, FindPart(archive, name));
  if (entry.bytes > most_bytes) {
    return archive.Error(
        absl::StrCat(name, ": ", entry.bytes, " bytes; must be at most ", most_bytes, why));
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<ZipStream> stream, archive.Read(entry));
  std::string bytes;
  bytes.reserve(entry.bytes + 1);  // It would grow by copying itself.
  // Beyond the end, where length and checksum are compared.
  MILLRACE_RETURN_IF_ERROR(worker::ReadUpTo(stream.get(), entry.bytes + 1, &bytes));
  return bytes;
}

}  // namespace

KerasFormat KerasFormatOf(const std::string& path) {
  std::string begin(kHdf5Magic.size(), '\0');
  std::ifstream(path, std::ios::binary)
      .read(begin.data(), static_cast<std::streamsize>(begin.size()));
  if (absl::StartsWith(begin, kZipMagic)) return KerasFormat::kArchive;
  if (begin == kHdf5Magic) return KerasFormat::kHdf5;
  if (!std::ifstream(path)) return KerasFormat::kJson;
  if (absl::EndsWith(path, ".keras")) return KerasFormat::kArchive;
  const bool is_hdf5 = absl::EndsWith(path, ".h5") || absl::EndsWith(path, ".hdf5");
  return is_hdf5 ? KerasFormat::kHdf5 : KerasFormat::kJson;
}

uint64_t MostKerasWeightBytes() { return MemoryLimit() / 4; }

absl::StatusOr<KerasFile> ReadKerasArchive(const std::string& path, bool with_weights,
                                           uint64_t most_weight_bytes) {
  MILLRACE_ASSIGN_OR_RETURN(InPlaceFile opened, InPlaceFile::Open(path, "Keras model"));
  MILLRACE_ASSIGN_OR_RETURN(const ZipFile archive, ZipFile::Open(std::move(opened)));
  KerasFile file;
  MILLRACE_ASSIGN_OR_RETURN(file.json, ReadPart(archive, kConfig, kMaxConfigBytes));
  file.json_name = absl::StrCat(path, ": ", kConfig);
  if (!with_weights) return file;
  MILLRACE_RETURN_IF_ERROR(CheckBeginsAsHdf5(archive, kWeights));
  MILLRACE_ASSIGN_OR_RETURN(std::string weights,
                            ReadPart(archive, kWeights, most_weight_bytes,
                                     ", a quarter of the memory that this process may use"));
  MILLRACE_ASSIGN_OR_RETURN(
      file.weights, Hdf5File::FromBytes(std::move(weights), absl::StrCat(path, ": ", kWeights)));
  return file;
}

absl::StatusOr<KerasFile> ReadKerasHdf5(const std::string& path) {
  KerasFile file;
  MILLRACE_ASSIGN_OR_RETURN(file.weights, Hdf5File::Open(path));
  MILLRACE_ASSIGN_OR_RETURN(const auto config, file.weights->Texts("", "model_config"));
  if (config.size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        ": attribute model_config: not there; where the file has weights alone, give the "
        "model's JSON and then this file"));
  }
  MILLRACE_ASSIGN_OR_RETURN(const auto training, file.weights->Texts("", "training_config"));
  file.json = config.front();
  file.json_name = absl::StrCat(path, ": model_config");
  if (training.size() == 1) file.training = training.front();
  MILLRACE_ASSIGN_OR_RETURN(const auto version, file.weights->Texts("", "keras_version"));
  file.in_keras2_hdf5 = version.size() == 1 && absl::StartsWith(version.front(), "2.");
  return file;
}

}  // namespace millrace::client
