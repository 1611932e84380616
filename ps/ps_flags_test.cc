#include "ps/ps_flags.h"

#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::ps {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kTfConfig[] = R"({
  "cluster": {"chief": ["10.0.0.1:7000"], "ps": ["10.0.0.2:7001", "10.0.0.3:7002"]},
  "task": {"type": "ps", "index": 1}})";

class PsFlagsTest : public ::testing::Test {
 protected:
  absl::optional<int> Parse(std::vector<const char*> flags, const char* tf_config = nullptr) {
    flags.insert(flags.begin(), {"ps", "--data_dir=/d"});
    options_ = {};
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const absl::optional<int> status =
        ParsePsFlags(static_cast<int>(flags.size()), flags.data(), tf_config, &options_);
    out_ = ::testing::internal::GetCapturedStdout();
    error_ = ::testing::internal::GetCapturedStderr();
    return status;
  }

  PsServerOptions options_;
  std::string out_;
  std::string error_;
};

TEST_F(PsFlagsTest, FlagsSetTheOptions) {
  EXPECT_EQ(Parse({"--listen=0.0.0.0:1", "--coordinator=c:2", "--name=p", "--advertise=a:3",
                   "--allow_insecure_remote"}),
            absl::nullopt);
  EXPECT_EQ(options_.data_dir, "/d");
  EXPECT_EQ(options_.server.listen, "0.0.0.0:1");
  EXPECT_EQ(options_.coordinator_address, "c:2");
  EXPECT_EQ(options_.name, "p");
  EXPECT_EQ(options_.advertise_address, "a:3");
  EXPECT_TRUE(options_.server.allow_insecure_remote);
}

TEST_F(PsFlagsTest, ListensOnLoopbackByDefault) {
  EXPECT_EQ(Parse({"--coordinator=c:2"}), absl::nullopt);
  EXPECT_EQ(options_.server.listen, "127.0.0.1:2222");
  EXPECT_EQ(options_.name, "ps-0");
  EXPECT_FALSE(options_.server.allow_insecure_remote);
  EXPECT_EQ(options_.arena, "/dev/shm");
}

TEST_F(PsFlagsTest, ArenaIsADirectoryOrOff) {
  EXPECT_EQ(Parse({"--coordinator=c:2", "--arena=/mnt/memory"}), absl::nullopt);
  EXPECT_EQ(options_.arena, "/mnt/memory");
  EXPECT_EQ(Parse({"--coordinator=c:2", "--arena=off"}), absl::nullopt);
  EXPECT_EQ(options_.arena, "");
}

TEST_F(PsFlagsTest, AnArenaThatIsNoAbsolutePathIsWrongUsage) {
  for (const std::string arena : {"OFF", "dev/shm", "."}) {
    const std::string flag = "--arena=" + arena;
    EXPECT_EQ(Parse({"--coordinator=c:2", flag.c_str()}), 2);
    EXPECT_THAT(error_, HasSubstr("--arena: '" + arena +
                                  "'; must be the absolute path of a directory of a memory file "
                                  "system, or off"));
  }
}

TEST_F(PsFlagsTest, CheckpointBandwidthIsANumberOfBytes) {
  EXPECT_EQ(Parse({"--coordinator=c:2"}), absl::nullopt);
  EXPECT_EQ(options_.checkpoint_bandwidth, 0);
  EXPECT_EQ(Parse({"--coordinator=c:2", "--checkpoint_bandwidth=50000000"}), absl::nullopt);
  EXPECT_EQ(options_.checkpoint_bandwidth, 50'000'000);
  EXPECT_EQ(Parse({"--coordinator=c:2", "--checkpoint_bandwidth=100MiB"}), absl::nullopt);
  EXPECT_EQ(options_.checkpoint_bandwidth, 100 << 20);
  for (const std::string value : {"-1", "abc", "10MB", "99999999999999999999999", "2TiB"}) {
    const std::string flag = "--checkpoint_bandwidth=" + value;
    EXPECT_EQ(Parse({"--coordinator=c:2", flag.c_str()}), 2) << flag;
    EXPECT_THAT(error_, HasSubstr("--checkpoint_bandwidth: " + value +
                                  "; must be a number of bytes such as 512MiB, at most 1TiB"));
  }
}

TEST_F(PsFlagsTest, TfConfigFillsInWhatTheFlagsLeaveOpen) {
  EXPECT_EQ(Parse({}, kTfConfig), absl::nullopt);
  EXPECT_EQ(options_.coordinator_address, "10.0.0.1:7000");
  EXPECT_EQ(options_.server.listen, "10.0.0.3:7002");
  EXPECT_EQ(options_.name, "ps-1");

  EXPECT_EQ(Parse({"--coordinator=c:2", "--name=p"}, kTfConfig), absl::nullopt);
  EXPECT_EQ(options_.coordinator_address, "c:2");
  EXPECT_EQ(options_.server.listen, "10.0.0.3:7002");
  EXPECT_EQ(options_.name, "p");
}

// A server registered 0.0.0.0:PORT, and every worker dialled itself.
TEST_F(PsFlagsTest, AnAddressThatWorkersCannotDialIsNotAdvertised) {
  for (const char* listen : {"--listen=0.0.0.0:2222", "--listen=[::]:2222"}) {
    EXPECT_EQ(Parse({listen, "--allow_insecure_remote", "--coordinator=c:2"}), 2);
    EXPECT_THAT(error_, HasSubstr("--advertise: missing; --listen is "));
    EXPECT_THAT(error_, HasSubstr("give HOST:PORT as workers reach this server"));
  }
  EXPECT_EQ(Parse({"--coordinator=c:2", "--advertise=0.0.0.0:2222"}), 2);
  EXPECT_THAT(error_, HasSubstr("--advertise: '0.0.0.0:2222'"));
  EXPECT_EQ(Parse({"--coordinator=c:2", "--advertise=host"}), 2);
  EXPECT_THAT(error_, HasSubstr("--advertise: 'host'; must be HOST:PORT"));
}

TEST_F(PsFlagsTest, ACoordinatorThatCannotBeDialledIsWrongUsage) {
  for (const char* flag : {"--coordinator=127.0.0.1", "--coordinator=127.0.0.1:0"}) {
    EXPECT_EQ(Parse({flag}), 2);
    EXPECT_THAT(error_, HasSubstr("--coordinator: '127.0.0.1"));
  }
  EXPECT_EQ(Parse({}), 2);
  EXPECT_THAT(error_, HasSubstr("--coordinator: missing"));
}

TEST_F(PsFlagsTest, UnusableTfConfigIsWrongUsageUnlessTheFlagsSayAll) {
  const char* const kAll[] = {"--coordinator=c:2", "--listen=127.0.0.1:0", "--name=p"};
  EXPECT_EQ(Parse({}, "{x"), 2);
  EXPECT_THAT(error_, HasSubstr("TF_CONFIG: not JSON"));
  EXPECT_THAT(error_, HasSubstr("or give --coordinator, --listen and --name"));
  EXPECT_EQ(Parse({kAll[0], kAll[1]}, "{x"), 2);
  EXPECT_EQ(Parse({kAll[0], kAll[1], kAll[2]}, "{x"), absl::nullopt);
  EXPECT_THAT(error_, HasSubstr("TF_CONFIG is not used"));
  EXPECT_EQ(Parse({kAll[0], kAll[1], kAll[2]}, "\xff"), absl::nullopt);
  EXPECT_THAT(error_, HasSubstr("\\xff"));
  EXPECT_EQ(Parse({kAll[0], kAll[1], kAll[2]}, kTfConfig), absl::nullopt);
  EXPECT_THAT(error_, IsEmpty());
}

TEST_F(PsFlagsTest, TfConfigOfAnotherTaskNamesIt) {
  const std::string chief = R"({"cluster": {"chief": ["10.0.0.1:7000"]},
                                "task": {"type": "chief", "index": 0}})";
  EXPECT_EQ(Parse({}, chief.c_str()), 2);
  EXPECT_THAT(error_, HasSubstr("TF_CONFIG.task.type: \"chief\"; the type must be \"ps\""));
}

TEST_F(PsFlagsTest, UnknownFlagsAreWrongUsageAndHelpIsNot) {
  EXPECT_EQ(Parse({"--coordinator=c:2", "--colour=red"}), 2);
  EXPECT_THAT(error_, HasSubstr("--colour"));
  EXPECT_EQ(Parse({"--name=", "--coordinator=c:2"}), 2);
  EXPECT_THAT(error_, HasSubstr("--name: no value"));
  EXPECT_EQ(Parse({"--name=\x1b[2J", "--coordinator=c:2"}), 2);
  EXPECT_THAT(error_, HasSubstr("--name: '\\x1b[2J'; must be 1 to 100 printable characters"));
  EXPECT_EQ(Parse({"--help"}), 0);
  EXPECT_THAT(out_, HasSubstr("--advertise"));
}

}  // namespace
}  // namespace millrace::ps
