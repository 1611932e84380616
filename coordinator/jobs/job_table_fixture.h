// A job table for tests of what works on it; with a whole coordinator see coordinator/*_test.cc.
#ifndef MILLRACE_COORDINATOR_JOBS_JOB_TABLE_FIXTURE_H_
#define MILLRACE_COORDINATOR_JOBS_JOB_TABLE_FIXTURE_H_

#include <memory>

#include "absl/time/time.h"
#include "common/clock.h"
#include "coordinator/dispatch/dispatcher.h"
#include "coordinator/jobs/job_table.h"
#include "coordinator/journal/new_journal.h"
#include "coordinator/membership/member_registry.h"
#include "coordinator/run/planner.h"
#include "coordinator/run/runner_environment.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {

// Nobody is connected, and the journal is empty.
class JobTableFixture : public testing::Test {
 protected:
  JobTableFixture()
      : registry_(absl::Hours(1), Clock::Real()),
        dispatcher_(&registry_, {}),
        planner_(&registry_, Clock::Real()),
        environment_(Environment()),
        table_(environment_, RetentionLimits(), journal_.get()) {}

  RunnerEnvironment Environment() {
    RunnerEnvironment environment;
    environment.registry = &registry_;
    environment.dispatcher = &dispatcher_;
    environment.planner = &planner_;
    return environment;
  }

  MemberRegistry registry_;
  Dispatcher dispatcher_;
  Planner planner_;
  const RunnerEnvironment environment_;
  const std::unique_ptr<Journal> journal_ = OpenNewJournal();
  JobTable table_;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_JOBS_JOB_TABLE_FIXTURE_H_
