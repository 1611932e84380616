#include "client/exporter.h"

#include <unistd.h>

#include <memory>
#include <string>
#include <thread>

#include "client/testing/fake_jobs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::client {
namespace {

using ::millrace::testing::FakeJobs;
using ::millrace::testing::StateEvent;
using ::testing::HasSubstr;
using ::testing::TempDir;

const grpc::Status kAway(grpc::StatusCode::UNAVAILABLE, "on servers that are away: ps-1");

class ExporterTest : public ::testing::Test {
 protected:
  ExporterTest() {
    jobs_.AddEvent("a", StateEvent(SUCCEEDED));
    client_ = *JobsClient::Create({.address = jobs_.address()});
    options_.interrupt = &interrupt_;
  }

  // The job's one variable is on a server that is not there.
  void PlaceVariables() {
    GetVariablesResponse variables;
    VariableSpec& variable = *variables.add_variables();
    variable.set_name("v");
    variable.add_shape(2);
    variables.mutable_routing()->set_generation(1);
    ShardRoute& shard = *variables.mutable_routing()->add_shards();
    shard.set_server("ps-1");
    shard.set_address("127.0.0.1:1");
    shard.add_slices()->set_length(2);
    jobs_.SetVariables("a", variables);
  }

  FakeJobs jobs_;
  std::unique_ptr<JobsClient> client_;
  Interrupt interrupt_;
  ExportOptions options_;
};

// The client's 30 s for any call ended it, whatever the export's own time was.
TEST_F(ExporterTest, ServersThatAreAwayAreWaitedForAsLongAsTheExportMay) {
  client_ = *JobsClient::Create({.address = jobs_.address(), .timeout = absl::ZeroDuration()});
  jobs_.FailNextCalls({kAway, grpc::Status(grpc::StatusCode::NOT_FOUND, "the end of the test")});
  EXPECT_EQ(FetchVariables(client_.get(), "a", options_).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(ExporterTest, TheServersThatItWaitedForAreNamed) {
  jobs_.FailNextCalls({kAway, kAway, kAway});
  options_.timeout = absl::Milliseconds(150);
  const absl::Status status = FetchVariables(client_.get(), "a", options_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.ToString(),
              HasSubstr("cannot fetch the variables of job a: on servers that are away: ps-1"));
}

TEST_F(ExporterTest, InterruptEndsAWaitForServersAndLeavesNoFile) {
  PlaceVariables();
  const std::string path = TempDir() + "/interrupted.safetensors";
  absl::Status status;
  std::thread exporter([&] { status = ExportVariables(client_.get(), "a", path, options_); });
  EXPECT_TRUE(jobs_.WaitForCall("GetVariables"));
  interrupt_.Trigger();
  exporter.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

TEST_F(ExporterTest, InterruptThatCameBeforeEndsItAtOnce) {
  interrupt_.Trigger();
  EXPECT_EQ(FetchVariables(client_.get(), "a", options_).status().code(),
            absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace millrace::client
