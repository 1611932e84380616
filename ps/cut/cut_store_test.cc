#include "ps/cut/cut_store.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "common/warning_count.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps/cut/cut_store_fixture.h"
#include "ps/shard/shard_test_util.h"
#include "testing/faults/fault_file_system.h"

namespace millrace::ps {
namespace {

using ::millrace::testing::MakeSpec;
using ::millrace::testing::MakeWirePiece;
using ::millrace::testing::Values;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using CutStoreTest = CutStoreFixture;

TEST_F(CutStoreTest, CutComesBackAsItWas) {
  const ShardPlan plan = Plan();
  Write(plan, 7);
  Reopen();
  const auto contents = store_->ReadShard(plan, &pool_);
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->state->version, 7);
  EXPECT_EQ(contents->state->applied.watermark(), 7);
  EXPECT_THAT(Values(*contents->state), Each(7));
  EXPECT_EQ(contents->state->blocks[1]->array(1)[2], 107);
  EXPECT_THAT(contents->held, IsEmpty());
}

TEST_F(CutStoreTest, NormThatAVersionWasMadeWithComesBackWithItsCut) {
  ShardSpec spec = Spec(/*replicas=*/2);
  spec.mutable_optimizer()->set_global_clip_norm(1);
  const ShardPlan plan = *PlanShard(spec);
  ASSERT_TRUE(store_->WriteRecord(plan.spec, term_).ok());
  const StatePtr without = State(plan, 4);
  auto with = std::make_shared<ShardState>(*State(plan, 6));
  with->gradient_norm = 0.1;
  for (const StatePtr& state : {without, StatePtr(with)}) {
    ASSERT_TRUE(store_->WriteCut(plan, {term_.epoch, state, {}, of_stop_}).ok());
  }
  Reopen();
  EXPECT_EQ((*store_->ReadCut(plan, Name(0, 4), &pool_))->gradient_norm, absl::nullopt);
  EXPECT_EQ((*store_->ReadCut(plan, Name(0, 6), &pool_))->gradient_norm, absl::make_optional(0.1));
}

TEST_F(CutStoreTest, CutsOfALaterEpochComeBackAsSuch) {
  const ShardPlan plan = Plan(/*replicas=*/1);
  Write(plan, 4);
  Write(plan, 8);
  StepBack(plan, 4);
  Write(plan, 6);
  const std::vector<std::string> before = Cuts();
  EXPECT_THAT(before, ::testing::Contains("1.6"));
  Reopen();
  EXPECT_EQ(Cuts(), before);
  EXPECT_EQ((*store_->ReadCut(plan, Name(1, 6), &pool_))->version, 6);
  EXPECT_EQ((*store_->ReadShard(plan, &pool_)).state->version, 6);
}

TEST_F(CutStoreTest, AsynchronousShardKeepsTheNewest) {
  const ShardPlan plan = Plan();
  for (uint64_t version = 1; version <= 5; ++version) {
    Write(plan, version);
    ASSERT_TRUE(store_->Prune(plan, {}).ok());
  }
  EXPECT_THAT(Cuts(), ElementsAre("0.5"));
  Reopen();
  EXPECT_THAT(Cuts(), ElementsAre("0.5"));
  EXPECT_EQ((*store_->ReadShard(plan, &pool_)).state->version, 5);
  EXPECT_EQ(CutFiles(), 1);
}

TEST_F(CutStoreTest, SynchronousShardKeepsTheCommonCutAndNewerOnes) {
  const ShardPlan plan = Plan(/*replicas=*/1);
  for (uint64_t version = 4; version <= 16; version += 4) Write(plan, version);
  ASSERT_TRUE(store_->Prune(plan, {}).ok());
  EXPECT_THAT(Cuts(), SizeIs(4)) << "nobody knows the common one";
  ASSERT_TRUE(store_->Prune(plan, Name(0, 10)).ok());
  EXPECT_THAT(Cuts(), SizeIs(4)) << "there is no such cut";
  ASSERT_TRUE(store_->Prune(plan, Name(0, 12)).ok());
  EXPECT_THAT(Cuts(), ElementsAre("0.12", "0.16"));
  EXPECT_EQ(CutFiles(), 2);
}

// Where another shard of the job could not write cuts, a full one was kept for each that was asked
// for.
TEST_F(CutStoreTest, SynchronousShardKeepsThreeCutsBesideTheCommonOne) {
  const ShardPlan plan = Plan(/*replicas=*/1);
  for (uint64_t version = 1; version <= 6; ++version) Write(plan, version);
  ASSERT_TRUE(store_->Prune(plan, Name(0, 2)).ok());
  EXPECT_THAT(Cuts(), ElementsAre("0.2", "0.4", "0.5", "0.6"));
  ASSERT_TRUE(store_->Prune(plan, Name(0, 0)).ok());
  EXPECT_THAT(Cuts(), ElementsAre("0.4", "0.5", "0.6"));
}

TEST_F(CutStoreTest, OlderVersionThatIsWrittenLaterEndsNoNewerOne) {
  const ShardPlan plan = Plan();
  Write(plan, 5);
  Write(plan, 4);
  ASSERT_TRUE(store_->Prune(plan, {}).ok());
  EXPECT_THAT(Cuts(), ElementsAre("0.5"));
}

TEST_F(CutStoreTest, OlderVersionThatIsWrittenLaterEndsNoCutOfAStop) {
  const ShardPlan plan = Plan(/*replicas=*/1);
  of_stop_ = true;
  Write(plan, 7);
  of_stop_ = false;
  Write(plan, 4);
  ASSERT_TRUE(store_->Prune(plan, Name(0, 4)).ok());
  EXPECT_EQ((*store_->ReadShard(plan, &pool_)).state->version, 7);
}

// One damaged cut ended the job, although others were there.
TEST_F(CutStoreTest, DamagedCutThatIsAskedForIsNoneAnyMore) {
  const ShardPlan plan = Plan(/*replicas=*/1);
  Write(plan, 4);
  Write(plan, 8);
  Spoil();
  Reopen();
  EXPECT_THAT(Cuts(), ElementsAre("0.4", "0.8"));
  EXPECT_EQ(store_->ReadCut(plan, Name(0, 8), &pool_).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Cuts(), ElementsAre("0.4"));
  EXPECT_FALSE(store_->Has(plan.spec, 0, 8)) << "a flush writes it anew";
  EXPECT_TRUE(store_->Has(plan.spec, 0, 4));
  EXPECT_FALSE(store_->Has(plan.spec, 1, 4));
  EXPECT_EQ(store_->NewestVersion("job", 0), 4);
  EXPECT_EQ((*store_->ReadCut(plan, Name(0, 4), &pool_))->version, 4);
}

TEST_F(CutStoreTest, ShardWithoutACutHasItsInitialValues) {
  const ShardPlan plan = Plan();
  ASSERT_TRUE(store_->WriteRecord(plan.spec, term_).ok());
  Reopen();
  ASSERT_EQ((*store_->ListShards()).size(), 1);
  const auto contents = store_->ReadShard(plan, &pool_);
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->state->version, 0);
  EXPECT_THAT(Values(*contents->state), Each(0));
  EXPECT_EQ(CutFiles(), 0);
}

TEST_F(CutStoreTest, StagedCutDoesNotExistBeforeItsCommit) {
  const ShardPlan plan = Plan();
  Write(plan, 1);
  auto staged = store_->StageCut(plan, {0, State(plan, 2)});
  ASSERT_TRUE(staged.ok()) << staged.status();
  EXPECT_THAT(Cuts(), ElementsAre("0.1"));
  ASSERT_TRUE(store_->CommitCut(*std::move(staged)).ok());
  EXPECT_THAT(Cuts(), ElementsAre("0.1", "0.2"));
}

TEST_F(CutStoreTest, CutOfAShardThatWasDroppedMeanwhileIsOfNoUse) {
  const ShardPlan plan = Plan();
  Write(plan, 1);
  auto staged = store_->StageCut(plan, {0, State(plan, 2)});
  ASSERT_TRUE(store_->DropShard("job", 0).ok());
  ASSERT_TRUE(store_->WriteRecord(plan.spec, term_).ok());  // Another one of the same name.
  EXPECT_EQ(store_->CommitCut(*std::move(staged)).code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(Cuts(), IsEmpty());
  EXPECT_EQ(CutFiles(), 0);
}

TEST_F(CutStoreTest, SteppingBackEndsNewerCutsAndThoseUnderWay) {
  const ShardPlan plan = Plan(/*replicas=*/1);
  for (uint64_t version = 4; version <= 12; version += 4) Write(plan, version);
  auto staged = store_->StageCut(plan, {0, State(plan, 16)});
  StepBack(plan, 8);
  EXPECT_EQ(store_->CommitCut(*std::move(staged)).code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(Cuts(), ElementsAre("0.4", "0.8"));
  Write(plan, 12);
  EXPECT_THAT(Cuts(), ElementsAre("0.4", "0.8", "1.12"));
  StepBack(plan, 4);
  EXPECT_THAT(Cuts(), ElementsAre("0.4"));
  Reopen();
  EXPECT_THAT(Cuts(), ElementsAre("0.4"));
  EXPECT_EQ((*store_->ListShards())[0].term.epoch, 2);
  EXPECT_EQ((*store_->ListShards())[0].term.stepped_back_to.version(), 4);
  EXPECT_EQ((*store_->ReadShard(plan, &pool_)).state->version, 4);
  EXPECT_EQ((*store_->ReadCut(plan, Name(0, 4), &pool_))->version, 4);
  EXPECT_EQ((*store_->ReadCut(plan, Name(0, 0), &pool_))->version, 0);
  EXPECT_EQ(store_->ReadCut(plan, Name(0, 8), &pool_).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(CutFiles(), 1);
}

TEST_F(CutStoreTest, CutsOfStopsAreForTheShardAloneAndGoWithTheNextCut) {
  const ShardPlan plan = Plan(/*replicas=*/1);
  Write(plan, 4);
  of_stop_ = true;
  Write(plan, 6);
  Write(plan, 7);
  EXPECT_THAT(Cuts(), ElementsAre("0.4"));
  Reopen();
  EXPECT_EQ((*store_->ReadShard(plan, &pool_)).state->version, 7);
  EXPECT_EQ((*store_->ReadShard(plan, &pool_)).previous->version, 6);
  ASSERT_TRUE(store_->Prune(plan, Name(0, 4)).ok());
  EXPECT_EQ((*store_->ReadShard(plan, &pool_)).state->version, 7) << "it is the newest";
  of_stop_ = false;
  Write(plan, 8);
  ASSERT_TRUE(store_->Prune(plan, Name(0, 4)).ok());
  EXPECT_EQ(CutFiles(), 2);
}

TEST_F(CutStoreTest, CutsOfAStopGoWithThoseOfTheNextStop) {
  const ShardPlan plan = Plan(/*replicas=*/1);
  of_stop_ = true;
  Write(plan, 6);
  Write(plan, 7);
  const uint64_t second_stop = store_->NextNumber();
  Write(plan, 8);
  ASSERT_TRUE(store_->Prune(plan, {}, second_stop).ok());
  EXPECT_EQ(CutFiles(), 1);
  EXPECT_EQ((*store_->ReadShard(plan, &pool_)).state->version, 8);
}

TEST_F(CutStoreTest, DamagedCutIsPassedOverForAnOlderOne) {
  const ShardPlan plan = Plan();
  Write(plan, 1);
  Write(plan, 2);
  Spoil();
  Reopen();
  const auto contents = store_->ReadShard(plan, &pool_);
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->state->version, 1);
  // The next cut is whole, and the damaged one is gone.
  Write(plan, 3);
  EXPECT_THAT(Cuts(), ElementsAre("0.1", "0.3"));
  Reopen();
  EXPECT_EQ((*store_->ReadShard(plan, &pool_)).state->version, 3);
}

TEST_F(CutStoreTest, ShardWithNoWholeCutIsAnError) {
  const ShardPlan plan = Plan();
  Write(plan, 1);
  Spoil();
  Reopen();
  const auto contents = store_->ReadShard(plan, &pool_);
  EXPECT_EQ(contents.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(contents.status().message()), HasSubstr("shard 0 of job 'job'"));
}

TEST_F(CutStoreTest, DamagedCutEndsNoOlderOne) {
  const ShardPlan plan = Plan();
  Write(plan, 4);
  Write(plan, 8);
  store_->GiveUp(plan, /*number=*/1, absl::DataLossError("it is damaged"));
  ASSERT_TRUE(store_->Prune(plan, {}).ok());
  EXPECT_THAT(Cuts(), ElementsAre("0.4"));
  EXPECT_EQ((*store_->ReadShard(plan, &pool_)).state->version, 4);
}

TEST_F(CutStoreTest, NewestCutThatCannotBeReadForNowStays) {
  const ShardPlan plan = Plan();
  Write(plan, 4);
  Write(plan, 8);
  const std::string file = bulk() + "/job.0.1.sst";
  Unreadable(file);
  Reopen();
  EXPECT_TRUE(store_->Prune(plan, {}).ok());
  Readable(file);
  Reopen();
  EXPECT_EQ((*store_->ReadShard(plan, &pool_)).state->version, 8);
}

// The newest cut was passed over, and then deleted, when the disk failed for a moment.
TEST_F(CutStoreTest, DiskErrorLeavesTheCutsAsTheyAre) {
  const ShardPlan plan = Plan();
  Write(plan, 1);
  Write(plan, 2);
  store_.reset();
  bool fails = false;
  DatabaseOptions options;
  options.fault = [&fails](absl::string_view operation) {
    return fails && operation == "read" ? absl::UnavailableError("too many open files")
                                        : absl::OkStatus();
  };
  store_ = *CutStore::Open(path_, options);
  fails = true;
  const absl::Status status = store_->ReadShard(plan, &pool_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("shard 0 of job 'job'"));
  EXPECT_THAT(Cuts(), ElementsAre("0.1", "0.2"));
  fails = false;
  EXPECT_EQ((*store_->ReadShard(plan, &pool_)).state->version, 2);
}

// Four states were on the disk at its worst, and compaction wrote some of them again.
TEST_F(CutStoreTest, DiskHoldsOneCutAndTheOneThatIsWritten) {
  ShardSpec spec = MakeSpec({4 * kBlockElements});
  spec.mutable_optimizer()->mutable_sgd()->set_momentum(0.5);
  const ShardPlan plan = *PlanShard(spec);
  constexpr uint64_t kCutBytes = 8 * kBlockElements * sizeof(float);
  for (uint64_t version = 1; version <= 12; ++version) {
    Write(plan, version);
    EXPECT_LE(DiskBytes(), 2 * kCutBytes + kBlockElements);
    ASSERT_TRUE(store_->Prune(plan, {}).ok());
    EXPECT_LE(DiskBytes(), kCutBytes + kBlockElements);
  }
}

TEST_F(CutStoreTest, CutIsNotBegunWithoutRoomForIt) {
  store_.reset();
  const auto files = std::make_shared<::millrace::testing::FaultFileSystem>();
  store_ = *CutStore::Open(path_, {.file_system = files});
  const ShardPlan plan = Plan();
  ASSERT_TRUE(store_->WriteRecord(plan.spec, term_).ok());
  files->SetFreeBytes(17 << 20);
  const uint64_t operations = files->operations();
  const absl::Status status = store_->WriteCut(plan, {0, State(plan, 1)});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no room on the disk"));
  EXPECT_LE(files->operations(), operations + 1) << "something was written";
  files->SetFreeBytes(19 << 20);
  EXPECT_TRUE(store_->WriteCut(plan, {0, State(plan, 1)}).ok());
}

// A cut that was looked for while its directory was away was none any more, and its file was
// removed when the directory was back.
TEST_F(CutStoreTest, DirectoryThatWasMovedAwayAndIsBackHasItsCuts) {
  const ShardPlan plan = Plan();
  Write(plan, 1);
  Write(plan, 2);
  MoveAway();
  EXPECT_EQ(store_->WriteRecord(plan.spec, term_).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(store_->WriteCut(plan, {0, State(plan, 3)}).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(store_->ReadShard(plan, &pool_).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(store_->Prune(plan, {}).code(), absl::StatusCode::kUnavailable);
  MoveBack();
  EXPECT_EQ((*store_->ReadShard(plan, &pool_)).state->version, 2);
  Write(plan, 3);
  ASSERT_TRUE(store_->Prune(plan, {}).ok());
  EXPECT_THAT(Cuts(), ElementsAre("0.3"));
  EXPECT_EQ(CutFiles(), 1);
}

// The records were there, so the cuts counted as damaged, and were removed when they were back.
TEST_F(CutStoreTest, CutsThatWereMovedAwayAloneAndAreBackAreThere) {
  const ShardPlan plan = Plan();
  Write(plan, 1);
  Write(plan, 2);
  std::filesystem::rename(bulk(), bulk() + ".aside");
  const absl::Status status = store_->ReadShard(plan, &pool_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_EQ(store_->WriteCut(plan, {0, State(plan, 3)}).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(store_->Prune(plan, {}).code(), absl::StatusCode::kUnavailable);
  std::filesystem::create_directory(bulk());
  EXPECT_EQ(store_->ReadShard(plan, &pool_).status().code(), absl::StatusCode::kUnavailable)
      << "it is another directory";
  std::filesystem::remove(bulk());
  std::filesystem::rename(bulk() + ".aside", bulk());
  ASSERT_TRUE(store_->WriteRecord(plan.spec, term_).ok());
  EXPECT_EQ((*store_->ReadShard(plan, &pool_)).state->version, 2);
  ASSERT_TRUE(store_->Prune(plan, {}).ok());
  EXPECT_THAT(Cuts(), ElementsAre("0.2"));
  EXPECT_EQ(CutFiles(), 1);
}

// It stayed until the server was started again, and cuts found no room beside it.
TEST_F(CutStoreTest, CutThatWasBeingWrittenWhenItsDirectoryWasMovedLeavesNothing) {
  const ShardPlan plan = Plan();
  Write(plan, 1);
  auto staged = store_->StageCut(plan, {0, State(plan, 2)});
  MoveAway();
  EXPECT_EQ(store_->CommitCut(*std::move(staged)).code(), absl::StatusCode::kUnavailable);
  MoveBack();
  Write(plan, 3);
  ASSERT_TRUE(store_->Prune(plan, {}).ok());
  EXPECT_THAT(Cuts(), ElementsAre("0.3"));
  EXPECT_EQ(CutFiles(), 1);
  EXPECT_THAT(FilesIn(bulk(), ".tmp"), IsEmpty());
}

// It was one line for each attempt, hundreds a second.
TEST_F(CutStoreTest, FilesThatStayAreOneLineInTheLog) {
  const ShardPlan plan = Plan();
  Write(plan, 5);
  Unreadable(bulk() + "/job.0.0.sst");
  WarningCount dropped("its cuts stay for now");
  WarningCount kept("keeps old cuts for now");
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(store_->DropShard("job", 0).ok());
    ASSERT_TRUE(store_->WriteRecord(plan.spec, term_).ok());
  }
  EXPECT_TRUE(store_->HasLeftovers(plan.spec));
  EXPECT_LE(dropped.count(), 1);
  EXPECT_LE(kept.count(), 1);
}

// They stayed until the server was started again, and cuts found no room beside them.
TEST_F(CutStoreTest, FileThatCouldNotBeRemovedIsRemovedLater) {
  store_.reset();
  const auto files = std::make_shared<::millrace::testing::FaultFileSystem>();
  store_ = *CutStore::Open(path_, {.file_system = files});
  const ShardPlan plan = Plan();
  Write(plan, 1);
  Write(plan, 2);
  files->Arm(0, ::millrace::testing::Fault::kError);
  EXPECT_EQ(store_->Prune(plan, {}).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(CutFiles(), 2);
  EXPECT_TRUE(store_->HasLeftovers(plan.spec));
  EXPECT_TRUE(store_->RemoveLeftovers(plan.spec).ok());
  EXPECT_FALSE(store_->HasLeftovers(plan.spec));
  EXPECT_EQ(CutFiles(), 1);
  EXPECT_THAT(Cuts(), ElementsAre("0.2"));
}

TEST_F(CutStoreTest, CutThatCouldNotBeWrittenLeavesNoFileWhereverItFailed) {
  store_.reset();
  const auto files = std::make_shared<::millrace::testing::FaultFileSystem>();
  store_ = *CutStore::Open(path_, {.file_system = files});
  const ShardPlan plan = Plan();
  Write(plan, 1);
  bool had_leftovers = false;
  for (uint64_t operation = 0;; ++operation) {
    files->Arm(operation, ::millrace::testing::Fault::kError);
    const absl::Status status = store_->WriteCut(plan, {0, State(plan, 2)});
    const bool fired = files->fired();
    files->Heal();
    had_leftovers = had_leftovers || store_->HasLeftovers(plan.spec);
    ASSERT_TRUE(store_->RemoveLeftovers(plan.spec).ok());
    EXPECT_EQ(CutFiles(), Cuts().size()) << operation;
    if (!fired) break;
  }
  EXPECT_TRUE(had_leftovers) << "one has its name, and it is not sure that it keeps it";
  EXPECT_EQ((*store_->ReadShard(plan, &pool_)).state->version, 2);
}

TEST_F(CutStoreTest, HeldContributionsComeBackWithTheirCut) {
  const ShardPlan plan = Plan(/*replicas=*/3);
  std::vector<float> gradient(plan.layout.elements());
  for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = static_cast<float>(i);
  auto pieces = std::make_shared<std::vector<WirePiece>>();
  const absl::Span<const float> values(gradient);
  pieces->push_back(MakeWirePiece(1, 0, values.subspan(kBlockElements + 3)));
  pieces->push_back(MakeWirePiece(0, 10, values.subspan(10, kBlockElements - 7), 1001));
  pieces->push_back(MakeWirePiece(0, 0, values.subspan(0, 10)));
  auto push = std::make_shared<PushAssembly>(/*push_id=*/1, /*step=*/4, /*examples=*/9);
  ASSERT_TRUE(push->Add(plan.layout, 1, std::move(pieces), true).ok());
  Write(plan, 1, {push});
  Reopen();
  const auto contents = store_->ReadShard(plan, &pool_);
  ASSERT_TRUE(contents.ok()) << contents.status();
  ASSERT_EQ(contents->held.size(), 1);
  const PushAssembly& held = *contents->held[0];
  EXPECT_EQ(held.step(), 4);
  EXPECT_EQ(held.examples(), 9);
  EXPECT_TRUE(held.complete(plan.layout));
  std::vector<float> restored;
  for (const WirePiece& piece : *held.pieces()[0]) {
    const size_t begin = restored.size();
    restored.resize(begin + piece.data.size());
    piece.data.CopyTo(absl::MakeSpan(restored).subspan(begin));
  }
  EXPECT_EQ(restored, gradient);
}

TEST_F(CutStoreTest, SynchronousShardComesBackWithTheVersionBefore) {
  const ShardPlan plan = Plan(/*replicas=*/1);
  Write(plan, 4);
  Write(plan, 5);
  EXPECT_EQ((*store_->ReadShard(plan, &pool_)).previous->version, 4);
  Write(plan, 8);
  EXPECT_EQ((*store_->ReadShard(plan, &pool_)).previous, nullptr);
}

// A clean stop writes the version before and then the current one, and may be killed in between.
TEST_F(CutStoreTest, NewestVersionCountsWhicheverWasWrittenLast) {
  const ShardPlan plan = Plan(/*replicas=*/1);
  Write(plan, 3);
  Write(plan, 5);
  Write(plan, 4);
  Reopen();
  const auto contents = store_->ReadShard(plan, &pool_);
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->state->version, 5);
  EXPECT_EQ(contents->previous->version, 4);
}

TEST_F(CutStoreTest, DroppedShardLeavesNothing) {
  const ShardPlan plan = Plan();
  Write(plan, 1);
  ASSERT_TRUE(store_->DropShard("job", 0).ok());
  EXPECT_THAT(Cuts(), IsEmpty());
  Reopen();
  EXPECT_THAT(*store_->ListShards(), IsEmpty());
  EXPECT_EQ(CutFiles(), 0);
}

// It was of a later version than the new shard's cuts, which came back with the old one's values.
TEST_F(CutStoreTest, FileThatCannotBeRemovedIsNoCutOfTheNextShardOfItsName) {
  const ShardPlan plan = Plan();
  Write(plan, 5);
  const std::string file = bulk() + "/job.0.0.sst";
  Unreadable(file);
  ASSERT_TRUE(store_->DropShard("job", 0).ok());
  Readable(file);
  ASSERT_TRUE(store_->WriteRecord(plan.spec, term_).ok());
  Reopen();
  EXPECT_THAT(Cuts(), IsEmpty());
  EXPECT_EQ(CutFiles(), 0);
}

TEST_F(CutStoreTest, FileOfADroppedShardThatCouldNotBeRemovedGoesAtTheNextStart) {
  const ShardPlan plan = Plan();
  for (const bool made_again : {false, true}) {
    const std::string file = absl::StrCat(bulk(), "/job.0.", store_->NextNumber(), ".sst");
    Write(plan, 5);
    Unreadable(file);
    ASSERT_TRUE(store_->DropShard("job", 0).ok());
    if (made_again) {
      ASSERT_TRUE(store_->WriteRecord(plan.spec, term_).ok());
      ASSERT_TRUE(store_->DropShard("job", 0).ok());
    }
    Readable(file);
    Reopen();
    EXPECT_EQ(CutFiles(), 0) << made_again;
  }
}

TEST_F(CutStoreTest, ShardThatCouldNotBeDroppedIsThereAsItWas) {
  store_.reset();
  bool fails = false;
  DatabaseOptions options;
  options.fault = [&fails](absl::string_view operation) {
    return fails && operation == "write" ? absl::UnavailableError("it is full") : absl::OkStatus();
  };
  store_ = *CutStore::Open(path_, options);
  const ShardPlan plan = Plan();
  EXPECT_TRUE(store_->DropShard("job", 0).ok()) << "it is not there";
  Write(plan, 1);
  fails = true;
  EXPECT_EQ(store_->DropShard("job", 0).code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Cuts(), ElementsAre("0.1"));
  Reopen();
  EXPECT_EQ((*store_->ReadShard(plan, &pool_)).state->version, 1);
}

TEST_F(CutStoreTest, CutThatASteppingBackEndedStaysEndedThoughItsFileIsThereAfterLaterRecords) {
  const ShardPlan plan = Plan(/*replicas=*/1);
  Write(plan, 4);
  Write(plan, 8);
  const std::string file = bulk() + "/job.0.1.sst";
  Unreadable(file);
  StepBack(plan, 4);
  ++term_.generation;
  ASSERT_TRUE(store_->WriteRecord(plan.spec, term_).ok());
  Readable(file);
  Reopen();
  EXPECT_THAT(Cuts(), ElementsAre("0.4"));
  EXPECT_EQ((*store_->ReadShard(plan, &pool_)).state->version, 4);
  EXPECT_EQ(CutFiles(), 1);
}

TEST_F(CutStoreTest, UnreadableCutIsToldAndEndsWithItsEpoch) {
  const ShardPlan plan = Plan(/*replicas=*/1);
  Write(plan, 4);
  Write(plan, 8);
  const std::string file = bulk() + "/job.0.1.sst";
  Unreadable(file);
  Reopen();
  EXPECT_EQ((*store_->ListShards())[0].unreadable.code(), absl::StatusCode::kUnavailable);
  StepBack(plan, 4);
  Readable(file);
  Reopen();
  EXPECT_TRUE((*store_->ListShards())[0].unreadable.ok());
  EXPECT_THAT(Cuts(), ElementsAre("0.4"));
}

TEST_F(CutStoreTest, ListsShardsWithTheirGenerations) {
  const ShardPlan plan = Plan();
  Write(plan, 1);
  ASSERT_TRUE(store_->WriteRecord(plan.spec, {9, 0, {}}).ok());
  Reopen();
  const auto shards = store_->ListShards();
  ASSERT_TRUE(shards.ok());
  ASSERT_EQ(shards->size(), 1);
  EXPECT_EQ((*shards)[0].term.generation, 9);
  EXPECT_EQ((*shards)[0].spec.SerializeAsString(), plan.spec.SerializeAsString());
}

}  // namespace
}  // namespace millrace::ps
