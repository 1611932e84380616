// What the coordinator says to clients and members that are not ours.
#include <string>

#include "common/net/raw_call.h"
#include "coordinator/testing/fake_cluster.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::HasSubstr;

constexpr char kNoMessage[] = "\xff\xff\xff";

// Such calls once ended with INTERNAL and no text.
TEST(ForeignClientTest, BytesThatAreNoRequestAreRefusedByName) {
  FakeCluster cluster(1);
  for (const char* method :
       {"SubmitJob", "GetJob", "ListJobs", "WatchJob", "CancelJob", "GetVariables"}) {
    const absl::Status status =
        CallRaw(cluster.address(), std::string("/millrace.Jobs/") + method, kNoMessage);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << method;
    EXPECT_THAT(std::string(status.message()), HasSubstr("its bytes are no millrace.")) << method;
  }
}

// Such a stream once ended with OK.
TEST(ForeignClientTest, BytesThatAreNoMemberMessageEndTheStreamByName) {
  FakeCluster cluster(1);
  const absl::Status status =
      CallRaw(cluster.address(), "/millrace.Membership/Join", kNoMessage, /*half_close=*/false);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no millrace.MemberMessage"));
}

// Specs of 16 MiB once made the coordinator keep 870 MiB.
TEST(ForeignClientTest, LargeRequestsAreRefusedUnread) {
  FakeCluster cluster(1);
  JobSpec spec = PlainJob(1);
  spec.mutable_data()->set_directory(std::string(3 << 20, 'd'));
  const absl::Status status = cluster.Submit(spec).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("must be at most 2097152"));
  EXPECT_EQ(cluster.Get(std::string(1 << 20, 'j')).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ForeignClientTest, SecondSubmissionOfARequestIdWithAnotherSpecIsRefused) {
  FakeCluster cluster(1);
  const std::string job = cluster.Submit(PlainJob(1), "request").value();
  EXPECT_EQ(cluster.Submit(PlainJob(1), "request").value(), job);
  const absl::Status other = cluster.Submit(PlainJob(2), "request").status();
  EXPECT_EQ(other.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(other.message()), HasSubstr(job));
  EXPECT_EQ(cluster.Submit(PlainJob(1), std::string(201, 'r')).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace::coordinator
