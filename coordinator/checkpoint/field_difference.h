// Where two messages of one type differ first.
#ifndef MILLRACE_COORDINATOR_CHECKPOINT_FIELD_DIFFERENCE_H_
#define MILLRACE_COORDINATOR_CHECKPOINT_FIELD_DIFFERENCE_H_

#include <string>

#include "absl/types/optional.h"
#include "google/protobuf/message.h"

namespace millrace::coordinator {

struct FieldDifference {
  std::string path;  // "model.layers[2].dense.units"
  std::string a;     // The values, as text format has them; "unset"; of a oneof the member's name.
  std::string b;
};

// In the order of the fields' declaration. Nothing: they are equal. REQUIRES: both are of one type.
absl::optional<FieldDifference> FindDifference(const google::protobuf::Message& a,
                                               const google::protobuf::Message& b,
                                               const std::string& path);

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_CHECKPOINT_FIELD_DIFFERENCE_H_
