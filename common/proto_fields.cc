#include "common/proto_fields.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "google/protobuf/unknown_field_set.h"

namespace millrace {
namespace {

using ::google::protobuf::Descriptor;
using ::google::protobuf::EnumDescriptor;
using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;
using ::google::protobuf::OneofDescriptor;
using ::google::protobuf::Reflection;

std::string Child(absl::string_view path, absl::string_view name) {
  return path.empty() ? std::string(name) : absl::StrCat(path, ".", name);
}

absl::Status CheckEnum(int number, const EnumDescriptor* descriptor, absl::string_view path) {
  if (descriptor->FindValueByNumber(number) != nullptr) return absl::OkStatus();
  return FieldError(path, absl::StrCat(number), absl::StrCat("one of ", ValueNames(descriptor)));
}

absl::Status CheckMessage(const Message& message, absl::string_view subject,
                          absl::string_view path);

// One value of a field: the only one, or (index >= 0) an element.
absl::Status CheckValue(const Message& message, const FieldDescriptor* field, int index,
                        absl::string_view subject, absl::string_view path) {
  const Reflection* reflection = message.GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return CheckMessage(index < 0 ? reflection->GetMessage(message, field)
                                    : reflection->GetRepeatedMessage(message, field, index),
                          subject, path);
    case FieldDescriptor::CPPTYPE_ENUM:
      return CheckEnum(index < 0 ? reflection->GetEnumValue(message, field)
                                 : reflection->GetRepeatedEnumValue(message, field, index),
                       field->enum_type(), path);
    default:
      return absl::OkStatus();
  }
}

absl::Status CheckMessage(const Message& message, absl::string_view subject,
                          absl::string_view path) {
  const Reflection* reflection = message.GetReflection();
  const auto& unknown = reflection->GetUnknownFields(message);
  if (!unknown.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        subject, " has unknown field ", unknown.field(0).number(), path.empty() ? "" : " in ", path,
        "; this program is older than the one that wrote it, or another .proto was used"));
  }
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const std::string field_path = Child(path, field->name());
    if (!field->is_repeated()) {
      MILLRACE_RETURN_IF_ERROR(CheckValue(message, field, /*index=*/-1, subject, field_path));
      continue;
    }
    for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
      MILLRACE_RETURN_IF_ERROR(
          CheckValue(message, field, i, subject, absl::StrCat(field_path, "[", i, "]")));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status FieldError(absl::string_view path, absl::string_view value,
                        absl::string_view allowed) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", value, "; must be ", allowed));
}

std::string FieldNames(const Descriptor* descriptor) {
  std::vector<std::string> names;
  for (int i = 0; i < descriptor->field_count(); ++i) names.push_back(descriptor->field(i)->name());
  return absl::StrJoin(names, ", ");
}

std::string ValueNames(const EnumDescriptor* descriptor) {
  std::vector<std::string> names;
  for (int i = 0; i < descriptor->value_count(); ++i) {
    const std::string& name = descriptor->value(i)->name();
    if (!absl::EndsWith(name, "_UNSPECIFIED")) names.push_back(name);
  }
  return absl::StrJoin(names, ", ");
}

std::string Choice(const google::protobuf::OneofDescriptor* descriptor) {
  std::string names = descriptor->field(0)->name();
  for (int i = 1; i < descriptor->field_count(); ++i) {
    const bool last = i + 1 == descriptor->field_count();
    absl::StrAppend(&names, last ? " or " : ", ", descriptor->field(i)->name());
  }
  return names;
}

absl::Status CheckAllKnown(const Message& message, absl::string_view subject) {
  return CheckMessage(message, subject, /*path=*/"");
}

}  // namespace millrace
