#include "worker/worker_flags.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/memory_limit.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/worker.h"

namespace millrace::worker {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kTfConfig[] = R"({
  "cluster": {"chief": ["10.0.0.1:7000"], "ps": ["10.0.0.2:7000"],
              "worker": ["10.0.0.3:7000", "10.0.0.4:7000"]},
  "task": {"type": "worker", "index": 1}})";

class WorkerFlagsTest : public ::testing::Test {
 protected:
  absl::optional<int> Parse(std::vector<const char*> flags, const char* tf_config = nullptr) {
    flags.insert(flags.begin(), "worker");
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const absl::optional<int> status =
        ParseWorkerFlags(static_cast<int>(flags.size()), flags.data(), tf_config, &options_);
    out_ = ::testing::internal::GetCapturedStdout();
    error_ = ::testing::internal::GetCapturedStderr();
    return status;
  }

  WorkerOptions options_;
  std::string out_;
  std::string error_;
};

TEST_F(WorkerFlagsTest, FlagsSetTheOptions) {
  EXPECT_EQ(Parse({"--coordinator=localhost:7000", "--name=w", "--threads", "3", "--lease_slots=4",
                   "--device=cpu", "--deterministic=false", "--device_timeout=30s",
                   "--data_memory=1MiB", "--step_timeout=90s", "--call_timeout=250ms"}),
            absl::nullopt);
  EXPECT_EQ(options_.coordinator_address, "localhost:7000");
  EXPECT_EQ(options_.name, "w");
  EXPECT_EQ(options_.threads, 3);
  EXPECT_EQ(options_.lease_slots, 4);
  EXPECT_EQ(options_.device, "cpu");
  EXPECT_FALSE(options_.deterministic);
  EXPECT_EQ(options_.device_timeout, absl::Seconds(30));
  EXPECT_EQ(options_.data_memory, uint64_t{1} << 20);
  EXPECT_EQ(options_.step_timeout, absl::Seconds(90));
  EXPECT_EQ(options_.call_timeout, absl::Milliseconds(250));
}

TEST_F(WorkerFlagsTest, DataMayTakeAQuarterOfTheMemoryWithoutAFlag) {
  EXPECT_EQ(Parse({"--coordinator=localhost:7000"}), absl::nullopt);
  EXPECT_EQ(options_.data_memory, MemoryLimit() / 4);
}

TEST_F(WorkerFlagsTest, NameOfItsOwnWithoutAFlag) {
  EXPECT_EQ(Parse({"--coordinator=localhost:7000"}), absl::nullopt);
  EXPECT_THAT(options_.name, StartsWith("worker-"));
}

TEST_F(WorkerFlagsTest, TfConfigGivesTheCoordinatorAndTheName) {
  EXPECT_EQ(Parse({}, kTfConfig), absl::nullopt);
  EXPECT_EQ(options_.coordinator_address, "10.0.0.1:7000");
  EXPECT_EQ(options_.name, "worker-1");
}

TEST_F(WorkerFlagsTest, FlagsWinOverTfConfig) {
  EXPECT_EQ(Parse({"--coordinator=localhost:7000", "--name=w"}, kTfConfig), absl::nullopt);
  EXPECT_EQ(options_.coordinator_address, "localhost:7000");
  EXPECT_EQ(options_.name, "w");
}

TEST_F(WorkerFlagsTest, TfConfigOfAnotherTaskIsWrongUsage) {
  const std::string ps = R"({"cluster": {"chief": ["10.0.0.1:7000"], "ps": ["10.0.0.2:7000"]},
                             "task": {"type": "ps", "index": 0}})";
  EXPECT_EQ(Parse({}, ps.c_str()), 2);
  EXPECT_THAT(error_, HasSubstr("TF_CONFIG.task.type: \"ps\""));
  EXPECT_THAT(error_, HasSubstr("or give --coordinator"));
}

TEST_F(WorkerFlagsTest, CoordinatorThatCannotBeDialledIsWrongUsage) {
  for (const char* flag : {"--coordinator=localhost", "--coordinator=localhost:0"}) {
    EXPECT_EQ(Parse({flag}), 2);
    EXPECT_THAT(error_, HasSubstr("--coordinator: 'localhost"));
  }
}

TEST_F(WorkerFlagsTest, MalformedTfConfigIsWrongUsageOnlyWhereItIsNeeded) {
  EXPECT_EQ(Parse({}, "{x"), 2);
  EXPECT_THAT(error_, HasSubstr("TF_CONFIG: not JSON"));
  EXPECT_EQ(Parse({"--coordinator=localhost:7000"}, "{x"), absl::nullopt);
}

TEST_F(WorkerFlagsTest, MissingCoordinatorIsWrongUsage) {
  EXPECT_EQ(Parse({}), 2);
  EXPECT_THAT(error_, HasSubstr("--coordinator"));
}

TEST_F(WorkerFlagsTest, UnknownFlagIsWrongUsage) {
  EXPECT_EQ(Parse({"--coordinator=localhost:7000", "--colour=red"}), 2);
  EXPECT_THAT(error_, HasSubstr("--colour"));
}

TEST_F(WorkerFlagsTest, ValuesOutOfTheirRangeAreWrongUsage) {
  const auto error_of = [this](const char* flag) {
    EXPECT_EQ(Parse({"--coordinator=localhost:7000", flag}), 2) << flag;
    return error_;
  };
  EXPECT_THAT(error_of("--step_timeout=soon"),
              HasSubstr("--step_timeout: soon; must be a duration with its unit, such as 90s"));
  EXPECT_THAT(error_of("--call_timeout=1ns"),
              HasSubstr("--call_timeout: 1ns; must be a duration from 100ms to 1h"));
  EXPECT_THAT(error_of("--lease_slots=99999999999"), HasSubstr("not in range 1 to 64"));
  EXPECT_THAT(error_of("--data_memory=-1"),
              HasSubstr("--data_memory: -1; must be a number of bytes such as 512MiB, at most "));
  EXPECT_THAT(error_of("--data_memory=8000TiB"), HasSubstr("--data_memory: 8000TiB; must be"));
  EXPECT_THAT(error_of("--threads=0"), HasSubstr("not in range 1 to 1024"));
  EXPECT_THAT(error_of("--name=two words"),
              HasSubstr("--name: 'two words'; must be 1 to 100 printable characters"));
}

// A terminal did what the flag said.
TEST_F(WorkerFlagsTest, ComplaintsAreFitForTerminals) {
  EXPECT_EQ(Parse({"--coordinator=localhost:7000", "--lease_slots=\x1b[2J"}), 2);
  EXPECT_THAT(error_, HasSubstr("\\x1b[2J"));
  EXPECT_EQ(Parse({"--coordinator=\x1b[2J"}), 2);
  EXPECT_THAT(error_, HasSubstr("\\x1b[2J"));
}

TEST_F(WorkerFlagsTest, HelpListsTheFlags) {
  EXPECT_EQ(Parse({"--help"}), 0);
  EXPECT_THAT(out_, HasSubstr("--lease_slots"));
  EXPECT_THAT(out_, HasSubstr("--step_timeout DURATION=10m"));
}

}  // namespace
}  // namespace millrace::worker
