// The format: numpy.lib.format of NumPy. A header is a Python dictionary as text; what is read here
// is what NumPy writes, with spaces wherever Python allows them.
#include "worker/input/npy_header.h"

#include <algorithm>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/printable.h"
#include "common/status_macros.h"

namespace millrace::worker {
namespace {

constexpr uint64_t kMaxNpyHeaderBytes = 64 << 10;
constexpr size_t kMaxNpyDimensions = 64;
constexpr uint64_t kMaxNpyRowElements = uint64_t{1} << 28;

// Takes one thing after the other off a text.
class NpyText {
 public:
  explicit NpyText(absl::string_view rest) : rest_(rest) {}

  // Whether `token` was next.
  bool Take(absl::string_view token) {
    SkipSpaces();
    return absl::ConsumePrefix(&rest_, token);
  }

  // What is in quotes; false: no quotes are next.
  bool TakeString(std::string* text) {
    SkipSpaces();
    if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"')) return false;
    const size_t end = rest_.find(rest_[0], 1);
    if (end == absl::string_view::npos) return false;
    *text = std::string(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return true;
  }

  bool TakeNumber(uint64_t* number) {
    SkipSpaces();
    size_t length = 0;
    while (length < rest_.size() && rest_[length] >= '0' && rest_[length] <= '9') ++length;
    if (!absl::SimpleAtoi(rest_.substr(0, length), number)) return false;
    rest_.remove_prefix(length);
    Take("L");  // As Python 2 wrote them.
    return true;
  }

  bool AtEnd() {
    SkipSpaces();
    return rest_.empty();
  }

 private:
  void SkipSpaces() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n')) rest_.remove_prefix(1);
  }

  absl::string_view rest_;
};

struct NpyDictionary {
  std::string descr;
  bool fortran_order = false;
  std::vector<uint64_t> shape;
};

bool TakeShape(NpyText* text, std::vector<uint64_t>* shape) {
  if (!text->Take("(")) return false;
  while (!text->Take(")")) {
    uint64_t dimension;
    if (!text->TakeNumber(&dimension) || shape->size() == kMaxNpyDimensions) return false;
    shape->push_back(dimension);
    if (text->Take(",")) continue;
    return text->Take(")");
  }
  return true;
}

bool TakeValue(const std::string& key, NpyText* text, NpyDictionary* dictionary) {
  if (key == "descr") return text->TakeString(&dictionary->descr);
  if (key == "shape") return TakeShape(text, &dictionary->shape);
  if (key != "fortran_order") return false;
  dictionary->fortran_order = text->Take("True");
  return dictionary->fortran_order || text->Take("False");
}

// "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }"; false: it is anything else.
bool ParseDictionary(NpyText text, NpyDictionary* dictionary) {
  std::vector<std::string> keys;
  if (!text.Take("{")) return false;
  while (!text.Take("}")) {
    std::string key;
    if (!text.TakeString(&key) || !text.Take(":") || !TakeValue(key, &text, dictionary)) {
      return false;
    }
    keys.push_back(key);
    if (text.Take(",")) continue;
    if (!text.Take("}")) return false;
    break;
  }
  std::sort(keys.begin(), keys.end());
  return text.AtEnd() && keys == std::vector<std::string>{"descr", "fortran_order", "shape"};
}

// "<f4"; false: no type that is known here.
bool ParseType(absl::string_view descr, NpyType* type) {
  if (!descr.empty() && absl::string_view("<>=|").find(descr[0]) != absl::string_view::npos) {
    type->big_endian = descr[0] == '>';
    descr.remove_prefix(1);
  }
  if (descr.size() != 2) return false;
  type->kind = descr[0];
  type->bytes = static_cast<uint32_t>(descr[1] - '0');
  if (type->bytes == 1) type->big_endian = false;
  switch (type->kind) {
    case 'b':
      return type->bytes == 1;
    case 'f':
      return type->bytes == 2 || type->bytes == 4 || type->bytes == 8;
    case 'i':
    case 'u':
      return type->bytes == 1 || type->bytes == 2 || type->bytes == 4 || type->bytes == 8;
    default:
      return false;
  }
}

absl::StatusOr<std::string> ReadHeaderText(absl::string_view magic, ByteStream* stream) {
  if (magic.size() < kNpyMagicBytes || magic.substr(0, 6) != "\x93NUMPY") {
    return stream->Error("not an array of NumPy: it does not begin as a .npy file");
  }
  const int version = magic[6];
  if (version < 1 || version > 3) {
    return stream->Error(
        absl::StrCat("of version ", version, " of .npy; versions 1 to 3 are known"));
  }
  std::string size_bytes;
  MILLRACE_RETURN_IF_ERROR(ReadUpTo(stream, version == 1 ? 2 : 4, &size_bytes));
  uint64_t size = 0;
  for (size_t i = size_bytes.size(); i-- > 0;) {
    size = size << 8 | static_cast<uint8_t>(size_bytes[i]);
  }
  if (size > kMaxNpyHeaderBytes) {
    return stream->Error(absl::StrCat("a header of ", size, " bytes at offset 8; at most ",
                                      kMaxNpyHeaderBytes, " are allowed"));
  }
  std::string text;
  MILLRACE_RETURN_IF_ERROR(ReadUpTo(stream, size, &text));
  if (text.size() == size && size > 0) return text;
  return stream->Error(
      absl::StrCat("truncated at offset ", stream->offset(), ", within its header"));
}

absl::StatusOr<NpyHeader> CheckArray(const NpyDictionary& dictionary, const ByteStream& stream) {
  NpyHeader header;
  if (!ParseType(dictionary.descr, &header.type)) {
    return stream.Error(
        absl::StrCat("elements of type '", Printable(dictionary.descr),
                     "'; must be booleans, integers of 8 to 64 bits or floats of 16 to 64 bits"));
  }
  const std::string shape = absl::StrCat("[", absl::StrJoin(dictionary.shape, ", "), "]");
  if (dictionary.shape.empty()) {
    return stream.Error("one number without a shape; its first dimension must be the examples");
  }
  header.rows = dictionary.shape[0];
  header.row_shape.assign(dictionary.shape.begin() + 1, dictionary.shape.end());
  for (const uint64_t dimension : header.row_shape) {
    if (dimension == 0 || dimension > kMaxNpyRowElements / header.row_elements) {
      return stream.Error(
          absl::StrCat("of shape ", shape, "; a row has 1 to ", kMaxNpyRowElements, " elements"));
    }
    header.row_elements *= dimension;
  }
  constexpr uint64_t kMaxBytes = std::numeric_limits<int64_t>::max();
  if (header.rows == 0 || header.rows > kMaxBytes / header.row_bytes()) {
    return stream.Error(
        absl::StrCat("of shape ", shape, "; has to have rows, and below 2^63 bytes"));
  }
  // One-dimensional arrays are in both orders.
  header.fortran_order = dictionary.fortran_order && !header.row_shape.empty();
  return header;
}

}  // namespace

absl::StatusOr<NpyHeader> ReadNpyHeader(absl::string_view magic, ByteStream* stream) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, ReadHeaderText(magic, stream));
  NpyDictionary dictionary;
  if (!ParseDictionary(NpyText(text), &dictionary)) {
    return stream->Error(
        "its header is not of a plain array: only 'descr' with one type, 'fortran_order' and "
        "'shape' are known");
  }
  return CheckArray(dictionary, *stream);
}

std::string Describe(const NpyHeader& header) {
  const char* const kind = header.type.kind == 'f'   ? "float"
                           : header.type.kind == 'i' ? "int"
                           : header.type.kind == 'u' ? "uint"
                                                     : "bool";
  std::string shape = absl::StrCat(header.rows);
  for (const uint64_t dimension : header.row_shape) absl::StrAppend(&shape, ", ", dimension);
  return absl::StrCat(kind, header.type.kind == 'b' ? 8 : 8 * header.type.bytes, " [", shape, "]");
}

}  // namespace millrace::worker
