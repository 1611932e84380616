// Programs of other versions send and have written what fields.txt lists. What is there stays: a
// field keeps its number, its type and whether it is repeated, or its number and its name are
// reserved; a value of an enum and a method of a service stay too. What is new is added to the
// list: the test prints its line.
#include <fstream>
#include <map>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/journal/job_record.pb.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "protos/checkpoint.pb.h"
#include "protos/cluster.pb.h"
#include "protos/job.pb.h"
#include "protos/parameter_server.pb.h"
#include "ps/cut/cut_record.pb.h"

namespace millrace {
namespace {

namespace pb = ::google::protobuf;

constexpr char kFields[] = "testing/formats/fields.txt";

// By name: "millrace.JobSpec.seed" to "7 optional uint64".
using Fields = std::map<std::string, std::string>;

std::string TypeOf(const pb::FieldDescriptor& field) {
  if (field.message_type() != nullptr) return field.message_type()->full_name();
  if (field.enum_type() != nullptr) return field.enum_type()->full_name();
  return field.type_name();
}

void AddEnum(const pb::EnumDescriptor& type, Fields* fields) {
  for (int i = 0; i < type.value_count(); ++i) {
    (*fields)[absl::StrCat(type.full_name(), ".", type.value(i)->name())] =
        absl::StrCat(type.value(i)->number());
  }
}

void AddMessage(const pb::Descriptor& message, Fields* fields) {
  for (int i = 0; i < message.field_count(); ++i) {
    const pb::FieldDescriptor& field = *message.field(i);
    (*fields)[field.full_name()] =
        absl::StrCat(field.number(), field.is_repeated() ? " repeated " : " ", TypeOf(field));
  }
  for (int i = 0; i < message.nested_type_count(); ++i) AddMessage(*message.nested_type(i), fields);
  for (int i = 0; i < message.enum_type_count(); ++i) AddEnum(*message.enum_type(i), fields);
}

void AddService(const pb::ServiceDescriptor& service, Fields* fields) {
  for (int i = 0; i < service.method_count(); ++i) {
    const pb::MethodDescriptor& method = *service.method(i);
    (*fields)[method.full_name()] = absl::StrCat(
        method.client_streaming() ? "stream " : "", method.input_type()->full_name(), " -> ",
        method.server_streaming() ? "stream " : "", method.output_type()->full_name());
  }
}

// And of all that it imports of ours.
void AddFile(const pb::FileDescriptor& file, Fields* fields) {
  if (!absl::StartsWith(file.package(), "millrace")) return;
  for (int i = 0; i < file.message_type_count(); ++i) AddMessage(*file.message_type(i), fields);
  for (int i = 0; i < file.enum_type_count(); ++i) AddEnum(*file.enum_type(i), fields);
  for (int i = 0; i < file.service_count(); ++i) AddService(*file.service(i), fields);
  for (int i = 0; i < file.dependency_count(); ++i) AddFile(*file.dependency(i), fields);
}

// Whether a field that is gone cannot come back as another one.
bool IsReserved(const std::string& name, const std::string& what) {
  const size_t dot = name.rfind('.');
  const pb::Descriptor* const message =
      pb::DescriptorPool::generated_pool()->FindMessageTypeByName(name.substr(0, dot));
  return message != nullptr && message->IsReservedNumber(std::stoi(what)) &&
         message->IsReservedName(name.substr(dot + 1));
}

TEST(FieldsTest, WhatWasThereStaysAndWhatIsNewIsListed) {
  Fields now;
  for (const pb::Descriptor* message :
       {JobSpec::descriptor(), MemberMessage::descriptor(), CheckpointManifest::descriptor(),
        PushRequest::descriptor(), coordinator::JobRecord::descriptor(),
        ps::ShardRecord::descriptor()}) {
    AddFile(*message->file(), &now);
  }
  std::ifstream file(kFields);
  ASSERT_TRUE(file.good()) << kFields;
  Fields listed;
  for (std::string line; std::getline(file, line);) {
    const size_t space = line.find(' ');
    ASSERT_NE(space, std::string::npos) << line;
    listed[line.substr(0, space)] = line.substr(space + 1);
  }
  for (const auto& [name, what] : listed) {
    const auto found = now.find(name);
    if (found == now.end()) {
      EXPECT_TRUE(IsReserved(name, what)) << name << " " << what << " is gone and not reserved";
    } else {
      EXPECT_EQ(found->second, what) << name << " has changed";
    }
  }
  for (const auto& [name, what] : now) {
    EXPECT_TRUE(listed.count(name)) << "new, to be added to " << kFields << ":\n"
                                    << name << " " << what;
  }
}

}  // namespace
}  // namespace millrace
