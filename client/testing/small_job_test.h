// What tests of commands share that take a job and its data.
#ifndef MILLRACE_CLIENT_TESTING_SMALL_JOB_TEST_H_
#define MILLRACE_CLIENT_TESTING_SMALL_JOB_TEST_H_

#include "client/testing/run_command.h"
#include "client/testing/small_job.h"
#include "gtest/gtest.h"

namespace millrace::testing {

// A command's surroundings: SmallJob in a file, on SmallData.
class SmallJobTest : public ::testing::Test {
 protected:
  SmallJobTest() {
    run_.flags().job_file = WriteFile("job.textproto", SmallJob());
    run_.flags().data = SmallData();
  }

  CommandRun run_;
};

}  // namespace millrace::testing

#endif  // MILLRACE_CLIENT_TESTING_SMALL_JOB_TEST_H_
