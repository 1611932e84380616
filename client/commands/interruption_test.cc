#include "client/commands/interruption.h"

#include "client/progress/make_view.h"
#include "client/testing/fake_jobs.h"
#include "client/testing/run_command.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::client {
namespace {

using ::millrace::testing::CommandRun;
using ::millrace::testing::FakeJobs;
using ::testing::HasSubstr;

// A file system that does not answer may still keep the command.
TEST(InterruptionTest, WithoutAJobItEndsTheCallsOfTheClientAndSaysHowToExitAtOnce) {
  const FakeJobs jobs;
  CommandRun run;
  const auto client = JobsClient::Create({.address = jobs.address()});
  ASSERT_TRUE(client.ok()) << client.status();
  const auto view = MakeProgressView(run.context().console, /*json=*/false);
  const Interruption interruption(run.context(), /*checkpoints=*/"", client->get(), view.get());
  run.interrupt().Trigger();
  EXPECT_THAT(run.out(), HasSubstr("Ending; interrupt again to exit at once."));
  EXPECT_TRUE(absl::IsCancelled((*client)->List().status()));
}

}  // namespace
}  // namespace millrace::client
