#include "client/commands/command_line.h"

#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CommandLineTest : public ::testing::Test {
 protected:
  CommandLineTest() { unsetenv("MILLRACE_CLUSTER"); }

  CommandLine Parse(const std::vector<const char*>& arguments) {
    std::vector<const char*> argv = {"millrace"};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    return ParseCommandLine(static_cast<int>(argv.size()), argv.data(), console_);
  }

  // The flags of arguments that are right.
  Flags Flagged(const std::vector<const char*>& arguments) {
    const CommandLine line = Parse(arguments);
    EXPECT_FALSE(line.exit.has_value()) << err_.str();
    return line.flags;
  }

  bool IsWrong(const std::vector<const char*>& arguments) {
    const CommandLine line = Parse(arguments);
    return line.exit && *line.exit == ExitCode::kUsage;
  }

  std::ostringstream out_;
  std::ostringstream err_;
  Console console_{&out_, &err_, false, [] { return 80; }};
};

TEST_F(CommandLineTest, TrainHasAnEmbeddedClusterByDefault) {
  const Flags flags = Flagged({"train", "job.textproto"});
  EXPECT_EQ(flags.command, "train");
  EXPECT_EQ(flags.job_file, "job.textproto");
  EXPECT_EQ(flags.cluster, "");
  EXPECT_EQ(flags.ps, 1);
  EXPECT_EQ(flags.workers, 2);
  EXPECT_FALSE(flags.json);
}

TEST_F(CommandLineTest, CancelTakesATimeout) {
  EXPECT_EQ(Flagged({"cancel", "a-1", "--cluster=h:1"}).timeout, absl::Minutes(1));
  EXPECT_EQ(Flagged({"cancel", "a-1", "--cluster=h:1", "--timeout=90s"}).timeout,
            absl::Seconds(90));
  EXPECT_TRUE(IsWrong({"cancel", "a-1", "--cluster=h:1", "--timeout=soon"}));
  EXPECT_TRUE(IsWrong({"cancel", "a-1", "--cluster=h:1", "--timeout=-1s"}));
  EXPECT_THAT(err_.str(), HasSubstr("soon; must be a duration"));
}

// The coordinator was asked, and what it said was that a request's bytes are no message.
TEST_F(CommandLineTest, WhatCanBeNoJobsIdIsRefused) {
  EXPECT_TRUE(IsWrong({"status", "job-\xff", "--cluster=h:1"}));
  EXPECT_THAT(err_.str(),
              HasSubstr("JOB_ID: 'job-\\xff'; must be letters, digits, '_', '-' and '.'"));
  EXPECT_EQ(Flagged({"status", "mnist_cnn.v2-17-ab3z", "--cluster=h:1"}).job_id,
            "mnist_cnn.v2-17-ab3z");
}

TEST_F(CommandLineTest, SetTakesOneValueAndCanBeRepeated) {
  const Flags flags = Flagged({"train", "--set", "epochs=1", "job.textproto", "--set=strides=1,2",
                               "--data=DIR", "--ps=3", "--workers=4", "--export", "out", "--json"});
  EXPECT_THAT(flags.set, ElementsAre("epochs=1", "strides=1,2"));
  EXPECT_EQ(flags.job_file, "job.textproto");
  EXPECT_EQ(flags.data, "DIR");
  EXPECT_EQ(flags.ps, 3);
  EXPECT_EQ(flags.workers, 4);
  EXPECT_EQ(flags.export_file, "out");
  EXPECT_TRUE(flags.json);
}

TEST_F(CommandLineTest, CheckpointsHasCommandsOfItsOwn) {
  const Flags show = Flagged({"checkpoints", "show", "DIR/000017", "--slots", "--json"});
  EXPECT_EQ(show.command, "checkpoints show");
  EXPECT_EQ(show.path, "DIR/000017");
  EXPECT_TRUE(show.slots);
  EXPECT_TRUE(show.json);
  EXPECT_EQ(Flagged({"checkpoints", "ls", "DIR"}).command, "checkpoints ls");
  EXPECT_EQ(Flagged({"checkpoints", "verify", "DIR"}).command, "checkpoints verify");
  EXPECT_EQ(Flagged({"checkpoints", "export", "DIR", "--to=f.npz"}).export_file, "f.npz");
  const Flags rm = Flagged({"checkpoints", "rm", "DIR", "--keep=3", "--force"});
  EXPECT_EQ(rm.keep, 3);
  EXPECT_TRUE(rm.force);
  EXPECT_EQ(Flagged({"export", "job-1", "--to=f", "--cluster=h:1"}).command, "export");
  EXPECT_TRUE(IsWrong({"train", "job", "--to=f"}));
  EXPECT_TRUE(IsWrong({"checkpoints"}));
  EXPECT_TRUE(IsWrong({"checkpoints", "ls"}));
  EXPECT_TRUE(Flagged({"export", "job-1", "--best", "--to=f", "--cluster=h:1"}).best);
  EXPECT_TRUE(IsWrong({"export", "job-1", "--best", "--while_running", "--to=f", "--cluster=h:1"}));
  EXPECT_TRUE(Flagged({"train", "j", "--export=f", "--best"}).best);
  EXPECT_TRUE(IsWrong({"train", "j", "--best"}));
  EXPECT_TRUE(IsWrong({"checkpoints", "export", "DIR"}));
  EXPECT_TRUE(IsWrong({"checkpoints", "rm", "DIR", "--keep=0"}));
  EXPECT_TRUE(IsWrong({"checkpoints", "dance", "DIR"}));
  EXPECT_THAT(err_.str(), HasSubstr("no command 'dance'; must be one of ls, show, verify"));
}

TEST_F(CommandLineTest, CheckpointWaitsIfItIsTold) {
  EXPECT_FALSE(Flagged({"checkpoint", "a-1", "--cluster=h:1"}).wait);
  EXPECT_EQ(Flagged({"checkpoint", "a-1", "--cluster=h:1"}).timeout, absl::Minutes(10));
  EXPECT_TRUE(Flagged({"checkpoint", "a-1", "--cluster=h:1", "--wait"}).wait);
  EXPECT_TRUE(IsWrong({"checkpoint", "a-1", "--cluster=h:1", "--timeout=0s"}));
}

TEST_F(CommandLineTest, AJobThatGoesOnFromACheckpointNeedsNoFile) {
  EXPECT_EQ(Flagged({"train", "--restore=DIR/000017"}).restore, "DIR/000017");
  const Flags submit =
      Flagged({"submit", "job", "--checkpoints=A", "--restore=B", "--cluster=h:1", "--data=DIR"});
  EXPECT_EQ(submit.job_file, "job");
  EXPECT_EQ(submit.checkpoints, "A");
  EXPECT_EQ(submit.restore, "B");
  EXPECT_TRUE(IsWrong({"train", "--checkpoints=DIR"}));
  EXPECT_THAT(err_.str(), HasSubstr("JOB.textproto (or --restore) is required"));
  EXPECT_EQ(Parse({"train", "--help"}).exit, ExitCode::kSucceeded);
}

TEST_F(CommandLineTest, ShardsMoveOffAServerOrOverAll) {
  const Flags evacuate = Flagged({"evacuate", "ps-1", "--cluster=h:1"});
  EXPECT_EQ(evacuate.ps_server, "ps-1");
  EXPECT_EQ(evacuate.timeout, absl::Minutes(10));
  EXPECT_FALSE(evacuate.undo);
  EXPECT_EQ(Flagged({"evacuate", "ps-1", "--timeout=90s", "--cluster=h:1"}).timeout,
            absl::Seconds(90));
  EXPECT_TRUE(Flagged({"evacuate", "ps-1", "--json", "--cluster=h:1"}).json);
  EXPECT_TRUE(Flagged({"evacuate", "ps-1", "--undo", "--cluster=h:1"}).undo);
  EXPECT_TRUE(IsWrong({"evacuate", "--cluster=h:1"}));
  EXPECT_TRUE(IsWrong({"evacuate", "ps-1", "--undo", "--timeout=1s", "--cluster=h:1"}));
  EXPECT_EQ(Flagged({"rebalance", "a-1", "--cluster=h:1"}).job_id, "a-1");
  EXPECT_TRUE(Flagged({"rebalance", "a-1", "--json", "--cluster=h:1"}).json);
  EXPECT_TRUE(IsWrong({"rebalance", "--cluster=h:1"}));
}

TEST_F(CommandLineTest, WarmStartsHaveRules) {
  const Flags flags = Flagged({"train", "job", "--init_from=FILE", "--init_rule", "a/(.*)=b/\\1",
                               "--init_rule=c=", "--init_allow_missing", "--init_allow_unused"});
  EXPECT_EQ(flags.init_from, "FILE");
  EXPECT_THAT(flags.init_rule, ElementsAre("a/(.*)=b/\\1", "c="));
  EXPECT_TRUE(flags.init_allow_missing);
  EXPECT_TRUE(flags.init_allow_unused);
  EXPECT_TRUE(IsWrong({"train", "job", "--init_rule=a=b"}));
  EXPECT_TRUE(IsWrong({"train", "job", "--init_allow_missing"}));
  EXPECT_TRUE(IsWrong({"train", "job", "--init_from=FILE", "--restore=DIR"}));
}

TEST_F(CommandLineTest, ClusterCommandsTakeItFromTheFlagOrTheEnvironment) {
  for (const char* command : {"list", "members", "status", "watch", "cancel", "submit", "export"}) {
    EXPECT_TRUE(IsWrong({command, "x", "--export=f"})) << command;
  }
  EXPECT_EQ(Flagged({"status", "job-1", "--cluster=a:1"}).cluster, "a:1");
  setenv("MILLRACE_CLUSTER", "b:2", /*overwrite=*/1);
  const Flags flags = Flagged({"status", "job-1"});
  EXPECT_EQ(flags.cluster, "b:2");
  EXPECT_EQ(flags.job_id, "job-1");
  EXPECT_EQ(Flagged({"list", "--cluster=a:1"}).cluster, "a:1");
}

TEST_F(CommandLineTest, FilesOfTlsComeFromFlagsOrTheEnvironment) {
  setenv("MILLRACE_TLS_CA", "ca.pem", /*overwrite=*/1);
  setenv("MILLRACE_TLS_SERVER_NAME", "trainer", /*overwrite=*/1);
  const Flags flags =
      Flagged({"list", "--cluster=a:1", "--tls_certificate=c.pem", "--tls_key=c.key"});
  EXPECT_EQ(flags.tls.ca, "ca.pem");
  EXPECT_EQ(flags.tls.certificate, "c.pem");
  EXPECT_EQ(flags.tls.key, "c.key");
  EXPECT_EQ(flags.tls.server_name, "trainer");
  EXPECT_EQ(Flagged({"train", "job.textproto", "--cluster=a:1", "--tls_ca=x"}).tls.ca, "x");
  unsetenv("MILLRACE_TLS_CA");
  unsetenv("MILLRACE_TLS_SERVER_NAME");
}

TEST_F(CommandLineTest, TrainLeavesTheEnvironmentsClusterAlone) {
  setenv("MILLRACE_CLUSTER", "b:2", /*overwrite=*/1);
  EXPECT_EQ(Flagged({"train", "job.textproto"}).cluster, "");
}

TEST_F(CommandLineTest, WrongUsageIsReported) {
  EXPECT_TRUE(IsWrong({}));
  EXPECT_TRUE(IsWrong({"dance"}));
  EXPECT_THAT(
      err_.str(),
      HasSubstr("no command 'dance'; must be one of train, validate, summary, convert, submit"));
  EXPECT_TRUE(IsWrong({"\x1b[2J"}));
  EXPECT_THAT(err_.str(), HasSubstr("no command '\\x1b[2J'; must be one of"));
  EXPECT_TRUE(IsWrong({"train"}));
  EXPECT_TRUE(IsWrong({"train", "job", "--no_such_flag"}));
  EXPECT_TRUE(IsWrong({"train", "job", "--data=", "--json"}));
  EXPECT_TRUE(IsWrong({"train", "job", "another"}));
  EXPECT_TRUE(IsWrong({"train", "job", "--ps=0"}));
  EXPECT_TRUE(IsWrong({"train", "job", "--workers=many"}));
  EXPECT_TRUE(IsWrong({"train", "job", "--cluster=a:1", "--ps=2"}));
  EXPECT_TRUE(IsWrong({"train", "job", "--cluster=a:1", "--state_dir=d"}));
  EXPECT_TRUE(IsWrong({"export", "job-1", "--cluster=a:1"}));
  EXPECT_THAT(err_.str(), HasSubstr("--no_such_flag"));
  EXPECT_EQ(out_.str(), "");
}

// It was found only by the first worker of the cluster, when that was up.
TEST_F(CommandLineTest, DevicesThatCannotBeAreWrongUsage) {
  for (const char* wrong :
       {"--device=gpu", "--device=CPU", "--device=cuda:", "--device=cuda:0,0"}) {
    EXPECT_TRUE(IsWrong({"train", "job", wrong})) << wrong;
  }
  EXPECT_THAT(err_.str(), HasSubstr("--device: 'cuda:0,0'; must be auto, cpu, cuda, or"));
  for (const char* name : {"auto", "cpu", "cuda", "cuda:1", "cuda:0,1"}) {
    EXPECT_EQ(Flagged({"train", "job", "--device", name}).device, name);
  }
}

TEST_F(CommandLineTest, HelpAndVersionSucceed) {
  EXPECT_EQ(Parse({"--help"}).exit, ExitCode::kSucceeded);
  EXPECT_THAT(out_.str(), HasSubstr("Exit codes:"));
  EXPECT_THAT(out_.str(), HasSubstr("validate"));
  EXPECT_EQ(Parse({"train", "--help"}).exit, ExitCode::kSucceeded);
  EXPECT_THAT(out_.str(), HasSubstr("--state_dir"));
  EXPECT_EQ(Parse({"--version"}).exit, ExitCode::kSucceeded);
  EXPECT_THAT(out_.str(), HasSubstr("millrace 0.1.0"));
}

}  // namespace
}  // namespace millrace::client
