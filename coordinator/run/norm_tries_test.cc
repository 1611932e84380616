// What becomes of versions that wait for the norm of their gradient; see norm_exchange_test.cc.
#include <memory>

#include "absl/status/status.h"
#include "coordinator/run/norm_exchange.h"
#include "coordinator/run/one_shard_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

class NormTriesTest : public OneShardFixture {
 protected:
  NormTriesTest() {
    JobSpec spec;
    spec.mutable_synchronous()->set_replicas(2);
    spec.mutable_optimizer()->set_global_clip_norm(1);
    norms_ = std::make_unique<NormExchange>(spec, /*total_steps=*/10, &clock_);
    DropShardRequest drop;
    drop.set_job_id(job_->id());
    drop.set_generation(4);
    DropShardResponse dropped;
    EXPECT_TRUE(server_.DropShard(nullptr, &drop, &dropped).ok());
    CreateShardRequest create;
    create.mutable_spec()->set_job_id(job_->id());
    create.mutable_spec()->set_replicas(2);
    create.mutable_spec()->set_total_steps(10);
    *create.mutable_spec()->mutable_optimizer() = spec.optimizer();
    create.set_generation(4);
    ShardStatus status;
    EXPECT_TRUE(server_.CreateShard(nullptr, &create, &status).ok());
    norms_->Start({status});
  }

  void Push(uint64_t step) { EXPECT_TRUE(server_.Push(job_->id(), 0, 4, step).ok()); }

  std::unique_ptr<NormExchange> norms_;
};

// Another worker's copy of a step may be acknowledged before all of it is there.
TEST_F(NormTriesTest, VersionThatAShardHasNotGotWholeIsTriedAgainLater) {
  Push(0);
  EXPECT_EQ(norms_->due_at(), 2u);
  const absl::Status early = norms_->Try(*shards_, *job_);
  EXPECT_TRUE(absl::IsUnavailable(early)) << early;
  EXPECT_TRUE(norms_->stall());
  EXPECT_FALSE(norms_->MayTry());
  EXPECT_EQ(norms_->due_at(), 2u);
  EXPECT_THAT(server_.Norms(job_->id(), 0), IsEmpty());
  Push(1);
  clock_.Advance(absl::Seconds(1));
  EXPECT_TRUE(norms_->MayTry());
  const absl::Status whole = norms_->Try(*shards_, *job_);
  EXPECT_TRUE(whole.ok()) << whole;
  EXPECT_FALSE(norms_->stall());
  EXPECT_EQ(norms_->due_at(), 4u);
  EXPECT_THAT(server_.Norms(job_->id(), 0), ElementsAre(Pair(0, 1)));
}

}  // namespace
}  // namespace millrace::coordinator
