// Protobuf's text format, read for people who make mistakes in it.
#ifndef MILLRACE_COMMON_TEXT_FORMAT_H_
#define MILLRACE_COMMON_TEXT_FORMAT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace millrace {

// What is wrong with a text, and where: lines and columns count from 1. `line` is 0 where it is the
// text as a whole.
struct TextFormatError {
  int line = 0;
  int column = 0;
  std::string message;
};

// Adds the fields of `text` to `message`. What is wrong, in the order of the text; nothing if all
// is well. A field that a message has not got is answered with those that it has. `message` holds a
// part of the text if anything is wrong.
std::vector<TextFormatError> ParseTextFormat(absl::string_view text,
                                             google::protobuf::Message* message);

}  // namespace millrace

#endif  // MILLRACE_COMMON_TEXT_FORMAT_H_
