// Which cuts are read, and which are not read again: after damage, and after errors of the disk.
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps/cut/cut_store_fixture.h"

namespace millrace::ps {
namespace {

using ::testing::ElementsAre;

using CutStoreReadingTest = CutStoreFixture;

TEST_F(CutStoreReadingTest, OlderCutIsReadAgainWhereTheNewestWasFoundDamaged) {
  const ShardPlan plan = Plan();
  Write(plan, 1);
  Write(plan, 2);
  Spoil();
  Reopen();
  for (int i = 0; i < 2; ++i) {
    const auto contents = store_->ReadShard(plan, &pool_);
    ASSERT_TRUE(contents.ok()) << contents.status();
    EXPECT_EQ(contents->state->version, 1);
    EXPECT_TRUE(contents->more_acknowledged);
  }
}

TEST_F(CutStoreReadingTest, ShardComesBackThoughTheVersionBeforeIsDamaged) {
  const ShardPlan plan = Plan(/*replicas=*/1);
  Write(plan, 4);
  Write(plan, 5);
  Spoil(/*cut_from_newest=*/1);
  Reopen();
  const auto contents = store_->ReadShard(plan, &pool_);
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->state->version, 5);
  EXPECT_EQ(contents->previous, nullptr);
  EXPECT_FALSE(contents->more_acknowledged);
}

TEST_F(CutStoreReadingTest, ErrorOfTheDiskIsNoReasonToDoWithoutTheVersionBefore) {
  int reads = 0;
  int good_reads = 1000;
  DatabaseOptions options;
  options.fault = [&](absl::string_view operation) {
    const bool fails = operation == "read" && ++reads > good_reads;
    return fails ? absl::UnavailableError("too many open files") : absl::OkStatus();
  };
  store_.reset();
  store_ = *CutStore::Open(path_, options);
  const ShardPlan plan = Plan(/*replicas=*/1);
  Write(plan, 4);
  Write(plan, 5);
  reads = 0;
  EXPECT_EQ((*store_->ReadShard(plan, &pool_)).previous->version, 4);
  good_reads = reads / 2;  // Those of the newest one.
  reads = 0;
  EXPECT_TRUE(absl::IsUnavailable(store_->ReadShard(plan, &pool_).status()));
  good_reads = 1000;
  EXPECT_EQ((*store_->ReadShard(plan, &pool_)).previous->version, 4);
}

TEST_F(CutStoreReadingTest, CutOfAnotherEpochIsNotTheOneThatIsAskedFor) {
  const ShardPlan plan = Plan(/*replicas=*/1);
  Write(plan, 4);
  EXPECT_TRUE(absl::IsNotFound(store_->ReadCut(plan, Name(1, 4), &pool_).status()));
  EXPECT_TRUE(absl::IsNotFound(store_->OpenCutFile(plan, Name(1, 4)).status()));
}

TEST_F(CutStoreReadingTest, CutsStayThroughErrorsOfTheDiskHoweverTheyAreRead) {
  bool fails = false;
  DatabaseOptions options;
  options.fault = [&fails](absl::string_view operation) {
    return fails && operation == "read" ? absl::UnavailableError("too many open files")
                                        : absl::OkStatus();
  };
  store_.reset();
  store_ = *CutStore::Open(path_, options);
  const ShardPlan plan = Plan();
  Write(plan, 1);
  Write(plan, 2);
  fails = true;
  EXPECT_TRUE(absl::IsUnavailable(store_->ReadCut(plan, Name(0, 2), &pool_).status()));
  EXPECT_TRUE(absl::IsUnavailable(store_->OpenNewestCut(plan).status()));
  EXPECT_TRUE(absl::IsUnavailable(store_->OpenCutFile(plan, Name(0, 2)).status()));
  fails = false;
  EXPECT_THAT(Cuts(), ElementsAre("0.1", "0.2"));
  for (int i = 0; i < 2; ++i) {
    const auto newest = store_->OpenNewestCut(plan);
    ASSERT_TRUE(newest.ok()) << newest.status();
    EXPECT_EQ((*newest)->manifest().version(), 2);
  }
  EXPECT_THAT(Cuts(), ElementsAre("0.1", "0.2"));
}

TEST_F(CutStoreReadingTest, InitialValuesAreTheVersionBeforeTheFirst) {
  const ShardPlan plan = Plan(/*replicas=*/1);
  of_stop_ = true;
  Write(plan, 1);
  Reopen();
  const auto contents = store_->ReadShard(plan, &pool_);
  ASSERT_TRUE(contents.ok()) << contents.status();
  ASSERT_NE(contents->previous, nullptr);
  EXPECT_EQ(contents->previous->version, 0);
  EXPECT_EQ(contents->previous->applied.size(), 0);
  const StatePtr initial = *MakeInitialState(plan, &pool_);
  EXPECT_EQ(contents->previous->blocks[0]->values(), initial->blocks[0]->values());
  ShardPlan restored = Plan(/*replicas=*/1);
  restored.spec.mutable_restore();
  EXPECT_EQ((*store_->ReadShard(restored, &pool_)).previous, nullptr) << "it began elsewhere";
  EXPECT_EQ((*store_->ReadShard(Plan(/*replicas=*/0), &pool_)).previous, nullptr);
}

}  // namespace
}  // namespace millrace::ps
