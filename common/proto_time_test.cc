#include "common/proto_time.h"

#include "gtest/gtest.h"

namespace millrace {
namespace {

TEST(ProtoTimeTest, TimesSurviveTheRoundTrip) {
  for (absl::Duration since_epoch :
       {absl::ZeroDuration(), absl::Nanoseconds(1), absl::Seconds(1'600'000'000),
        absl::Seconds(5) + absl::Nanoseconds(999'999'999)}) {
    const absl::Time time = absl::UnixEpoch() + since_epoch;
    EXPECT_EQ(FromTimestamp(ToTimestamp(time)), time) << time;
  }
}

TEST(ProtoTimeTest, NanosCountForwardsBeforeTheEpochToo) {
  const auto proto = ToTimestamp(absl::UnixEpoch() - absl::Nanoseconds(1));
  EXPECT_EQ(proto.seconds(), -1);
  EXPECT_EQ(proto.nanos(), 999'999'999);
  EXPECT_EQ(FromTimestamp(proto), absl::UnixEpoch() - absl::Nanoseconds(1));
}

}  // namespace
}  // namespace millrace
