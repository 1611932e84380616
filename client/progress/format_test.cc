#include "client/progress/format.h"

#include <cmath>
#include <limits>

#include "client/testing/fake_jobs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::client {
namespace {

using ::testing::ElementsAre;

TEST(FormatTest, CountsAreGrouped) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1000), "1,000");
  EXPECT_EQ(FormatCount(60000), "60,000");
  EXPECT_EQ(FormatCount(1234567), "1,234,567");
  EXPECT_EQ(FormatCount(std::numeric_limits<uint64_t>::max()), "18,446,744,073,709,551,615");
}

TEST(FormatTest, RatesKeepThreeDigitsOrFour) {
  EXPECT_EQ(FormatRate(0), "0");
  EXPECT_EQ(FormatRate(875.4), "875");
  EXPECT_EQ(FormatRate(999.6), "1.0k");
  EXPECT_EQ(FormatRate(12345), "12.3k");
  EXPECT_EQ(FormatRate(999600), "1.00M");
  EXPECT_EQ(FormatRate(2.5e6), "2.50M");
}

TEST(FormatTest, ElapsedTimeHasHoursWhereItTakesThem) {
  EXPECT_EQ(FormatElapsed(absl::Milliseconds(7900)), "0:07");
  EXPECT_EQ(FormatElapsed(absl::Seconds(754)), "12:34");
  EXPECT_EQ(FormatElapsed(absl::Hours(3) + absl::Seconds(432)), "3:07:12");
  EXPECT_EQ(FormatElapsed(-absl::Seconds(3)), "0:00");
}

TEST(FormatTest, MetricsThatAreNotFiniteAreNamed) {
  EXPECT_EQ(FormatMetric(0.0921449), "0.09214");
  EXPECT_EQ(FormatMetric(-std::nan("")), "nan");
  EXPECT_EQ(FormatMetric(HUGE_VAL), "inf");
}

TEST(FormatTest, LossComesFirst) {
  EXPECT_THAT(
      FormatMetrics({{"accuracy", 0.5}, {"eval_accuracy", 0.25}, {"eval_auc", 1}, {"loss", 2}}),
      ElementsAre("loss 2", "accuracy 0.5", "eval_accuracy 0.25", "eval_auc 1"));
}

TEST(FormatTest, DescribesWhatIsWorthALine) {
  EXPECT_EQ(DescribeEvent(millrace::testing::NoticeEvent("ps-0 is gone")), "ps-0 is gone");
  EXPECT_EQ(DescribeEvent(millrace::testing::EvaluatedEvent(
                1200, {{"eval_loss", 0.1}, {"eval_accuracy", 0.97}}, 10000)),
            "step 1,200: eval_loss 0.1  eval_accuracy 0.97 (10,000 examples)");
  EXPECT_EQ(DescribeEvent(millrace::testing::StateEvent(PENDING, 0, {}, "waits for 2 ps servers")),
            "PENDING: waits for 2 ps servers");
  EXPECT_EQ(DescribeEvent(millrace::testing::StateEvent(RUNNING, 7)), "RUNNING at step 7");
  EXPECT_EQ(DescribeEvent(millrace::testing::StateEvent(SUCCEEDED, 7)), "");
  EXPECT_EQ(DescribeEvent(millrace::testing::ProgressEvent(7, 10, 1)), "");
}

TEST(FormatTest, LostStepsAreCountedOnlyWhereSomebodySawThem) {
  JobEvent event;
  Recovered& recovered = *event.mutable_recovered();
  recovered.set_cause("ps-1 went");
  recovered.set_step(1400);
  EXPECT_EQ(DescribeEvent(event), "ps-1 went: no step was lost; goes on from step 1,400");
  recovered.set_more_may_be_lost(true);
  EXPECT_EQ(DescribeEvent(event),
            "ps-1 went: steps after the first 1,400 may have been done and lost, nobody knows how "
            "many; goes on from step 1,400");
  recovered.set_steps_lost(1);
  EXPECT_EQ(DescribeEvent(event),
            "ps-1 went: at least 1 step is to be run again; goes on from step 1,400");
  recovered.set_more_may_be_lost(false);
  recovered.set_steps_lost(12);
  EXPECT_EQ(DescribeEvent(event),
            "ps-1 went: 12 steps are to be run again; goes on from step 1,400");
}

CheckpointEnded Written() {
  CheckpointEnded checkpoint;
  checkpoint.set_number(17);
  checkpoint.set_cause("every 1000 steps");
  checkpoint.set_step(7000);
  checkpoint.set_bytes(uint64_t{5} << 28);
  checkpoint.set_bytes_written(80 << 20);
  checkpoint.mutable_took()->set_seconds(4);
  checkpoint.mutable_took()->set_nanos(100'000'000);
  return checkpoint;
}

TEST(FormatTest, CheckpointsAreALineWithWhatTheyCost) {
  JobEvent event;
  *event.mutable_checkpoint_ended() = Written();
  EXPECT_EQ(DescribeEvent(event),
            "checkpoint 000017 at step 7,000 (every 1000 steps): 1.2 GiB (80.0 MiB written) in "
            "4.1 s, held up 0 s");
  event.mutable_checkpoint_ended()->set_extra_memory(12 << 20);
  event.mutable_checkpoint_ended()->mutable_held_up()->set_nanos(3'000'000);
  EXPECT_EQ(DescribeEvent(event),
            "checkpoint 000017 at step 7,000 (every 1000 steps): 1.2 GiB (80.0 MiB written) in "
            "4.1 s, held up 3 ms, 12.0 MiB of extra memory");
  event.mutable_checkpoint_ended()->set_error("ps-1: no space left");
  EXPECT_EQ(DescribeEvent(event),
            "checkpoint 000017 (every 1000 steps) was given up: ps-1: no space left");
}

TEST(FormatTest, BytesAndTimesHaveTheUnitThatFits) {
  EXPECT_EQ(FormatBytes(1), "1 byte");
  EXPECT_EQ(FormatBytes(1023), "1023 bytes");
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
  EXPECT_EQ(FormatBytes(1023 << 10), "1023 KiB");
  EXPECT_EQ(FormatBytes((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(FormatBytes(uint64_t{3} << 40), "3.0 TiB");
  EXPECT_EQ(FormatShortTime(absl::ZeroDuration()), "0 s");
  EXPECT_EQ(FormatShortTime(absl::Milliseconds(12.3)), "12 ms");
  EXPECT_EQ(FormatShortTime(absl::Seconds(57.8)), "57 s");
  EXPECT_EQ(FormatShortTime(absl::Seconds(100)), "1:40");
  EXPECT_EQ(FormatAge(-absl::Seconds(1)), "0 s");
  EXPECT_EQ(FormatAge(absl::Seconds(119)), "119 s");
  EXPECT_EQ(FormatAge(absl::Minutes(119)), "119 min");
  EXPECT_EQ(FormatAge(absl::Hours(47)), "47 h");
  EXPECT_EQ(FormatAge(absl::Hours(48)), "2 days");
}

// A worker's message once reached the terminal as it was.
TEST(FormatTest, EscapesOfOthersAreNotObeyed) {
  const std::string clear = "\x1b[2J";
  EXPECT_EQ(DescribeEvent(millrace::testing::NoticeEvent(clear)), "\\x1b[2J");
  EXPECT_EQ(DescribeEvent(millrace::testing::StateEvent(PENDING, 0, {}, clear)),
            "PENDING: \\x1b[2J");
  EXPECT_THAT(FormatMetrics({{clear, 1}}), ElementsAre("\\x1b[2J 1"));
  JobOutcome outcome;
  outcome.job_id = outcome.message = outcome.export_error = clear;
  outcome.warnings = {clear};
  EXPECT_EQ(FormatOutcome(outcome).find('\x1b'), std::string::npos);
}

TEST(FormatTest, OutcomeSaysWhatCameOutAndWhereItIs) {
  JobOutcome outcome;
  outcome.job_id = "job-1";
  outcome.state = SUCCEEDED;
  outcome.step = 2740;
  outcome.total_steps = 2740;
  outcome.metrics = {{"eval_accuracy", 0.98}, {"loss", 0.05}};
  outcome.running = absl::Seconds(83);
  outcome.warnings = {"the last checkpoint is missing"};
  outcome.export_file = "mnist.safetensors";
  EXPECT_EQ(FormatOutcome(outcome),
            "SUCCEEDED: job job-1\n"
            "  steps      2,740 of 2,740\n"
            "  time       1:23\n"
            "  metrics    loss 0.05  eval_accuracy 0.98\n"
            "  warning    the last checkpoint is missing\n"
            "  variables  mnist.safetensors\n");
}

TEST(FormatTest, OutcomeOfAFailureSaysWhy) {
  JobOutcome outcome;
  outcome.job_id = "job-1";
  outcome.state = FAILED;
  outcome.message = "the loss is not finite";
  EXPECT_EQ(FormatOutcome(outcome),
            "FAILED: job job-1: the loss is not finite\n  steps      0\n  time       0:00\n");
}

TEST(FormatTest, TimeSpentNamesTheGreatestPartsFirst) {
  TimeSpent spent;
  spent.mutable_wall()->set_seconds(72);
  spent.mutable_training()->set_seconds(67);
  spent.mutable_evaluating()->set_seconds(2);
  spent.mutable_recovering()->set_nanos(1000);
  WaitedFor& waited = *spent.add_waiting();
  waited.set_whom("worker-1");
  waited.mutable_time()->set_seconds(3);
  spent.set_goodput(67.0 / 72);
  EXPECT_EQ(FormatTimeSpent(spent),
            "1m12s: 93% training, 4% waiting for worker-1, 3% evaluating; goodput 0.93");
  EXPECT_EQ(FormatTimeSpent(TimeSpent()), "");
}

TEST(FormatTest, TimeSpentOfAShortJobHasAUnit) {
  TimeSpent spent;
  spent.mutable_wall()->set_nanos(52'300'000);
  *spent.mutable_training() = spent.wall();
  spent.set_goodput(1);
  EXPECT_EQ(FormatTimeSpent(spent), "52ms: 100% training; goodput 1.00");
}

}  // namespace
}  // namespace millrace::client
