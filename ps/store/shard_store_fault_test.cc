// Every operation on the disk fails once, in every way, during each thing that a store does:
// afterwards the old or the new state is there, never a mix, and the store goes on.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps/shard/shard_test_util.h"
#include "ps/store/checkpoint_test_util.h"
#include "ps/store/fake_source.h"
#include "ps/store/shard_store.h"
#include "testing/directory/test_directory.h"
#include "testing/faults/fault_file_system.h"

namespace millrace::ps {
namespace {

using ::millrace::testing::Fault;
using ::millrace::testing::FaultFileSystem;
using ::millrace::testing::MakeSpec;
using ::millrace::testing::Newest;
using ::millrace::testing::PushWhole;
using ::millrace::testing::TestJob;
using ::millrace::testing::Values;
using ::millrace::testing::WriteWholeCheckpoint;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::IsEmpty;

constexpr size_t kElements = 40;
// More operations than anything here takes.
constexpr uint64_t kEndless = 1000;

// What a test does, and what is there when it has not happened, and when it has: "EPOCH.VERSION" of
// the shard and its generation, or "none".
struct Deed {
  std::string name;
  std::function<absl::Status(ShardStore*)> act;
  std::string before;
  std::string after;
  std::string between = {};  // May be found as well.
};

class ShardStoreFaultTest : public ::testing::TestWithParam<Fault> {
 protected:
  ShardStoreFaultTest()
      : directory_(absl::StrCat(::testing::TempDir(), "/shard_store_fault_test_",
                                static_cast<int>(GetParam()))) {}

  bool Stops() const { return GetParam() == Fault::kTorn || GetParam() == Fault::kPowerOff; }

  void Open() {
    files_ = std::make_shared<FaultFileSystem>();
    ShardStoreOptions options;
    options.clock = &clock_;
    options.file_system = files_;
    auto store = ShardStore::Open(directory_, options);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  // A synchronous shard at version 4, with cuts of versions 2 and 3; or nothing.
  void Begin() {
    store_.reset();
    std::filesystem::remove_all(directory_);
    Open();
    if (empty_) return;
    ASSERT_TRUE(store_->Create(MakeSpec({kElements}, /*replicas=*/1), 1).ok());
    for (uint64_t step = 0; step < 4; ++step) {
      PushWhole(store_->shards().Find("job", 0)->get(), step, step,
                std::vector<float>(kElements, 1));
      if (step == 0 || step == 3) continue;
      ASSERT_TRUE(store_->Flush("job", 0, 1).ok());
    }
  }

  void CutPower() {
    files_->PowerOff();
    store_.reset();
    files_->DropUnsynced();
    Open();
  }

  // What is there; the values must fit it.
  std::string Found() {
    const auto shard = store_->shards().Find("job", 0);
    if (!shard.ok()) return "none";
    const ShardStatus status = (*shard)->Status();
    EXPECT_THAT(Values(*Newest(shard->get())), Each(-static_cast<float>(status.version())));
    EXPECT_EQ(status.applied().watermark(), status.version());
    for (const CutName& cut : status.cuts()) EXPECT_LE(cut.version(), status.version());
    return absl::StrCat(status.epoch(), ".", status.version(), " ", status.generation());
  }

  // Lets operation number `operation` fail. Returns whether there was one.
  bool FailAt(const Deed& deed, uint64_t operation) {
    Begin();
    files_->Arm(operation, GetParam());
    absl::Status status = deed.act(store_.get());
    const bool fired = files_->fired();
    files_->Heal();
    for (int i = 0; i < 3 && !status.ok() && !Stops(); ++i) {
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
      clock_.Advance(RocksDatabase::kResumePause);
      status = deed.act(store_.get());
    }
    if (!Stops()) {
      EXPECT_TRUE(status.ok()) << "it does not go on: " << status;
    }
    CutPower();
    const std::string found = Found();
    EXPECT_THAT(found, AnyOf(deed.before, deed.between, deed.after));
    if (found == "none") {
      EXPECT_THAT(FilesIn(directory_ + "/db.bulk", ".sst"), IsEmpty());
    }
    if (status.ok()) {
      EXPECT_EQ(found, deed.after);
    }
    return fired;
  }

  void FailAtEach(const Deed& deed) {
    uint64_t operation = 0;
    for (bool fired = true; fired && !HasFailure() && operation < kEndless; ++operation) {
      SCOPED_TRACE(absl::StrCat(deed.name, ", operation ", operation));
      fired = FailAt(deed, operation);
    }
    EXPECT_GT(operation, 1) << "it does nothing";
    EXPECT_LT(operation, kEndless);
  }

  const std::string directory_;
  bool empty_ = false;
  SimulatedClock clock_;
  std::shared_ptr<FaultFileSystem> files_;
  std::unique_ptr<ShardStore> store_;
};

TEST_P(ShardStoreFaultTest, FlushOfACut) {
  FailAtEach({"flush", [](ShardStore* store) { return store->Flush("job", 0, 1).status(); },
              "0.3 1", "0.4 1"});
}

TEST_P(ShardStoreFaultTest, CleanStop) {
  FailAtEach({"stop", [](ShardStore* store) { return store->Stop(); }, "0.3 1", "0.4 1"});
}

TEST_P(ShardStoreFaultTest, SteppingBack) {
  StepBackRequest request;
  request.set_job_id("job");
  request.set_generation(1);
  request.mutable_cut()->set_version(2);
  request.set_epoch(1);
  FailAtEach({"step back",
              [request](ShardStore* store) { return store->StepBack(request).status(); }, "0.3 1",
              "1.2 1"});
}

TEST_P(ShardStoreFaultTest, SteppingBackToTheInitialValues) {
  StepBackRequest request;
  request.set_job_id("job");
  request.set_generation(1);
  request.mutable_cut()->set_version(0);
  request.set_epoch(5);
  FailAtEach({"step back",
              [request](ShardStore* store) { return store->StepBack(request).status(); }, "0.3 1",
              "5.0 1"});
}

TEST_P(ShardStoreFaultTest, StoringAGeneration) {
  FailAtEach({"generation",
              [](ShardStore* store) { return store->SetGeneration("job", 0, 7).status(); }, "0.3 1",
              "0.3 7"});
}

// What is in the checkpoint is a shard with five steps.
TEST_P(ShardStoreFaultTest, RestoringAShard) {
  const std::string checkpoints = directory_ + "_checkpoints";
  std::filesystem::remove_all(checkpoints);
  std::filesystem::create_directories(checkpoints);
  OptimizerSpec sgd;
  sgd.mutable_sgd()->set_learning_rate(1);
  const TestJob job({kElements}, sgd, /*replicas=*/1);
  ShardSpec spec = job.Shards(1)[0];
  spec.mutable_slices(0)->mutable_initial_value()->set_constant(0);
  Begin();
  ASSERT_TRUE(store_->Drop("job", 0, 1).ok());
  ASSERT_TRUE(store_->Create(spec, 1).ok());
  for (uint64_t step = 0; step < 5; ++step) {
    PushWhole(store_->shards().Find("job", 0)->get(), step, step, std::vector<float>(kElements, 1));
  }
  const uint64_t number = WriteWholeCheckpoint(store_.get(), job, 1, checkpoints);
  spec = TestJob::Restored({spec}, checkpoints, number)[0];
  empty_ = true;
  FailAtEach({"restore", [spec](ShardStore* store) { return store->Create(spec, 1).status(); },
              "none", "0.5 1"});
}

// What is taken over has five steps. Where an older shard is in its way, that one goes first.
TEST_P(ShardStoreFaultTest, CopyingAShard) {
  Begin();
  std::shared_ptr<Shard> shard = *store_->shards().Find("job", 0);
  PushWhole(shard.get(), 4, 4, std::vector<float>(kElements, 1));
  ShardSnapshot snapshot;
  *snapshot.mutable_spec() = shard->plan().spec;
  const StatePtr state = Newest(shard.get());
  snapshot.set_version(state->version);
  *snapshot.mutable_applied() = state->applied.ToProto();
  shard.reset();  // Before its store.
  CopyShardRequest request;
  request.set_job_id("job");
  request.set_generation(3);
  request.set_source_generation(2);
  const auto copy = [&](ShardStore* store) {
    FakeSource source(snapshot, state);
    return store->Copy(request, source).status();
  };
  FailAtEach({"copy over another", copy, "0.3 1", "0.5 3", "none"});
  empty_ = true;
  FailAtEach({"copy", copy, "none", "0.5 3"});
}

TEST_P(ShardStoreFaultTest, DroppingAShard) {
  FailAtEach({"drop", [](ShardStore* store) { return store->Drop("job", 0, 1); }, "0.3 1", "none"});
}

INSTANTIATE_TEST_SUITE_P(Faults, ShardStoreFaultTest,
                         ::testing::Values(Fault::kError, Fault::kFull, Fault::kTorn,
                                           Fault::kPowerOff));

}  // namespace
}  // namespace millrace::ps
