#include "coordinator/job/job_checkpoints.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A planned job of 12 elements whose checkpoints are in "/c/own".
JobRecord PlannedJob() {
  JobRecord record;
  record.set_job_id("b");
  record.set_total_steps(1000);
  record.mutable_spec()->mutable_checkpoints()->set_directory("/c/own");
  record.mutable_spec()->mutable_optimizer()->mutable_adam();
  VariableSpec& variable = *record.mutable_plan()->add_variables();
  variable.add_shape(3);
  variable.add_shape(4);
  return record;
}

// It goes on at step 600 from checkpoint 7 of job "a", which went on from "zero".
JobRecord RestoredJob(const std::string& directory) {
  JobRecord record = PlannedJob();
  record.mutable_spec()->mutable_restore()->set_directory(directory);
  RestoredFrom& from = *record.mutable_restored_from();
  from.mutable_checkpoint()->set_directory(directory);
  from.mutable_checkpoint()->set_checkpoint(7);
  from.set_job_id("a");
  from.add_earlier_job_ids("zero");
  from.add_left_behind_job_ids("other");
  from.set_step(600);
  return record;
}

Checkpointer::Options OptionsOf(const JobRecord& record) {
  return CheckpointsOf(record, [record] { return record; });
}

CheckpointManifest ManifestOf(const JobRecord& begun, const JobRecord& now) {
  CheckpointManifest manifest;
  manifest.set_step(300);
  CheckpointsOf(begun, [now] { return now; }).describe_job(&manifest);
  return manifest;
}

TEST(JobCheckpointsTest, NewJobHasItsDirectoryForItself) {
  const Checkpointer::Options options = OptionsOf(PlannedJob());
  EXPECT_EQ(options.owner.job_id, "b");
  EXPECT_THAT(options.owner.earlier_job_ids, IsEmpty());
  EXPECT_EQ(options.restored.number(), 0u);
  EXPECT_FALSE(options.restored_is_here);
  EXPECT_EQ(options.total_steps, 1000u);
  EXPECT_EQ(options.bytes, 12 * 3 * sizeof(float)) << "the variables, and two slots of adam";
}

TEST(JobCheckpointsTest, JobThatGoesOnInTheSameDirectorySharesItWithThoseBefore) {
  const Checkpointer::Options options = OptionsOf(RestoredJob("/c//own/"));
  EXPECT_TRUE(options.restored_is_here);
  EXPECT_THAT(options.owner.earlier_job_ids, ElementsAre("zero", "a", "other"));
  EXPECT_EQ(options.restored.directory(), "/c/own");
  EXPECT_EQ(options.restored.number(), 7u);
  EXPECT_EQ(options.restored.step(), 600u);
}

TEST(JobCheckpointsTest, JobThatGoesOnFromAnotherDirectoryHasItsOwnForItself) {
  const Checkpointer::Options options = OptionsOf(RestoredJob("/c/other"));
  EXPECT_FALSE(options.restored_is_here);
  EXPECT_THAT(options.owner.earlier_job_ids, IsEmpty());
  EXPECT_EQ(options.restored.number(), 7u);
}

TEST(JobCheckpointsTest, HolderOfADirectoryNamesTheCheckpointThereThatItGoesOnFrom) {
  EXPECT_EQ(HolderName(PlannedJob()), "job 'b'");
  EXPECT_EQ(HolderName(RestoredJob("/c//own/")), "job 'b', which goes on from 000007,");
  EXPECT_EQ(HolderName(RestoredJob("/c/other")), "job 'b'");
  EXPECT_EQ(OptionsOf(RestoredJob("/c/own")).owner.restored, 7u);
}

TEST(JobCheckpointsTest, SpecNamesTheCheckpointThatARestoreCameTo) {
  EXPECT_EQ(OptionsOf(RestoredJob("/c/own")).spec.restore().checkpoint(), 7u);
  EXPECT_FALSE(OptionsOf(PlannedJob()).spec.has_restore());
}

TEST(JobCheckpointsTest, ManifestNamesTheJobsBeforeWhereverTheirCheckpointsAre) {
  const JobRecord here = RestoredJob("/c/own");
  EXPECT_THAT(ManifestOf(here, here).earlier_job_ids(), ElementsAre("zero", "a"));
  const JobRecord elsewhere = RestoredJob("/c/other");
  EXPECT_THAT(ManifestOf(elsewhere, elsewhere).earlier_job_ids(), ElementsAre("zero", "a"));
}

TEST(JobCheckpointsTest, NumberOfTheBestIsNotUsedAgain) {
  JobRecord record = PlannedJob();
  EXPECT_EQ(OptionsOf(record).last_number, 0u);
  record.mutable_checkpoint()->set_number(3);
  EXPECT_EQ(OptionsOf(record).last_number, 3u);
  record.mutable_best()->mutable_checkpoint()->set_number(5);
  EXPECT_EQ(OptionsOf(record).last_number, 5u);
}

TEST(JobCheckpointsTest, ManifestTellsOfTheJobAsItIsNow) {
  const JobRecord begun = PlannedJob();
  JobRecord now = begun;
  (*now.mutable_metrics())["loss"] = 0.5;
  now.mutable_best()->set_step(200);
  now.mutable_stopped_early()->set_step(300);
  const CheckpointManifest manifest = ManifestOf(begun, now);
  EXPECT_EQ(manifest.metrics().at("loss"), 0.5);
  EXPECT_EQ(manifest.best().step(), 200u);
  EXPECT_EQ(manifest.stopped_early().step(), 300u);
  EXPECT_EQ(manifest.plan().variables_size(), 1);
  EXPECT_FALSE(manifest.has_stopping()) << "no evaluation has counted by step 300";
}

}  // namespace
}  // namespace millrace::coordinator
