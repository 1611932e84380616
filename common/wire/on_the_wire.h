// The words at the end of a worker's numerics (JobPlan.numerics) that say how it rounds what it
// sends and takes.
#ifndef MILLRACE_COMMON_WIRE_ON_THE_WIRE_H_
#define MILLRACE_COMMON_WIRE_ON_THE_WIRE_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "protos/job.pb.h"

namespace millrace {

// "BFLOAT16 on the wire".
inline std::string OnTheWire(Encoding::Kind wire) {
  return absl::StrCat(Encoding::Kind_Name(wire), " on the wire");
}

// Whether `numerics` are these words, or end in ", " and them; it is then what stands before.
inline bool ConsumeOnTheWire(Encoding::Kind wire, absl::string_view* numerics) {
  const std::string words = OnTheWire(wire);
  if (*numerics != words) return absl::ConsumeSuffix(numerics, absl::StrCat(", ", words));
  *numerics = "";
  return true;
}

}  // namespace millrace

#endif  // MILLRACE_COMMON_WIRE_ON_THE_WIRE_H_
