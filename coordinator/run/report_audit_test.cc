#include "coordinator/run/report_audit.h"

#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

AppliedSet Before(uint64_t end) {
  AppliedSet set;
  for (uint64_t step = 0; step < end; ++step) set.Insert(step);
  return set;
}

TEST(ReportAuditTest, TrueReportsAreNoOffence) {
  ReportAudit audit;
  audit.Begin(1);
  for (uint64_t step = 0; step < 5; ++step) audit.Add(1, step, "worker-0");
  audit.BeginCheck();
  EXPECT_TRUE(audit.Check(Before(5)).empty());
}

TEST(ReportAuditTest, ReportsAfterTheQuestionWaitForTheNextOne) {
  ReportAudit audit;
  audit.Begin(1);
  audit.Add(1, 0, "worker-0");
  audit.BeginCheck();
  audit.Add(1, 1, "worker-0");
  EXPECT_TRUE(audit.Check(Before(1)).empty());
  audit.BeginCheck();
  const auto offences = audit.Check(Before(1));
  ASSERT_EQ(offences.size(), 1u);
  EXPECT_EQ(offences[0].step, 1u);
}

TEST(ReportAuditTest, WorkerIsExcludedAfterSomeOffencesAndOthersAreNot) {
  ReportAudit audit;
  for (uint64_t generation = 1; generation <= 3; ++generation) {
    audit.Begin(generation);
    EXPECT_FALSE(audit.IsExcluded("liar"));
    audit.Add(generation, 0, "honest");
    audit.Add(generation, 7, "liar");
    audit.Add(generation, 8, "liar");
    audit.BeginCheck();
    const auto offences = audit.Check(Before(1));
    ASSERT_EQ(offences.size(), 1u);
    EXPECT_EQ(offences[0].worker, "liar");
    EXPECT_EQ(offences[0].step, 7u);
    EXPECT_EQ(offences[0].steps, 2u);
    EXPECT_EQ(offences[0].excluded, generation == 3);
  }
  EXPECT_TRUE(audit.IsExcluded("liar"));
  EXPECT_FALSE(audit.IsExcluded("honest"));
}

TEST(ReportAuditTest, OffencesOfAllKindsAddUp) {
  ReportAudit audit;
  EXPECT_EQ(audit.WhyExcluded("liar"), "");
  EXPECT_FALSE(audit.AddOffence("liar", "no examples"));
  EXPECT_FALSE(audit.AddOffence("other", "no examples"));
  audit.Begin(1);
  audit.Add(1, 7, "liar");
  audit.BeginCheck();
  EXPECT_EQ(audit.Check(AppliedSet()).size(), 1u);
  EXPECT_EQ(audit.WhyExcluded("liar"), "it reported steps that shards have not got");
  EXPECT_FALSE(audit.IsExcluded("liar"));
  EXPECT_TRUE(audit.AddOffence("liar", "no examples"));
  EXPECT_TRUE(audit.IsExcluded("liar"));
  EXPECT_EQ(audit.WhyExcluded("liar"), "it reported no examples");
  EXPECT_FALSE(audit.IsExcluded("other"));
}

TEST(ReportAuditTest, ReportsOfAnotherGenerationSayNothing) {
  ReportAudit audit;
  audit.Begin(1);
  audit.Add(1, 0, "worker-0");
  audit.Begin(2);
  audit.Add(1, 1, "worker-0");
  audit.BeginCheck();
  EXPECT_TRUE(audit.Check(AppliedSet()).empty());
}

}  // namespace
}  // namespace millrace::coordinator
