// Checkpoints with scripted shards, whose files are real, and the real directory.
#ifndef MILLRACE_COORDINATOR_CHECKPOINT_CHECKPOINTER_FIXTURE_H_
#define MILLRACE_COORDINATOR_CHECKPOINT_CHECKPOINTER_FIXTURE_H_

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/checkpoint/checkpoint_directory.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "coordinator/checkpoint/checkpointer.h"
#include "coordinator/testing/fake_shard_files.h"
#include "gtest/gtest.h"
#include "testing/directory/test_directory.h"

namespace millrace::coordinator {

inline constexpr char kSavedJob[] = "j-1";
inline constexpr uint64_t kSavedSteps = 1000;

inline ShardSpec SpecOf(uint32_t shard, const std::string& job_id = kSavedJob) {
  ShardSpec spec;
  spec.set_job_id(job_id);
  spec.set_shard(shard);
  ShardSlice& slice = *spec.add_slices();
  slice.set_variable_name("w");
  slice.mutable_slice()->set_offset(shard * 10);
  slice.mutable_slice()->set_length(10);
  spec.mutable_optimizer()->mutable_sgd();
  return spec;
}

// They write when the test says so.
class ScriptedShards final : public CheckpointShards {
 public:
  explicit ScriptedShards(int count) : states(count) {}

  void StartWrite(const WriteCheckpointRequest& asked, std::function<void()> on_end) override {
    ASSERT_FALSE(request);
    request = asked;
    on_end_ = std::move(on_end);
  }
  absl::optional<absl::StatusOr<std::vector<WriteCheckpointResponse>>> TakeWritten() override {
    auto taken = std::exchange(answer_, absl::nullopt);
    if (taken) request.reset();
    return taken;
  }
  void CancelWrite() override {
    request.reset();
    answer_.reset();
    ++cancelled;
  }
  std::string WhoWrites() const override { return "ps-1"; }
  std::string ServerOf(uint32_t shard) const override { return servers[shard]; }
  absl::Status UnpinCut(uint64_t /*generation*/, const std::string& cut_id) override {
    unpinned.push_back(cut_id);
    return absl::OkStatus();
  }

  // Each shard writes what `states` has of it.
  void Write() {
    std::vector<WriteCheckpointResponse> answers;
    for (uint32_t i = 0; i < states.size(); ++i) {
      const auto written = WriteFakeShard(*request, SpecOf(i, job_id), states[i]);
      ASSERT_TRUE(written.ok()) << written.status();
      *answers.emplace_back().mutable_shard() = *written;
      answers.back().set_extra_memory(i + 1);
    }
    End(std::move(answers));
  }
  void End(absl::StatusOr<std::vector<WriteCheckpointResponse>> answer) {
    answer_ = std::move(answer);
    on_end_();
  }
  void SetStates(uint64_t watermark, uint64_t version = 0, uint64_t epoch = 0) {
    for (ShardStatus& state : states) {
      state.mutable_applied()->set_watermark(watermark);
      state.set_version(version);
      state.set_epoch(epoch);
    }
  }

  std::string job_id = kSavedJob;
  std::vector<ShardStatus> states;
  std::vector<std::string> servers = {"ps-0", "ps-1"};
  absl::optional<WriteCheckpointRequest> request;  // That is under way.
  int cancelled = 0;
  std::vector<std::string> unpinned;

 private:
  std::function<void()> on_end_;
  absl::optional<absl::StatusOr<std::vector<WriteCheckpointResponse>>> answer_;
};

class CheckpointerTest : public ::testing::Test {
 protected:
  CheckpointerTest() {
    spec_.mutable_checkpoints()->set_directory(directory_);
    spec_.mutable_checkpoints()->mutable_period()->set_seconds(600);
    spec_.mutable_optimizer()->mutable_sgd();
    clock_.Advance(absl::Hours(9));
  }

  void Open(const FileSystemPtr& file_system = RealFileSystem()) {
    checkpointer_ = std::make_unique<Checkpointer>(
        Checkpointer::Options{
            .spec = spec_,
            .owner = owner_,
            .total_steps = kSavedSteps,
            .newest = newest_,
            .last_number = last_number_,
            .restored = restored_,
            .restored_is_here = restored_.directory() == directory_,
            .bytes = bytes_,
            .describe_job =
                [this, earlier = owner_.earlier_job_ids](CheckpointManifest* manifest) {
                  if (best_.step() > 0) *manifest->mutable_best() = best_;
                  manifest->mutable_earlier_job_ids()->Assign(earlier.begin(), earlier.end());
                  JobPlan& plan = *manifest->mutable_plan();
                  plan.set_train_examples(7);
                  plan.add_variables()->set_name("w");
                  plan.mutable_variables(0)->add_shape(20);
                },
            .wake = [this] { Wake(); },
            .file_system = file_system,
            .hold = hold_,
            .clock = &clock_,
            .start_thread = start_thread_},
        &requests_);
    Attach();
  }
  void Attach(uint64_t watermark = 0, const std::set<uint64_t>& damaged = {}) {
    checkpointer_->Attach({.shards = &shards_,
                           .count = static_cast<int>(shards_.states.size()),
                           .generation = 3,
                           .epoch = 2,
                           .watermark = watermark,
                           .is_remade = !damaged.empty(),
                           .damaged = damaged});
  }
  // Has found out what there is in the directory.
  void OpenIdle() {
    Open();
    AwaitIdle();
  }

  void Wake() {
    MutexLock lock(&mutex_);
    ++wakes_;
    woken_.SignalAll();
  }

  void At(uint64_t step) {
    situation_.applied = situation_.watermark = step;
    shards_.SetStates(step);
  }
  void Advance() {
    checkpointer_->Advance(situation_);
    checkpointer_->TellRequests();
  }

  // Advances whenever something has ended, until `reached`.
  void AwaitThat(const std::function<bool()>& reached) {
    const absl::Time deadline = Clock::Real()->Now() + absl::Seconds(60);
    for (;;) {
      int wakes = 0;
      {
        MutexLock lock(&mutex_);
        wakes = wakes_;
      }
      Advance();
      if (reached()) return;
      MutexLock lock(&mutex_);
      while (wakes_ == wakes) {
        ASSERT_FALSE(Clock::Real()->WaitUntil(&woken_, &mutex_, deadline)) << "nothing ends";
      }
    }
  }
  int Wakes() {
    MutexLock lock(&mutex_);
    return wakes_;
  }
  // Waits until something has ended since there were so many wakes, and does not look at it.
  void AwaitWake(int wakes) {
    const absl::Time deadline = Clock::Real()->Now() + absl::Seconds(60);
    MutexLock lock(&mutex_);
    while (wakes_ == wakes) {
      ASSERT_FALSE(Clock::Real()->WaitUntil(&woken_, &mutex_, deadline)) << "nothing ends";
    }
  }
  void AwaitIdle() {
    AwaitThat([this] { return !checkpointer_->under_way(); });
  }
  void AwaitWriting() {
    AwaitThat([this] { return shards_.request.has_value(); });
  }
  // One that is due, from its beginning to its end.
  void WriteOne() {
    AwaitWriting();
    shards_.Write();
    AwaitIdle();
  }
  void AwaitMayEnd(const absl::optional<CutName>& cut = absl::nullopt) {
    AwaitThat([&] { return checkpointer_->MayEnd(cut); });
  }

  // At the end of training, whose first try of a last checkpoint finds the directory held by
  // `other`, which says that it is `who`.
  void EndWhileHeldBy(CheckpointHold* other, const std::string& who) {
    ASSERT_TRUE(other->Take(who, /*makes_directory=*/true).ok());
    hold_ = std::make_shared<CheckpointHold>(RealFileSystem(), directory_);
    OpenIdle();
    At(kSavedSteps);
    EXPECT_FALSE(checkpointer_->MayEnd(absl::nullopt));
    AwaitIdle();
  }

  // What becomes of a request.
  std::shared_ptr<absl::optional<absl::StatusOr<CheckpointInfo>>> Request(
      const std::string& cause = "a client asked for it", bool urgent = false) {
    auto result = std::make_shared<absl::optional<absl::StatusOr<CheckpointInfo>>>();
    requests_.Add({cause, urgent, [result](const auto& info) { *result = info; }});
    return result;
  }

  std::vector<uint64_t> Numbers() {
    std::vector<uint64_t> numbers;
    const auto listed = CheckpointDirectory(RealFileSystem(), directory_).List();
    if (!listed.ok()) return numbers;
    for (const auto& each : *listed) numbers.push_back(each.number);
    return numbers;
  }
  CheckpointManifest Manifest(uint64_t number) {
    const auto listed = CheckpointDirectory(RealFileSystem(), directory_).List();
    for (const auto& each : listed.value()) {
      if (each.number == number) return each.manifest.value();
    }
    ADD_FAILURE() << "no checkpoint " << number;
    return {};
  }
  std::vector<std::string> Folders() {
    std::vector<std::string> folders;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      if (entry.is_directory()) folders.push_back(entry.path().filename());
    }
    std::sort(folders.begin(), folders.end());
    return folders;
  }

  std::vector<std::string> FilesOf(const std::string& folder) {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(directory_ + "/" + folder)) {
      files.push_back(entry.path().filename());
    }
    std::sort(files.begin(), files.end());
    return files;
  }

  // Of a synchronous job with two contributions: shards at `version`, with these cuts.
  void AtVersion(uint64_t version, const std::vector<uint64_t>& cuts) {
    situation_.applied = situation_.watermark = 2 * version;
    situation_.newest_version = version;
    situation_.version_ahead = version + 20;
    for (ShardStatus& state : shards_.states) {
      state.set_version(version);
      state.set_epoch(2);
      state.clear_cuts();
      for (const uint64_t cut : cuts) {
        state.add_cuts()->set_epoch(2);
        state.mutable_cuts(state.cuts_size() - 1)->set_version(cut);
      }
    }
    situation_.shards = shards_.states;
  }
  void WriteCut(uint64_t version) {
    AwaitWriting();
    EXPECT_EQ(shards_.request->cut().version(), version);
    EXPECT_EQ(shards_.request->cut().epoch(), 2u);
    const std::vector<ShardStatus> before = shards_.states;
    shards_.SetStates(2 * version, version, 2);
    shards_.Write();
    AwaitIdle();
    shards_.states = before;
    situation_.shards = shards_.states;
  }

  const std::string directory_ = TestDirectory("checkpoints");
  SimulatedClock clock_;
  JobSpec spec_;
  CheckpointOwner owner_{.job_id = kSavedJob, .earlier_job_ids = {}};
  CheckpointInfo newest_;
  CheckpointInfo restored_;
  uint64_t bytes_ = 0;
  BestEvaluation best_;  // That the job knows of.
  std::shared_ptr<CheckpointHold> hold_;
  uint64_t last_number_ = 0;
  ThreadStarter start_thread_ = StartThread;
  CheckpointRequests requests_;
  ScriptedShards shards_{2};
  Mutex mutex_;
  CondVar woken_;
  int wakes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<Checkpointer> checkpointer_;
  Checkpointer::Situation situation_;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_CHECKPOINT_CHECKPOINTER_FIXTURE_H_
