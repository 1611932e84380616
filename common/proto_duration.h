// Protobuf's durations and Abseil's.
#ifndef MILLRACE_COMMON_PROTO_DURATION_H_
#define MILLRACE_COMMON_PROTO_DURATION_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"

namespace millrace {

// The longest duration that protobuf defines: 10,000 years.
inline constexpr int64_t kMaxDurationSeconds = 315'576'000'000;

// What must be written for absl::ParseDuration, for messages.
inline constexpr absl::string_view kDurationAsText =
    "a duration with its unit, such as 90s, 500ms or 1h30m";

inline absl::Duration FromProto(const google::protobuf::Duration& proto) {
  return absl::Seconds(proto.seconds()) + absl::Nanoseconds(proto.nanos());
}

// Longer durations, infinite ones among them, become the longest one. Cuts off below 1 ns.
inline google::protobuf::Duration ToProto(absl::Duration duration) {
  const absl::Duration longest = absl::Seconds(kMaxDurationSeconds);
  if (duration > longest) duration = longest;
  if (duration < -longest) duration = -longest;
  google::protobuf::Duration proto;
  proto.set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &duration));
  proto.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(duration)));
  return proto;
}

// Whether it keeps protobuf's rules: nanos below a second and of the sign of the seconds, in range.
inline bool IsValid(const google::protobuf::Duration& proto) {
  const bool signs_agree =
      proto.seconds() == 0 || proto.nanos() == 0 || (proto.seconds() > 0) == (proto.nanos() > 0);
  return signs_agree && -kMaxDurationSeconds <= proto.seconds() &&
         proto.seconds() <= kMaxDurationSeconds && -1'000'000'000 < proto.nanos() &&
         proto.nanos() < 1'000'000'000;
}

}  // namespace millrace

#endif  // MILLRACE_COMMON_PROTO_DURATION_H_
