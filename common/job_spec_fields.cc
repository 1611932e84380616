// SetField: "PATH=VALUE" through protobuf reflection.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "common/job_spec.h"
#include "common/proto_duration.h"
#include "common/proto_fields.h"
#include "common/status_macros.h"
#include "common/text_format.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/message.h"

namespace millrace {
namespace {

using ::google::protobuf::EnumValueDescriptor;
using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;
using ::google::protobuf::Reflection;

// Where a path leads: a field of a message, or one of its elements.
struct FieldPlace {
  Message* message = nullptr;
  const FieldDescriptor* field = nullptr;
  int index = -1;  // -1: the field itself.
};

std::string Quote(absl::string_view value) { return absl::StrCat("'", value, "'"); }

// Finds the field that `part` ("layers[2]") names in `message`; `path` is the whole path so far, up
// to `part`, for messages.
absl::StatusOr<FieldPlace> FindPlace(Message* message, absl::string_view part,
                                     absl::string_view path) {
  FieldPlace place{message};
  const std::pair<absl::string_view, absl::string_view> name_and_index =
      absl::StrSplit(part, absl::MaxSplits('[', 1));
  place.field = message->GetDescriptor()->FindFieldByName(std::string(name_and_index.first));
  if (place.field == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": there is no such field; must be one of ", FieldNames(message->GetDescriptor())));
  }
  if (name_and_index.first.size() == part.size()) return place;
  if (!place.field->is_repeated()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": not a list; must have no index"));
  }
  absl::string_view digits = name_and_index.second;
  const int size = message->GetReflection()->FieldSize(*message, place.field);
  if (!absl::ConsumeSuffix(&digits, "]") || !absl::SimpleAtoi(digits, &place.index) ||
      place.index < 0 || place.index >= size) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": there is no such element; the list has ", size,
                     size == 0 ? "" : absl::StrCat(", [0] to [", size - 1, "]")));
  }
  return place;
}

absl::StatusOr<Message*> Enter(const FieldPlace& place, absl::string_view path) {
  if (place.field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": a value; it has no fields"));
  }
  const Reflection* reflection = place.message->GetReflection();
  if (!place.field->is_repeated()) return reflection->MutableMessage(place.message, place.field);
  const int size = reflection->FieldSize(*place.message, place.field);
  if (place.index < 0 && size == 0) return reflection->AddMessage(place.message, place.field);
  if (place.index < 0 && size > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": a list; must have the index of an element, as in ", path, "[0]"));
  }
  return reflection->MutableRepeatedMessage(place.message, place.field, std::max(place.index, 0));
}

// Follows `path` from `message`, making the messages on the way.
absl::StatusOr<FieldPlace> Resolve(absl::string_view path, Message* message) {
  size_t begin = 0;
  while (true) {
    const size_t end = std::min(path.find('.', begin), path.size());
    const absl::string_view so_far = path.substr(0, end);
    MILLRACE_ASSIGN_OR_RETURN(FieldPlace place, FindPlace(message, so_far.substr(begin), so_far));
    if (end == path.size()) return place;
    MILLRACE_ASSIGN_OR_RETURN(message, Enter(place, so_far));
    begin = end + 1;
  }
}

// Sets the value at a place, through the setter for single fields, for elements, or, for whole
// lists, by adding at the end. `Set##TYPE` and so on are protobuf's names.
#define MILLRACE_STORE(TYPE, value)                                                  \
  do {                                                                               \
    const Reflection* reflection = place.message->GetReflection();                   \
    if (!place.field->is_repeated()) {                                               \
      reflection->Set##TYPE(place.message, place.field, value);                      \
    } else if (place.index >= 0) {                                                   \
      reflection->SetRepeated##TYPE(place.message, place.field, place.index, value); \
    } else {                                                                         \
      reflection->Add##TYPE(place.message, place.field, value);                      \
    }                                                                                \
  } while (false)

absl::Status StoreEnum(const FieldPlace& place, absl::string_view path, absl::string_view text) {
  const EnumValueDescriptor* value =
      place.field->enum_type()->FindValueByName(absl::AsciiStrToUpper(text));
  if (value == nullptr) {
    return FieldError(path, Quote(text),
                      absl::StrCat("one of ", ValueNames(place.field->enum_type())));
  }
  MILLRACE_STORE(Enum, value);
  return absl::OkStatus();
}

absl::Status StoreScalar(const FieldPlace& place, absl::string_view path, absl::string_view text) {
  switch (place.field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32: {
      uint32_t value;
      if (!absl::SimpleAtoi(text, &value)) {
        return FieldError(path, Quote(text), "a whole number from 0 to 4294967295");
      }
      MILLRACE_STORE(UInt32, value);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_INT32: {
      int32_t value;
      if (!absl::SimpleAtoi(text, &value)) {
        return FieldError(path, Quote(text), "a whole number from -2147483648 to 2147483647");
      }
      MILLRACE_STORE(Int32, value);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_INT64: {
      int64_t value;
      if (!absl::SimpleAtoi(text, &value)) {
        return FieldError(path, Quote(text),
                          "a whole number from -9223372036854775808 to 9223372036854775807");
      }
      MILLRACE_STORE(Int64, value);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_UINT64: {
      uint64_t value;
      if (!absl::SimpleAtoi(text, &value)) {
        return FieldError(path, Quote(text), "a whole number from 0 to 18446744073709551615");
      }
      MILLRACE_STORE(UInt64, value);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_FLOAT: {
      float value;
      if (!absl::SimpleAtof(text, &value)) return FieldError(path, Quote(text), "a number");
      MILLRACE_STORE(Float, value);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      double value;
      if (!absl::SimpleAtod(text, &value)) return FieldError(path, Quote(text), "a number");
      MILLRACE_STORE(Double, value);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_BOOL: {
      if (text != "true" && text != "false") return FieldError(path, Quote(text), "true or false");
      MILLRACE_STORE(Bool, text == "true");
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_STRING:
      MILLRACE_STORE(String, std::string(text));
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_ENUM:
      return StoreEnum(place, path, text);
    default:
      return absl::InternalError(
          absl::StrCat(path, ": fields of type ", place.field->type_name(), " cannot be set"));
  }
}

#undef MILLRACE_STORE

absl::Status StoreDuration(Message* message, absl::string_view path, absl::string_view text) {
  absl::Duration duration;
  if (!absl::ParseDuration(text, &duration) ||
      absl::AbsDuration(duration) > absl::Seconds(kMaxDurationSeconds)) {
    return FieldError(path, Quote(text), kDurationAsText);
  }
  google::protobuf::Duration proto = ToProto(duration);
  message->GetReflection()->Swap(message, &proto);
  return absl::OkStatus();
}

absl::Status StoreMessage(Message* message, absl::string_view path, absl::string_view text) {
  if (message->GetDescriptor() == google::protobuf::Duration::descriptor()) {
    return StoreDuration(message, path, text);
  }
  absl::string_view fields = text;
  if (!absl::ConsumePrefix(&fields, "{") || !absl::ConsumeSuffix(&fields, "}")) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": a message; must be set by its fields (",
                                                   FieldNames(message->GetDescriptor()),
                                                   "), or as a whole in braces"));
  }
  const std::vector<TextFormatError> errors = ParseTextFormat(fields, message);
  if (!errors.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", Quote(text), ": ", errors.front().message));
  }
  return absl::OkStatus();
}

absl::Status Store(const FieldPlace& place, absl::string_view path, absl::string_view text) {
  if (place.field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    MILLRACE_ASSIGN_OR_RETURN(Message * message, Enter(place, path));
    return StoreMessage(message, path, text);
  }
  if (!place.field->is_repeated() || place.index >= 0) return StoreScalar(place, path, text);
  place.message->GetReflection()->ClearField(place.message, place.field);
  if (text.empty()) return absl::OkStatus();
  for (absl::string_view element : absl::StrSplit(text, ',')) {
    MILLRACE_RETURN_IF_ERROR(StoreScalar(place, path, absl::StripAsciiWhitespace(element)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status SetField(absl::string_view assignment, JobSpec* spec) {
  const size_t equals = assignment.find('=');
  if (equals == absl::string_view::npos || equals == 0) {
    return FieldError(assignment, equals == 0 ? "no path" : "no value",
                      "written PATH=VALUE, such as batch_size=64");
  }
  const absl::string_view path = assignment.substr(0, equals);
  JobSpec changed = *spec;
  MILLRACE_ASSIGN_OR_RETURN(const FieldPlace place, Resolve(path, &changed));
  MILLRACE_RETURN_IF_ERROR(Store(place, path, assignment.substr(equals + 1)));
  *spec = std::move(changed);
  return absl::OkStatus();
}

}  // namespace millrace
