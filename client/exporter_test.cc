#include "client/exporter.h"

#include <unistd.h>

#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/testing/fake_jobs.h"
#include "common/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/parameters/fake_parameter_server.h"

namespace millrace::client {
namespace {

using ::millrace::testing::FakeJobs;
using ::millrace::testing::FakeParameterServer;
using ::millrace::testing::StateEvent;
using ::millrace::testing::Verdict;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
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

// All servers were asked for everything again after 5 s, 10 s, 20 s and so on, until the export's
// own time was over: a model that takes longer than half of it could not be exported.
TEST_F(ExporterTest, APullThatTakesLongGoesOnAndIsNotBegunAnew) {
  using Shards = std::map<uint32_t, std::vector<uint64_t>>;
  std::promise<void> asked, answers;
  FakeParameterServer quick(Shards{{0, {2}}});
  FakeParameterServer slow(Shards{{1, {3}}});
  quick.SetValues(0, 0, {1, 2});
  slow.SetValues(1, 0, {3, 4, 5});
  GetVariablesResponse variables;
  Routing& routing = *variables.mutable_routing();
  routing.set_generation(1);
  for (const auto& [server, length] : {std::pair(&quick, 2), std::pair(&slow, 3)}) {
    const auto shard = static_cast<uint32_t>(routing.shards_size());
    VariableSpec& variable = *variables.add_variables();
    variable.set_name("v" + std::to_string(shard));
    variable.add_shape(length);
    ShardRoute& route = *routing.add_shards();
    route.set_shard(shard);
    route.set_server("ps-" + std::to_string(shard));
    route.set_address(server->address());
    route.add_slices()->set_length(length);
    route.mutable_slices(0)->set_variable(shard);
  }
  jobs_.AddEvent("job", StateEvent(SUCCEEDED));
  jobs_.SetVariables("job", variables);
  slow.SetPullRule([&, answer = answers.get_future().share()](const PullRequest&) {
    asked.set_value();
    answer.wait();
    return Verdict{};
  });
  SimulatedClock clock;
  options_.clock = &clock;
  absl::StatusOr<std::vector<Tensor>> tensors;
  std::thread exporter([&] { tensors = FetchVariables(client_.get(), "job", options_); });
  asked.get_future().wait();
  clock.Advance(absl::Seconds(6));
  EXPECT_TRUE(jobs_.WaitForCall("GetVariables", /*count=*/2));
  answers.set_value();
  exporter.join();
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_THAT(*tensors, SizeIs(2));
  EXPECT_THAT((*tensors)[0].values, ElementsAre(1, 2));
  EXPECT_THAT((*tensors)[1].values, ElementsAre(3, 4, 5));
  EXPECT_EQ(quick.counters().pull_requests, 1);
  EXPECT_EQ(slow.counters().pull_requests, 1);
}

TEST_F(ExporterTest, InterruptThatCameBeforeEndsItAtOnce) {
  interrupt_.Trigger();
  EXPECT_EQ(FetchVariables(client_.get(), "a", options_).status().code(),
            absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace millrace::client
