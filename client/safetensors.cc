#include "client/safetensors.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "common/status_macros.h"
#include "common/storage/durable_file.h"
#include "nlohmann/json.hpp"

namespace millrace::client {
namespace {

static_assert(std::endian::native == std::endian::little,
              "values are written as they are in memory");

constexpr size_t kLengthBytes = 8;
constexpr size_t kAlignment = 8;
// The format's own limit.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr char kMetadataKey[] = "__metadata__";
// Written between two looks at the interrupt.
constexpr size_t kBytesAtOnce = 4 << 20;

// Elements of a shape; nothing when that number, or its bytes, are past 64 bits.
absl::optional<uint64_t> Elements(const std::vector<uint64_t>& shape) {
  uint64_t elements = 1;
  for (uint64_t dimension : shape) {
    if (dimension != 0 &&
        elements > std::numeric_limits<uint64_t>::max() / sizeof(float) / dimension) {
      return absl::nullopt;
    }
    elements *= dimension;
  }
  return elements;
}

absl::Status CheckTensors(const std::string& path, absl::Span<const Tensor> tensors) {
  std::set<std::string> names;
  for (const Tensor& tensor : tensors) {
    if (tensor.name.empty() || tensor.name == kMetadataKey || !names.insert(tensor.name).second) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": tensor name '", tensor.name,
                                                     "': names must be unique, not empty and not ",
                                                     kMetadataKey));
    }
    if (Elements(tensor.shape) != tensor.values.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": tensor '", tensor.name, "' of shape [", absl::StrJoin(tensor.shape, ", "),
          "] has ", tensor.values.size(), " values"));
    }
  }
  return absl::OkStatus();
}

// Length and header, as they stand at the beginning of the file.
std::string EncodeHeader(absl::Span<const Tensor> tensors,
                         const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!metadata.empty()) json[kMetadataKey] = metadata;
  uint64_t begin = 0;
  for (const Tensor& tensor : tensors) {
    const uint64_t end = begin + tensor.values.size() * sizeof(float);
    json[tensor.name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string header = json.dump();
  header.append((kAlignment - header.size() % kAlignment) % kAlignment, ' ');
  const uint64_t length = header.size();
  std::string bytes(kLengthBytes, '\0');
  std::memcpy(bytes.data(), &length, kLengthBytes);
  return bytes + header;
}

// What a header says of one tensor.
struct Entry {
  std::string name;
  std::vector<uint64_t> shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

absl::Status BadFile(const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": not a safetensors file: ", what));
}

bool IsCount(const nlohmann::json& value) { return value.is_number_unsigned(); }

absl::StatusOr<Entry> ParseEntry(const std::string& path, const std::string& name,
                                 const nlohmann::json& json) {
  Entry entry;
  entry.name = name;
  try {
    if (const auto type = json.at("dtype").get<std::string>(); type != "F32") {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": tensor '", name, "' is ", type, "; only F32 can be read"));
    }
    for (const char* field : {"shape", "data_offsets"}) {
      const nlohmann::json& numbers = json.at(field);
      if (!std::all_of(numbers.begin(), numbers.end(), IsCount)) {
        return BadFile(path, absl::StrCat("tensor '", name, "': ", field,
                                          ": must be whole numbers of at least 0"));
      }
    }
    entry.shape = json.at("shape").get<std::vector<uint64_t>>();
    entry.begin = json.at("data_offsets").at(0).get<uint64_t>();
    entry.end = json.at("data_offsets").at(1).get<uint64_t>();
  } catch (const nlohmann::json::exception& error) {
    return BadFile(path, absl::StrCat("tensor '", name, "': ", error.what()));
  }
  const absl::optional<uint64_t> elements = Elements(entry.shape);
  if (!elements || entry.end < entry.begin ||
      entry.end - entry.begin != *elements * sizeof(float)) {
    return BadFile(path, absl::StrCat("tensor '", name, "': data_offsets do not fit the shape"));
  }
  return entry;
}

// The entries in the order of their values, which must lie one after the other.
absl::StatusOr<std::vector<Entry>> ParseHeader(const std::string& path, const std::string& header,
                                               std::map<std::string, std::string>* metadata) {
  const nlohmann::json json = nlohmann::json::parse(header, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return BadFile(path, "the header is not a JSON object");
  std::vector<Entry> entries;
  for (const auto& [name, value] : json.items()) {
    if (name == kMetadataKey) {
      for (const auto& [key, text] : value.items()) {
        if (!text.is_string()) return BadFile(path, "__metadata__ holds other than strings");
        (*metadata)[key] = text.get<std::string>();
      }
      continue;
    }
    MILLRACE_ASSIGN_OR_RETURN(Entry entry, ParseEntry(path, name, value));
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  uint64_t expected = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != expected) {
      return BadFile(path, absl::StrCat("tensor '", entry.name, "' starts at ", entry.begin,
                                        " where ", expected, " is expected"));
    }
    expected = entry.end;
  }
  return entries;
}

// The header's text; leaves `file` at the first value.
absl::StatusOr<std::string> ReadHeader(const std::string& path, std::ifstream& file) {
  uint64_t length = 0;
  if (!file.read(reinterpret_cast<char*>(&length), kLengthBytes)) {
    return BadFile(path, "shorter than 8 bytes");
  }
  if (length > kMaxHeaderBytes)
    return BadFile(path, absl::StrCat("a header of ", length, " bytes"));
  std::string header(length, '\0');
  if (!file.read(header.data(), static_cast<std::streamsize>(length))) {
    return BadFile(path, "it ends within its header");
  }
  return header;
}

// Bytes from here to the end; leaves `file` where it is.
uint64_t RemainingBytes(std::ifstream& file) {
  const auto here = file.tellg();
  file.seekg(0, std::ios::end);
  const auto end = file.tellg();
  file.seekg(here);
  return static_cast<uint64_t>(end - here);
}

// In parts, between which an interrupt is seen.
absl::Status AppendAll(absl::string_view bytes, const Interrupt* interrupt, DurableFile* file) {
  while (!bytes.empty()) {
    if (interrupt != nullptr && interrupt->triggered()) return absl::CancelledError("interrupted");
    const absl::string_view part = bytes.substr(0, kBytesAtOnce);
    MILLRACE_RETURN_IF_ERROR(file->Append(part));
    bytes.remove_prefix(part.size());
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteSafetensors(const std::string& path, absl::Span<const Tensor> tensors,
                              const std::map<std::string, std::string>& metadata,
                              const Interrupt* interrupt) {
  MILLRACE_RETURN_IF_ERROR(CheckTensors(path, tensors));
  MILLRACE_ASSIGN_OR_RETURN(DurableFile file, DurableFile::Create(RealFileSystem(), path));
  MILLRACE_RETURN_IF_ERROR(file.Append(EncodeHeader(tensors, metadata)));
  for (const Tensor& tensor : tensors) {
    MILLRACE_RETURN_IF_ERROR(
        AppendAll(absl::string_view(reinterpret_cast<const char*>(tensor.values.data()),
                                    tensor.values.size() * sizeof(float)),
                  interrupt, &file));
  }
  return file.Commit();
}

absl::StatusOr<SafetensorsFile> ReadSafetensors(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  MILLRACE_ASSIGN_OR_RETURN(const std::string header, ReadHeader(path, file));
  SafetensorsFile result;
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<Entry> entries,
                            ParseHeader(path, header, &result.metadata));
  const uint64_t expected = entries.empty() ? 0 : entries.back().end;
  if (const uint64_t found = RemainingBytes(file); found != expected) {
    return BadFile(path, absl::StrCat(found, " bytes of values where the header says ", expected));
  }
  for (const Entry& entry : entries) {
    Tensor tensor{entry.name, entry.shape, {}};
    tensor.values.resize((entry.end - entry.begin) / sizeof(float));
    if (!file.read(reinterpret_cast<char*>(tensor.values.data()),
                   static_cast<std::streamsize>(entry.end - entry.begin))) {
      return absl::DataLossError(absl::StrCat("cannot read tensor '", entry.name, "' of ", path));
    }
    result.tensors.push_back(std::move(tensor));
  }
  return result;
}

}  // namespace millrace::client
