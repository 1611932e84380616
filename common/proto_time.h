// Protobuf's timestamps and Abseil's times.
#ifndef MILLRACE_COMMON_PROTO_TIME_H_
#define MILLRACE_COMMON_PROTO_TIME_H_

#include <cstdint>

#include "absl/time/time.h"
#include "google/protobuf/timestamp.pb.h"

namespace millrace {

// REQUIRES: a finite time.
inline google::protobuf::Timestamp ToTimestamp(absl::Time time) {
  google::protobuf::Timestamp proto;
  const int64_t seconds = absl::ToUnixSeconds(time);  // Rounded down.
  proto.set_seconds(seconds);
  proto.set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(time - absl::FromUnixSeconds(seconds))));
  return proto;
}

inline absl::Time FromTimestamp(const google::protobuf::Timestamp& proto) {
  return absl::FromUnixSeconds(proto.seconds()) + absl::Nanoseconds(proto.nanos());
}

}  // namespace millrace

#endif  // MILLRACE_COMMON_PROTO_TIME_H_
