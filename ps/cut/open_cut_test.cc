// What cuts are read from other than to serve their shard: bit by bit, with checksums; and shards
// whose first state is a cut.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps/cut/cut_checksums.h"
#include "ps/cut/cut_fixture.h"
#include "ps/cut/cut_keys.h"
#include "ps/cut/cut_store.h"
#include "ps/cut/database.h"
#include "ps/shard/shard_test_util.h"

namespace millrace::ps {
namespace {

using ::millrace::testing::Values;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class OpenCutTest : public CutFixture {
 protected:
  // One that starts from files.
  static ShardSpec StoredSpec(uint32_t replicas = 0) {
    ShardSpec spec = Spec(replicas);
    spec.mutable_restore()->set_directory("/checkpoints");
    spec.mutable_restore()->set_checkpoint(1);
    spec.mutable_restore()->set_manifest_checksum(std::string(32, '0'));
    return spec;
  }

  CutContents Contents(const ShardPlan& plan, uint64_t version, uint64_t epoch = 0) {
    return {epoch, State(plan, version)};
  }

  void Write(const ShardPlan& plan, uint64_t version, uint64_t epoch = 0) {
    ASSERT_TRUE(store_->WriteRecord(plan.spec, {1, epoch, {}}).ok());
    const absl::Status status = store_->WriteCut(plan, Contents(plan, version, epoch));
    ASSERT_TRUE(status.ok()) << status;
  }

  void WriteFirst(const ShardPlan& plan, uint64_t version, uint64_t epoch) {
    auto staged = store_->StageFirstCut(plan, Contents(plan, version, epoch));
    ASSERT_TRUE(staged.ok()) << staged.status();
    ASSERT_TRUE(store_->CommitFirstCut(plan.spec, {1, epoch, {}}, *std::move(staged)).ok());
  }

  // Writes a cut whose values are changed on their way to the disk.
  using Change = std::function<void(const std::string& key, std::string* value)>;
  void WriteChanged(const ShardPlan& plan, uint64_t number, uint64_t version,
                    const Change& change) {
    ASSERT_TRUE(store_->WriteRecord(plan.spec, {1, 0, {}}).ok());
    store_.reset();
    auto database = Database::Open(path_);
    ASSERT_TRUE(database.ok()) << database.status();
    const CutContents contents = Contents(plan, version);
    auto staged = (*database)->Stage(0, [&](const Database::Put& put) {
      return PutCut(plan, number, contents, [&](absl::string_view key, absl::string_view value) {
        std::string changed(value);
        change(std::string(key), &changed);
        return put(key, changed);
      });
    });
    ASSERT_TRUE(staged.ok()) << staged.status();
    const std::string name = CutFileName(ShardKey("job", 0), number);
    ASSERT_TRUE((*database)->Adopt(*std::move(staged), name).ok());
    database->reset();
    Reopen();
  }

  static std::string Bytes(const Block& block, int array) {
    return std::string(reinterpret_cast<const char*>(block.array(array)),
                       block.elements() * sizeof(float));
  }
};

TEST_F(OpenCutTest, EachArrayIsReadInAnyOrderWithItsChecksum) {
  const ShardPlan plan = *PlanShard(Spec());
  Write(plan, 7);
  const auto cut = store_->OpenNewestCut(plan);
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_EQ((*cut)->manifest().version(), 7);
  const CutContents expected = Contents(plan, 7);
  for (const int array : {1, 0}) {
    for (size_t block = 3; block-- > 0;) {
      const auto bytes = (*cut)->Read(block, array);
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      EXPECT_TRUE(*bytes == Bytes(*expected.state->blocks[block], array));
      EXPECT_EQ((*cut)->Checksum(block, array), BinaryChecksum(*bytes));
    }
  }
}

TEST_F(OpenCutTest, StaysReadableWhenItIsPrunedAndItsShardDropped) {
  const ShardPlan plan = *PlanShard(Spec());
  Write(plan, 7);
  const auto cut = store_->OpenNewestCut(plan);
  Write(plan, 8);
  ASSERT_TRUE(store_->Prune(plan, {}).ok());
  ASSERT_TRUE(store_->DropShard("job", 0).ok());
  EXPECT_EQ(CutFiles(), 0);
  for (size_t block = 0; block < 3; ++block) {
    EXPECT_TRUE((*cut)->Read(block, 1).ok()) << block;
  }
}

TEST_F(OpenCutTest, IsFoundByItsNameWhileItIsThere) {
  const ShardPlan plan = *PlanShard(Spec());
  EXPECT_EQ(store_->OpenNewestCut(plan).status().code(), absl::StatusCode::kNotFound);
  Write(plan, 7);
  Write(plan, 8);
  EXPECT_EQ((*store_->OpenCutFile(plan, Name(0, 7)))->manifest().version(), 7);
  EXPECT_EQ((*store_->OpenNewestCut(plan))->manifest().version(), 8);
  ASSERT_TRUE(store_->Prune(plan, {}).ok());
  EXPECT_EQ(store_->OpenCutFile(plan, Name(0, 7)).status().code(), absl::StatusCode::kNotFound);
}

// As written by a program that knew no checksums.
TEST_F(OpenCutTest, CutWithoutChecksumsIsReadAllTheSame) {
  const ShardPlan plan = *PlanShard(Spec());
  WriteChanged(plan, 0, 7, [](const std::string& key, std::string* value) {
    if (key != ManifestKey(ShardKey("job", 0), 0)) return;
    CutManifest manifest;
    manifest.ParseFromString(*value);
    manifest.clear_checksums();
    *value = manifest.SerializeAsString();
  });
  EXPECT_THAT(Values(*store_->ReadShard(plan, &pool_)->state), Each(7));
  const auto cut = store_->OpenNewestCut(plan);
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_EQ((*cut)->Checksum(1, 1), "");
  EXPECT_TRUE((*cut)->Read(1, 1).ok());
}

TEST_F(OpenCutTest, ValueThatIsNotWhatWasInMemoryIsDamage) {
  const ShardPlan plan = *PlanShard(Spec());
  WriteChanged(plan, 0, 7, [](const std::string& key, std::string* value) {
    if (key == BlockKey(ShardKey("job", 0), 0, 1, 1)) (*value)[5] ^= 1;
  });
  const auto cut = store_->OpenNewestCut(plan);
  EXPECT_TRUE((*cut)->Read(1, 0).ok());
  const absl::Status status = (*cut)->Read(1, 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("array 1 of block 1"));
  EXPECT_EQ(store_->ReadShard(plan, &pool_).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(store_->OpenNewestCut(plan).status().code(), absl::StatusCode::kDataLoss)
      << "it is a cut no more";
  EXPECT_THAT(Cuts(), IsEmpty());
}

// Initial values were taken for the state of a shard that was trained.
TEST_F(OpenCutTest, ShardWhoseOnlyCutIsDamagedIsLostAndDoesNotBeginAnew) {
  const ShardPlan plan = *PlanShard(Spec());
  WriteChanged(plan, 0, 7, [](const std::string& key, std::string* value) {
    if (key == BlockKey(ShardKey("job", 0), 0, 1, 1)) (*value)[5] ^= 1;
  });
  store_->GiveUp(plan, 0, absl::DataLossError("it is damaged"));
  for (const bool reopened : {false, true}) {
    if (reopened) {
      // What others need is removed, and this stays.
      ASSERT_TRUE(store_->Prune(plan, {}).ok());
      ASSERT_TRUE(store_->WriteRecord(plan.spec, {2, 0, {}}).ok());
      Reopen();
    }
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(store_->ReadShard(plan, &pool_).status().code(), absl::StatusCode::kDataLoss);
      EXPECT_EQ(store_->OpenNewestCut(plan).status().code(), absl::StatusCode::kDataLoss);
    }
  }
  Write(plan, 8);
  ASSERT_TRUE(store_->Prune(plan, {}).ok());
  EXPECT_EQ(store_->ReadShard(plan, &pool_)->state->version, 8);
  EXPECT_FALSE(std::filesystem::exists(path_ + ".bulk/job.0.0.sst"));
}

// They began at 0 again, so that what was written of one was removed as a file of the other.
TEST_F(OpenCutTest, CutsOfAShardThatIsMadeAgainHaveOtherNumbers) {
  const ShardPlan plan = *PlanShard(StoredSpec());
  WriteFirst(plan, 5, 0);
  const uint64_t number = (*store_->OpenNewestCut(plan))->number();
  ASSERT_TRUE(store_->DropShard("job", 0).ok());
  auto staged = store_->StageFirstCut(plan, Contents(plan, 6));
  ASSERT_TRUE(staged.ok()) << staged.status();
  ASSERT_TRUE(store_->DropShard("job", 0).ok());
  ASSERT_TRUE(store_->CommitFirstCut(plan.spec, {1, 0, {}}, *std::move(staged)).ok());
  EXPECT_GT((*store_->OpenNewestCut(plan))->number(), number);
  store_->GiveUp(plan, number, absl::DataLossError("a cut of the shard before"));
  Write(plan, 7);
  ASSERT_TRUE(store_->Prune(plan, {}).ok());
  EXPECT_THAT(Cuts(), ElementsAre("0.7"));
  EXPECT_EQ(store_->ReadShard(plan, &pool_)->state->version, 7);
}

TEST_F(OpenCutTest, ManifestWithTooFewChecksumsIsDamage) {
  const ShardPlan plan = *PlanShard(Spec());
  WriteChanged(plan, 0, 7, [](const std::string& key, std::string* value) {
    if (key != ManifestKey(ShardKey("job", 0), 0)) return;
    CutManifest manifest;
    manifest.ParseFromString(*value);
    manifest.mutable_checksums()->pop_back();
    *value = manifest.SerializeAsString();
  });
  EXPECT_EQ(store_->OpenNewestCut(plan).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE(store_->Has(plan.spec, 0, 7)) << "a flush writes it anew";
}

TEST_F(OpenCutTest, ShardThatStartsFromFilesHasItsFirstCutOrNothing) {
  const ShardPlan plan = *PlanShard(StoredSpec());
  WriteFirst(plan, 0, 0);
  Reopen();
  EXPECT_THAT(Cuts(), ElementsAre("0.0"));
  EXPECT_EQ(store_->ReadShard(plan, &pool_)->state->blocks[1]->array(1)[2], 100);
  const auto at_0 = store_->ReadCut(plan, Name(0, 0), &pool_);
  EXPECT_EQ((*at_0)->blocks[1]->array(1)[2], 100) << "not the initial values";
  std::filesystem::remove(path_ + ".bulk/job.0.0.sst");
  Reopen();
  EXPECT_EQ(store_->ReadShard(plan, &pool_).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(store_->ReadCut(plan, Name(0, 0), &pool_).status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(store_->Has(plan.spec, 0, 0));
}

TEST_F(OpenCutTest, FirstCutThatIsNotCommittedIsNobodys) {
  const ShardPlan plan = *PlanShard(StoredSpec());
  auto staged = store_->StageFirstCut(plan, Contents(plan, 5));
  ASSERT_TRUE(staged.ok()) << staged.status();
  staged->reset();
  EXPECT_THAT(*store_->ListShards(), IsEmpty());
  EXPECT_EQ(CutFiles(), 0);
  WriteFirst(plan, 5, 3);
  EXPECT_THAT(Cuts(), ElementsAre("3.5"));
}

TEST_F(OpenCutTest, FirstCutWhoseRecordCannotBeWrittenIsNone) {
  const ShardPlan plan = *PlanShard(StoredSpec());
  int writes_until_error = -1;
  DatabaseOptions options;
  options.fault = [&](absl::string_view operation) {
    const bool fails = operation == "write" && writes_until_error-- == 0;
    return fails ? absl::UnavailableError("it is full") : absl::OkStatus();
  };
  for (const auto& [restarted, failing_write] :
       {std::pair(false, 0), std::pair(false, 1), std::pair(true, 0), std::pair(true, 1)}) {
    store_.reset();
    store_ = *CutStore::Open(path_, options);
    auto staged = store_->StageFirstCut(plan, Contents(plan, 5));
    ASSERT_TRUE(staged.ok()) << staged.status();
    writes_until_error = failing_write;  // Of the mark that files of its name go, or the record.
    EXPECT_EQ(store_->CommitFirstCut(plan.spec, {1, 0, {}}, *std::move(staged)).code(),
              absl::StatusCode::kUnavailable);
    EXPECT_FALSE(store_->Knows("job", 0));
    if (restarted) {
      Reopen();
      EXPECT_THAT(*store_->ListShards(), IsEmpty());
      EXPECT_EQ(CutFiles(), 0);
    }
    WriteFirst(plan, 4, 0);
    Reopen();
    EXPECT_THAT(Cuts(), ElementsAre("0.4"));
    EXPECT_EQ(CutFiles(), 1);
    ASSERT_TRUE(store_->DropShard("job", 0).ok());
  }
}

// Nobody may know the common cut of a job that has just been restored.
TEST_F(OpenCutTest, WhereVersionZeroIsNoCutNothingIsOlderThanIt) {
  const ShardPlan plan = *PlanShard(StoredSpec(/*replicas=*/1));
  WriteFirst(plan, 5, 3);
  for (uint64_t version = 6; version < 10; ++version) Write(plan, version, 3);
  ASSERT_TRUE(store_->Prune(plan, CutName()).ok());
  EXPECT_THAT(Cuts(), ElementsAre("3.5", "3.6", "3.7", "3.8", "3.9"));
  ASSERT_TRUE(store_->Prune(plan, Name(3, 8)).ok());
  EXPECT_THAT(Cuts(), ElementsAre("3.8", "3.9"));
}

TEST_F(OpenCutTest, VersionZeroFromFilesGoesWhenALaterCutIsCommon) {
  ShardSpec spec = Spec(/*replicas=*/1);
  InitialValue& value = *spec.mutable_slices(0)->mutable_initial_value();
  value.mutable_stored()->set_path("/values.safetensors");
  value.mutable_stored()->set_name("a");
  const ShardPlan plan = *PlanShard(spec);
  WriteFirst(plan, 0, 0);
  Write(plan, 4);
  ASSERT_TRUE(store_->Prune(plan, Name(0, 0)).ok());
  EXPECT_THAT(Cuts(), ElementsAre("0.0", "0.4"));
  ASSERT_TRUE(store_->Prune(plan, Name(0, 4)).ok());
  EXPECT_THAT(Cuts(), ElementsAre("0.4"));
  EXPECT_EQ(store_->ReadCut(plan, Name(0, 0), &pool_).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace millrace::ps
