// What a message's descriptor and reflection can tell users: names that are allowed, and fields or
// enum values that this program does not know.
#ifndef MILLRACE_COMMON_PROTO_FIELDS_H_
#define MILLRACE_COMMON_PROTO_FIELDS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace millrace {

// "PATH: VALUE; must be ALLOWED", as INVALID_ARGUMENT.
absl::Status FieldError(absl::string_view path, absl::string_view value, absl::string_view allowed);

// "name, model, data": the fields of a message in their order.
std::string FieldNames(const google::protobuf::Descriptor* descriptor);

// "RELU, SIGMOID": the values of an enum, without the one that means that nothing was set.
std::string ValueNames(const google::protobuf::EnumDescriptor* descriptor);

// "idx, libsvm or cifar": the members of a oneof, as a choice. REQUIRES: it has at least one.
std::string Choice(const google::protobuf::OneofDescriptor* descriptor);

// INVALID_ARGUMENT when `message` or any message in it has fields or enum values that this
// program's .proto files lack: their sender is newer, and what it asks for cannot be done.
// `subject` begins the sentence ("job").
absl::Status CheckAllKnown(const google::protobuf::Message& message, absl::string_view subject);

}  // namespace millrace

#endif  // MILLRACE_COMMON_PROTO_FIELDS_H_
