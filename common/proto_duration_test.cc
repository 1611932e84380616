#include "common/proto_duration.h"

#include <limits>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

google::protobuf::Duration Proto(int64_t seconds, int32_t nanos) {
  google::protobuf::Duration proto;
  proto.set_seconds(seconds);
  proto.set_nanos(nanos);
  return proto;
}

TEST(ProtoDurationTest, GoesThereAndBack) {
  for (const absl::Duration duration :
       {absl::ZeroDuration(), absl::Nanoseconds(1), absl::Milliseconds(1500), absl::Hours(1e6),
        -absl::Nanoseconds(1), -absl::Milliseconds(1500), absl::Seconds(kMaxDurationSeconds)}) {
    const google::protobuf::Duration proto = ToProto(duration);
    EXPECT_EQ(FromProto(proto), duration);
    EXPECT_TRUE(IsValid(proto)) << duration;
  }
}

TEST(ProtoDurationTest, LongOnesBecomeTheLongest) {
  EXPECT_EQ(ToProto(absl::InfiniteDuration()).seconds(), kMaxDurationSeconds);
  EXPECT_EQ(ToProto(-absl::InfiniteDuration()).seconds(), -kMaxDurationSeconds);
  EXPECT_TRUE(IsValid(ToProto(absl::InfiniteDuration())));
}

TEST(ProtoDurationTest, KnowsProtobufsRules) {
  EXPECT_TRUE(IsValid(Proto(1, 999'999'999)));
  EXPECT_TRUE(IsValid(Proto(0, -1)));
  EXPECT_FALSE(IsValid(Proto(1, -1)));
  EXPECT_FALSE(IsValid(Proto(-1, 1)));
  EXPECT_FALSE(IsValid(Proto(0, 1'000'000'000)));
  EXPECT_FALSE(IsValid(Proto(0, std::numeric_limits<int32_t>::min())));
  EXPECT_FALSE(IsValid(Proto(kMaxDurationSeconds + 1, 0)));
  EXPECT_FALSE(IsValid(Proto(std::numeric_limits<int64_t>::min(), 0)));
}

}  // namespace
}  // namespace millrace
