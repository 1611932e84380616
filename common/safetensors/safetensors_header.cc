// A header comes from anywhere and may be 100 MB of anything. It is parsed as it is read, into
// entries and nothing else: no tree of it is built, and nothing nests deeper than the format does.
#include "common/safetensors/safetensors_header.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"

namespace millrace {
namespace {

static_assert(std::endian::native == std::endian::little,
              "values are written as they are in memory");

constexpr size_t kHeaderAlignment = 8;
constexpr size_t kMaxRank = 64;
constexpr char kMetadataKey[] = "__metadata__";

absl::Status BadHeader(const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": not a safetensors file: ", what));
}

absl::Status BadTensor(const std::string& path, absl::string_view name, absl::string_view what) {
  return BadHeader(path, absl::StrCat("tensor '", PrintableName(name), "': ", what));
}

// Of so many elements; nothing when they do not fill whole bytes.
absl::optional<uint64_t> BytesOf(uint64_t elements, uint64_t bits) {
  if (bits % 8 == 0) return elements * (bits / 8);
  if (elements * bits % 8 != 0) return absl::nullopt;
  return elements * bits / 8;
}

// What the parser is in.
enum class In { kNothing, kHeader, kMetadata, kTensor, kShape, kOffsets };

// Each function is called with what comes next, and says whether that is possible there.
class HeaderParser final : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderParser(const std::string& path, SafetensorsHeader* header) : path_(path), header_(header) {}

  const absl::Status& status() const { return status_; }

  bool null() override { return Refuse("null"); }
  bool boolean(bool /*value*/) override { return Refuse("a boolean"); }
  bool number_integer(number_integer_t /*value*/) override { return Refuse("a negative number"); }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override {
    return Refuse("a number that is not whole, or past 64 bits");
  }
  bool binary(binary_t& /*value*/) override { return Refuse("bytes"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (in_ == In::kShape) {
      if (tensor_.shape.size() == kMaxRank) return Fail("more than 64 dimensions");
      tensor_.shape.push_back(value);
      return true;
    }
    if (in_ != In::kOffsets) return Refuse("a number");
    if (offsets_ == 2) return Fail("data_offsets must be two numbers");
    (offsets_++ == 0 ? tensor_.begin : tensor_.end) = value;
    return true;
  }

  bool string(string_t& text) override {
    if (in_ == In::kMetadata) {
      if (!header_->metadata.emplace(std::move(key_), std::move(text)).second) {
        return Fail("__metadata__ has a key twice");
      }
      return true;
    }
    if (in_ != In::kTensor || key_ != "dtype") return Refuse("a string");
    tensor_.dtype = std::move(text);
    return true;
  }

  bool start_object(std::size_t /*elements*/) override {
    if (in_ == In::kNothing && !done_) {
      in_ = In::kHeader;
    } else if (in_ == In::kHeader) {
      in_ = key_ == kMetadataKey ? In::kMetadata : In::kTensor;
    } else {
      return Refuse("an object");
    }
    return true;
  }

  bool key(string_t& key) override {
    key_ = std::move(key);
    if (in_ == In::kHeader) {
      if (!names_.insert(key_).second) {
        tensor_.name = key_;
        return Fail("it is there twice");
      }
      tensor_ = {};
      tensor_.name = key_;
      fields_.clear();
      offsets_ = 0;
    } else if (in_ == In::kTensor) {
      if (key_ != "dtype" && key_ != "shape" && key_ != "data_offsets") {
        return Fail(absl::StrCat("an unknown field '", PrintableName(key_), "'"));
      }
      if (!fields_.insert(key_).second) return Fail(absl::StrCat(key_, " is there twice"));
    }
    return true;
  }

  bool end_object() override {
    if (in_ == In::kHeader) {
      in_ = In::kNothing;
      done_ = true;
      return true;
    }
    const bool is_tensor = in_ == In::kTensor;
    in_ = In::kHeader;
    return !is_tensor || TakeTensor();
  }

  bool start_array(std::size_t /*elements*/) override {
    if (in_ != In::kTensor || key_ == "dtype") return Refuse("an array");
    in_ = key_ == "shape" ? In::kShape : In::kOffsets;
    return true;
  }

  bool end_array() override {
    in_ = In::kTensor;
    return true;
  }

  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    if (status_.ok()) {
      status_ = BadHeader(path_, absl::StrCat("the header is no JSON object: see its byte ",
                                              position == 0 ? 0 : position - 1));
    }
    return false;
  }

 private:
  bool TakeTensor() {
    for (const char* field : {"dtype", "shape", "data_offsets"}) {
      if (!fields_.contains(field)) return Fail(absl::StrCat("no ", field));
    }
    const absl::optional<uint64_t> bits = SafetensorsBits(tensor_.dtype);
    if (!bits.has_value()) {
      return Fail(absl::StrCat("dtype '", PrintableName(tensor_.dtype), "' is unknown"));
    }
    if (offsets_ != 2) return Fail("data_offsets must be two numbers");
    const absl::optional<uint64_t> elements = ElementsOf(tensor_.shape);
    if (!elements.has_value() || tensor_.end < tensor_.begin ||
        BytesOf(*elements, *bits) != tensor_.end - tensor_.begin) {
      return Fail("data_offsets do not fit the shape");
    }
    header_->tensors.push_back(std::move(tensor_));
    return true;
  }

  bool Refuse(absl::string_view found) {
    switch (in_) {
      case In::kNothing:
        status_ = BadHeader(path_, "the header is not a JSON object");
        return false;
      case In::kMetadata:
        status_ = BadHeader(path_, "__metadata__ holds other than strings");
        return false;
      case In::kShape:
        return Fail(absl::StrCat("shape: must be whole numbers of at least 0; it has ", found));
      case In::kOffsets:
        return Fail(
            absl::StrCat("data_offsets: must be whole numbers of at least 0; it has ", found));
      case In::kTensor:
        return Fail(absl::StrCat(PrintableName(key_), " is ", found));
      case In::kHeader:
        break;
    }
    return Fail(absl::StrCat("it is ", found));
  }

  bool Fail(absl::string_view what) {
    status_ = BadTensor(path_, tensor_.name, what);
    return false;
  }

  const std::string& path_;
  SafetensorsHeader* const header_;
  absl::Status status_;
  In in_ = In::kNothing;
  bool done_ = false;
  std::string key_;
  SafetensorsEntry tensor_;
  int offsets_ = 0;
  absl::flat_hash_set<std::string> fields_;
  absl::flat_hash_set<std::string> names_;
};

// Puts the tensors in order; they must lie one after the other.
absl::Status CheckOrder(const std::string& path, SafetensorsHeader* header) {
  std::sort(header->tensors.begin(), header->tensors.end(),
            [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
              return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
            });
  uint64_t expected = 0;
  for (const SafetensorsEntry& tensor : header->tensors) {
    if (tensor.begin != expected) {
      return BadHeader(path, absl::StrCat("tensor '", PrintableName(tensor.name), "' starts at ",
                                          tensor.begin, " where ", expected, " is expected"));
    }
    expected = tensor.end;
  }
  return absl::OkStatus();
}

// As a JSON string. Nothing: it is not UTF-8.
absl::optional<std::string> JsonString(const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    return absl::nullopt;
  }
}

absl::Status AppendMetadata(const std::string& path,
                            const std::map<std::string, std::string>& metadata, std::string* json) {
  absl::StrAppend(json, "\"", kMetadataKey, "\":{");
  absl::string_view separator = "";
  for (const auto& [key, value] : metadata) {
    const absl::optional<std::string> key_text = JsonString(key);
    const absl::optional<std::string> value_text = JsonString(value);
    if (!key_text.has_value() || !value_text.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": metadata '", PrintableName(key),
                                                     "': keys and values must be UTF-8"));
    }
    absl::StrAppend(json, separator, *key_text, ":", *value_text);
    separator = ",";
  }
  json->append("}");
  return absl::OkStatus();
}

// Sets its `end`.
absl::Status AppendTensor(const std::string& path, SafetensorsEntry* tensor, std::string* json) {
  const absl::optional<std::string> name = JsonString(tensor->name);
  if (!name.has_value() || tensor->name.empty() || tensor->name == kMetadataKey) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": tensor name '", PrintableName(tensor->name),
                     "': names must be UTF-8, not empty and not ", kMetadataKey));
  }
  const absl::optional<uint64_t> bits = SafetensorsBits(tensor->dtype);
  const absl::optional<uint64_t> elements = ElementsOf(tensor->shape);
  absl::optional<uint64_t> bytes;
  if (bits.has_value() && elements.has_value()) bytes = BytesOf(*elements, *bits);
  if (!bytes.has_value() || *bytes > std::numeric_limits<int64_t>::max() - tensor->begin) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": tensor '", PrintableName(tensor->name), "' cannot be ",
        PrintableName(tensor->dtype), " of shape [", absl::StrJoin(tensor->shape, ", "), "]"));
  }
  tensor->end = tensor->begin + *bytes;
  absl::StrAppend(json, *name, ":{\"dtype\":\"", tensor->dtype, "\",\"shape\":[",
                  absl::StrJoin(tensor->shape, ","), "],\"data_offsets\":[", tensor->begin, ",",
                  tensor->end, "]}");
  return absl::OkStatus();
}

}  // namespace

absl::optional<uint64_t> SafetensorsBits(absl::string_view dtype) {
  struct Type {
    const char* name;
    uint64_t bits;
  };
  static constexpr Type kTypes[] = {
      {"F32", 32},    {"F64", 64}, {"F16", 16}, {"BF16", 16},   {"BOOL", 8},
      {"U8", 8},      {"I8", 8},   {"U16", 16}, {"I16", 16},    {"U32", 32},
      {"I32", 32},    {"U64", 64}, {"I64", 64}, {"F8_E5M2", 8}, {"F8_E4M3", 8},
      {"F8_E8M0", 8}, {"C64", 64}, {"F4", 4},   {"F6_E2M3", 6}, {"F6_E3M2", 6},
  };
  for (const Type& type : kTypes) {
    if (dtype == type.name) return type.bits;
  }
  return absl::nullopt;
}

absl::optional<uint64_t> ElementsOf(absl::Span<const uint64_t> shape) {
  uint64_t elements = 1;
  for (uint64_t dimension : shape) {
    if (dimension != 0 && elements > std::numeric_limits<uint64_t>::max() / 8 / dimension) {
      return absl::nullopt;
    }
    elements *= dimension;
  }
  return elements;
}

absl::StatusOr<uint64_t> ParseSafetensorsLength(const std::string& path, absl::string_view bytes,
                                                uint64_t file_bytes) {
  if (bytes.size() < kSafetensorsLengthBytes || file_bytes < kSafetensorsLengthBytes) {
    return BadHeader(path, "shorter than 8 bytes");
  }
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kSafetensorsLengthBytes);
  if (length > kMaxSafetensorsHeaderBytes) {
    return BadHeader(path, absl::StrCat("a header of ", length, " bytes"));
  }
  if (length > file_bytes - kSafetensorsLengthBytes) {
    return BadHeader(path, "it ends within its header");
  }
  return length;
}

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(const std::string& path,
                                                         absl::string_view json,
                                                         uint64_t file_bytes) {
  SafetensorsHeader header;
  header.bytes = kSafetensorsLengthBytes + json.size();
  HeaderParser parser(path, &header);
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &parser)) return parser.status();
  MILLRACE_RETURN_IF_ERROR(CheckOrder(path, &header));
  const uint64_t found = file_bytes < header.bytes ? 0 : file_bytes - header.bytes;
  if (found != header.value_bytes()) {
    return BadHeader(
        path, absl::StrCat(found, " bytes of values where the header says ", header.value_bytes()));
  }
  return header;
}

absl::StatusOr<std::string> EncodeSafetensorsHeader(const std::string& path,
                                                    SafetensorsHeader* header) {
  std::string json = "{";
  if (!header->metadata.empty()) {
    MILLRACE_RETURN_IF_ERROR(AppendMetadata(path, header->metadata, &json));
  }
  absl::flat_hash_set<absl::string_view> names;
  uint64_t begin = 0;
  for (SafetensorsEntry& tensor : header->tensors) {
    if (!names.insert(tensor.name).second) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": tensor name '", PrintableName(tensor.name), "': names must be unique"));
    }
    if (json.size() > 1) json.append(",");
    tensor.begin = begin;
    MILLRACE_RETURN_IF_ERROR(AppendTensor(path, &tensor, &json));
    begin = tensor.end;
  }
  json.append("}");
  json.append((kHeaderAlignment - json.size() % kHeaderAlignment) % kHeaderAlignment, ' ');
  if (json.size() > kMaxSafetensorsHeaderBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", header->tensors.size(),
                                                   " tensors need a header of ", json.size(),
                                                   " bytes; at most ", kMaxSafetensorsHeaderBytes));
  }
  header->bytes = kSafetensorsLengthBytes + json.size();
  const uint64_t length = json.size();
  std::string bytes(kSafetensorsLengthBytes, '\0');
  std::memcpy(bytes.data(), &length, kSafetensorsLengthBytes);
  return bytes + json;
}

}  // namespace millrace
