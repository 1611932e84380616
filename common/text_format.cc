#include "common/text_format.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/proto_fields.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"

namespace millrace {
namespace {

// A place in a text, as the parser counts: from 0.
struct TextPlace {
  int line;
  int column;
};

size_t OffsetOf(absl::string_view text, TextPlace place) {
  size_t begin = 0;
  for (int line = 0; line < place.line; ++line) begin = text.find('\n', begin) + 1;
  return std::min(begin + place.column, text.size());
}

TextPlace PlaceOf(absl::string_view text, size_t offset) {
  const absl::string_view before = text.substr(0, offset);
  const size_t newline = before.rfind('\n');
  const size_t line_begin = newline == absl::string_view::npos ? 0 : newline + 1;
  return {static_cast<int>(std::count(before.begin(), before.end(), '\n')),
          static_cast<int>(offset - line_begin)};
}

// What the parser says of a field that a message has not got, with those that it has.
std::string WithFields(const std::string& message) {
  constexpr absl::string_view kBegin = "Message type \"", kEnd = "\" has no field named ";
  absl::string_view name = message;
  const size_t end = name.find(kEnd);
  if (!absl::ConsumePrefix(&name, kBegin) || end == absl::string_view::npos) return message;
  name = name.substr(0, end - kBegin.size());
  const auto* const type =
      google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(std::string(name));
  if (type == nullptr) return message;
  return absl::StrCat(message, " It has: ", FieldNames(type), ".");
}

class ErrorList final : public google::protobuf::io::ErrorCollector {
 public:
  // `text` must outlive the list.
  explicit ErrorList(absl::string_view text) : text_(text) {}

  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    if (line < 0) {  // The error belongs to the text as a whole.
      errors_.push_back({0, 0, message});
      return;
    }
    const TextPlace place = PlaceOfError({line, column}, message);
    errors_.push_back({place.line + 1, place.column + 1, WithFields(message)});
  }

  std::vector<TextFormatError> Take() { return std::move(errors_); }

 private:
  // Of an enum value that it does not know the parser gives the place of what follows it.
  TextPlace PlaceOfError(TextPlace reported, absl::string_view message) const {
    if (!absl::ConsumePrefix(&message, "Unknown enumeration value of \"")) return reported;
    const absl::string_view value = message.substr(0, message.find('"'));
    const size_t offset = text_.substr(0, OffsetOf(text_, reported)).rfind(value);
    return offset == absl::string_view::npos ? reported : PlaceOf(text_, offset);
  }

  const absl::string_view text_;
  std::vector<TextFormatError> errors_;
};

}  // namespace

std::vector<TextFormatError> ParseTextFormat(absl::string_view text,
                                             google::protobuf::Message* message) {
  ErrorList errors(text);
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  if (parser.ParseFromString(std::string(text), message)) return {};
  std::vector<TextFormatError> found = errors.Take();
  if (found.empty()) found.push_back({0, 0, "cannot be read"});
  return found;
}

}  // namespace millrace
