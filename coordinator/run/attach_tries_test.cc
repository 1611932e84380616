#include "coordinator/run/attach_tries.h"

#include <vector>

#include "common/job_spec.h"
#include "coordinator/run/one_shard_fixture.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using AttachTriesTest = OneShardFixture;

TEST_F(AttachTriesTest, GenerationIsInTheJournal) {
  ASSERT_TRUE(tries_->BeginGeneration(5).ok());
  EXPECT_EQ(tries_->generation(), 5u);
  const std::vector<Journal::Entry> jobs = journal_->ReadJobs().value();
  ASSERT_EQ(jobs.size(), 1u);
  EXPECT_EQ(jobs[0].record.generation(), 5u);
}

TEST_F(AttachTriesTest, JobThatHasUsedUpAllGenerationsEnds) {
  EXPECT_EQ(tries_->BeginGeneration(kGenerationLimit).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(tries_->generation(), 4u);
}

TEST_F(AttachTriesTest, JobGoesOnAboveAStrangersGeneration) {
  SetShard(9);
  ASSERT_TRUE(tries_->AdoptGeneration(*shards_, absl::FailedPreconditionError("it is at 9")).ok());
  EXPECT_EQ(tries_->generation(), 10u);
}

}  // namespace
}  // namespace millrace::coordinator
