#include "coordinator/coordinator_flags.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kTfConfig[] = R"({"cluster": {"chief": ["127.0.0.1:7"], "ps": ["a:1", "b:2"]},
                                 "task": {"type": "chief", "index": 0}})";

absl::optional<int> Parse(std::vector<const char*> flags, const char* tf_config,
                          CoordinatorOptions* options) {
  flags.insert(flags.begin(), "coordinator");
  return ParseCoordinatorFlags(static_cast<int>(flags.size()), flags.data(), tf_config, options);
}

TEST(CoordinatorFlagsTest, FlagsSetTheOptions) {
  CoordinatorOptions options;
  EXPECT_FALSE(Parse({"--data_dir=/d", "--listen=127.0.0.1:0", "--min_ps=3", "--member_timeout=90s",
                      "--heartbeat_period=500ms", "--allow_insecure_remote", "--retained_jobs=2",
                      "--retained_records=50", "--max_running_jobs=3", "--max_pending_jobs=4",
                      "--restore_grace=30s"},
                     nullptr, &options));
  EXPECT_EQ(options.data_dir, "/d");
  EXPECT_EQ(options.server.listen, "127.0.0.1:0");
  EXPECT_EQ(options.min_ps, 3);
  EXPECT_EQ(options.member_timeout, absl::Seconds(90));
  EXPECT_EQ(options.heartbeat_period, absl::Milliseconds(500));
  EXPECT_TRUE(options.server.allow_insecure_remote);
  EXPECT_EQ(options.retained_jobs, 2);
  EXPECT_EQ(options.retained_records, 50);
  EXPECT_EQ(options.max_running_jobs, 3);
  EXPECT_EQ(options.max_pending_jobs, 4);
  EXPECT_EQ(options.restore_grace, absl::Seconds(30));
}

TEST(CoordinatorFlagsTest, DefaultsToLoopback) {
  CoordinatorOptions options;
  EXPECT_FALSE(Parse({"--data_dir=/d"}, nullptr, &options));
  EXPECT_EQ(options.server.listen, "127.0.0.1:2220");
  EXPECT_FALSE(options.server.allow_insecure_remote);
  EXPECT_EQ(options.heartbeat_period, absl::Seconds(2));
}

TEST(CoordinatorFlagsTest, WrongUsageIsExitStatusTwo) {
  for (const std::vector<const char*>& flags :
       std::vector<std::vector<const char*>>{{},
                                             {"--data_dir=/d", "--no_such_flag"},
                                             {"--data_dir=/d", "--min_ps=0"},
                                             {"--data_dir=/d", "--heartbeat_period=-1s"},
                                             {"--data_dir=/d", "--heartbeat_period=1ns"},
                                             {"--data_dir=/d", "--heartbeat_period=inf"},
                                             {"--data_dir=/d", "--heartbeat_period=often"}}) {
    CoordinatorOptions options;
    EXPECT_EQ(Parse(flags, nullptr, &options), 2);
  }
  CoordinatorOptions options;
  EXPECT_EQ(Parse({"--help"}, nullptr, &options), 0);
}

// What is printed when flags are wrong.
std::string Complaint(const std::vector<const char*>& flags, const char* tf_config) {
  CoordinatorOptions options;
  testing::internal::CaptureStderr();
  EXPECT_EQ(Parse(flags, tf_config, &options), 2);
  return testing::internal::GetCapturedStderr();
}

TEST(CoordinatorFlagsTest, ComplaintsNameTheFlag) {
  EXPECT_THAT(Complaint({"--data_dir=/d", "--listen=nowhere"}, nullptr),
              AllOf(HasSubstr("--listen: "), HasSubstr("nowhere"), HasSubstr("--help")));
  EXPECT_THAT(Complaint({"--data_dir=/d", "--lease_duration=inf"}, nullptr),
              HasSubstr("--lease_duration: inf; must be a duration from 50ms to 24h"));
  EXPECT_THAT(Complaint({"--data_dir=", "--listen=127.0.0.1:0"}, nullptr),
              HasSubstr("--data_dir: no value"));
  EXPECT_THAT(Complaint({"--data_dir=/d", "--retained_records=0"}, nullptr),
              HasSubstr("--retained_records"));
  EXPECT_THAT(Complaint({"--data_dir=/d"},
                        R"({"cluster": {"chief": ["127.0.0.1:7"], "ps": ["127.0.0.1:8"]},
                            "task": {"type": "ps", "index": 0}})"),
              HasSubstr("TF_CONFIG.task.type"));
}

TEST(CoordinatorFlagsTest, TfConfigNamesTheAddressAndTheServers) {
  CoordinatorOptions options;
  EXPECT_FALSE(Parse({"--data_dir=/d"}, kTfConfig, &options));
  EXPECT_EQ(options.server.listen, "127.0.0.1:7");
  EXPECT_EQ(options.min_ps, 2);

  CoordinatorOptions fewer;
  EXPECT_FALSE(Parse({"--data_dir=/d", "--min_ps=1"}, kTfConfig, &fewer));
  EXPECT_EQ(fewer.min_ps, 1);
  EXPECT_EQ(fewer.server.listen, "127.0.0.1:7");

  // Behind a gateway the coordinator listens elsewhere than the chief's address says.
  CoordinatorOptions elsewhere;
  EXPECT_FALSE(Parse({"--data_dir=/d", "--listen=127.0.0.1:9"}, kTfConfig, &elsewhere));
  EXPECT_EQ(elsewhere.server.listen, "127.0.0.1:9");
  EXPECT_EQ(elsewhere.min_ps, 2);
}

TEST(CoordinatorFlagsTest, WrongTfConfigIsWrongUsage) {
  CoordinatorOptions options;
  EXPECT_EQ(Parse({"--data_dir=/d"}, "{", &options), 2);
  EXPECT_EQ(Parse({"--data_dir=/d"},
                  R"({"cluster": {"chief": ["127.0.0.1:7"], "ps": ["127.0.0.1:8"]},
                      "task": {"type": "ps", "index": 0}})",
                  &options),
            2);
}

}  // namespace
}  // namespace millrace::coordinator
