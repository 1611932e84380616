#include "coordinator/checkpoint/field_difference.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/message_differencer.h"

namespace millrace::coordinator {
namespace {

using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;
using ::google::protobuf::OneofDescriptor;
using ::google::protobuf::TextFormat;

// `index`: of a list's element; -1: the field is no list.
std::string ValueOf(const Message& message, const FieldDescriptor* field, int index) {
  if (index < 0 && field->has_presence() && !message.GetReflection()->HasField(message, field)) {
    return "unset";
  }
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) return "set";
  std::string text;
  TextFormat::PrintFieldValueToString(message, field, index, &text);
  return text;
}

const Message& MessageOf(const Message& message, const FieldDescriptor* field, int index) {
  return index < 0 ? message.GetReflection()->GetMessage(message, field)
                   : message.GetReflection()->GetRepeatedMessage(message, field, index);
}

absl::optional<FieldDifference> FindInValue(const Message& a, const Message& b,
                                            const FieldDescriptor* field, int index,
                                            const std::string& path) {
  const std::string value_a = ValueOf(a, field, index);
  const std::string value_b = ValueOf(b, field, index);
  if (value_a != value_b) return FieldDifference{path, value_a, value_b};
  if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || value_a == "unset") {
    return absl::nullopt;
  }
  return FindDifference(MessageOf(a, field, index), MessageOf(b, field, index), path);
}

absl::optional<FieldDifference> FindInList(const Message& a, const Message& b,
                                           const FieldDescriptor* field, const std::string& path) {
  const int size_a = a.GetReflection()->FieldSize(a, field);
  const int size_b = b.GetReflection()->FieldSize(b, field);
  for (int i = 0; i < std::min(size_a, size_b); ++i) {
    auto found = FindInValue(a, b, field, i, absl::StrCat(path, "[", i, "]"));
    if (found) return found;
  }
  if (size_a == size_b) return absl::nullopt;
  return FieldDifference{path, absl::StrCat(size_a, " of them"), absl::StrCat(size_b, " of them")};
}

std::string MemberOf(const Message& message, const OneofDescriptor* oneof) {
  const FieldDescriptor* member = message.GetReflection()->GetOneofFieldDescriptor(message, oneof);
  return member == nullptr ? "unset" : member->name();
}

}  // namespace

absl::optional<FieldDifference> FindDifference(const Message& a, const Message& b,
                                               const std::string& path) {
  CHECK(a.GetDescriptor() == b.GetDescriptor());
  for (int i = 0; i < a.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* field = a.GetDescriptor()->field(i);
    if (const OneofDescriptor* oneof = field->real_containing_oneof()) {
      const std::string member_a = MemberOf(a, oneof);
      const std::string member_b = MemberOf(b, oneof);
      if (member_a != member_b) return FieldDifference{path, member_a, member_b};
    }
    const std::string field_path = path.empty() ? field->name() : path + "." + field->name();
    auto found = field->is_repeated() ? FindInList(a, b, field, field_path)
                                      : FindInValue(a, b, field, /*index=*/-1, field_path);
    if (found) return found;
  }
  return absl::nullopt;
}

}  // namespace millrace::coordinator
