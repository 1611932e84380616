// A process that applies pushes is killed at random moments, over and over: each successor must
// find in the arena every step that was acknowledged, once, with the exact values.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "ps/block/arena.h"
#include "ps/dense/arena_root.h"
#include "ps/shard/shard.h"
#include "ps/shard/shard_test_util.h"
#include "testing/seed/test_seed.h"

namespace millrace::ps {
namespace {

using ::millrace::testing::MakeMessage;
using ::millrace::testing::MakeSpec;
using ::millrace::testing::MakeWirePiece;
using ::millrace::testing::Newest;

constexpr uint64_t kVariableElements = kBlockElements + 100;
#ifdef MILLRACE_SANITIZER  // Each begins slowly.
constexpr int kLives = 10;
#else
constexpr int kLives = 40;
#endif

// What the lives tell each other, in memory that they share.
struct Told {
  std::atomic<uint64_t> begun;         // Steps below this may have been applied;
  std::atomic<uint64_t> acknowledged;  // those below this must have been.
  std::atomic<uint64_t> lives_that_found_a_root;
};

// All elements of a step's gradient. Whole numbers, whose sums are exact.
float Gradient(uint64_t step) { return static_cast<float>(step % 16); }

// The life of a process. Anything wrong ends it with an exit status.
class Life {
 public:
  Life(const std::string& directory, uint32_t replicas, Told* told)
      : plan_(*PlanShard(MakeSpec({kVariableElements}, replicas))),
        replicas_(replicas),
        told_(told) {
    ArenaOptions options;
    options.parent = directory;
    options.data_dir = directory;
    options.directory_id = "0123";
    arena_ = *Arena::Open(options);
    pool_ = std::make_unique<BlockPool>(arena_);
  }

  [[noreturn]] void Run() {
    Begin();
    while (true) PushNext();
  }

 private:
  static void Expect(bool condition, const std::string& what) {
    if (condition) return;
    absl::FPrintF(stderr, "%s\n", what);
    _exit(1);
  }

  void Begin() {
    auto found = RecoverArenaRoot(arena_, plan_, pool_.get());
    Expect(found.ok(), found.status().ToString());
    ShardContents contents;
    std::unique_ptr<ShardRoot> root;
    uint64_t generation = 1;
    if (found->has_value()) {
      RecoveredRoot& recovered = **found;
      ++told_->lives_that_found_a_root;
      contents.state = recovered.contents.state;
      contents.previous = recovered.contents.previous;
      generation = recovered.contents.generation;
      root = std::move(recovered.root);
      Check(recovered.contents);
    } else {
      Expect(told_->begun == 0, "there is no root");
      contents.state = *MakeInitialState(plan_, pool_.get());
      root = MakeArenaRoot(arena_, plan_);
    }
    arena_->EndRecovery();
    next_ = contents.state->applied.watermark();
    const bool reopened_with_gaps = found->has_value() && (*found)->contents.more_acknowledged;
    found = absl::optional<RecoveredRoot>();
    shard_ = std::make_unique<Shard>(*PlanShard(plan_.spec), generation, std::move(contents),
                                     pool_.get(), std::move(root));
    if (!reopened_with_gaps) return;
    told_->acknowledged = next_;  // From now on whoever asks is told what is missing.
    Expect(shard_->SetGeneration(generation + 1).ok(), "SetGeneration");
  }

  void Check(const RootContents& contents) const {
    const uint64_t replicas = std::max<uint64_t>(replicas_, 1);
    const uint64_t steps = contents.state->applied.watermark();
    const uint64_t acknowledged = told_->acknowledged;
    Expect(contents.state->applied.above().empty(), "steps above the watermark");
    Expect(steps == contents.state->version * replicas, "version and steps differ");
    Expect(steps <= told_->begun, "a step that nobody pushed");
    if (contents.more_acknowledged) {
      Expect(steps + replicas > acknowledged, "more is missing than what was held");
    } else {
      Expect(steps >= acknowledged,
             absl::StrCat(acknowledged, " steps were acknowledged, and ", steps, " are there"));
    }
    CheckValues(*contents.state);
    if (contents.previous == nullptr) return;
    Expect(contents.previous->version + 1 == contents.state->version, "another version before");
    CheckValues(*contents.previous);
  }

  void CheckValues(const ShardState& state) const {
    float expected = 0;
    for (uint64_t step = 0; step < state.applied.watermark(); ++step) expected -= Gradient(step);
    expected /= static_cast<float>(std::max<uint32_t>(replicas_, 1));
    for (const auto& block : state.blocks) {
      for (const float value : block->values()) {
        Expect(value == expected, absl::StrCat("at version ", state.version, " a value is ", value,
                                               ", not ", expected));
      }
    }
  }

  void PushNext() {
    told_->begun = std::max<uint64_t>(told_->begun, next_ + 1);
    DecodedPush message = MakeMessage(plan_.spec, next_, /*push_id=*/next_ + 1);
    message.header.set_generation(shard_->generation());
    const std::vector<float> gradient(kVariableElements, Gradient(next_));
    message.pieces.push_back(MakeWirePiece(0, 0, gradient));
    shard_->Push(/*stream=*/1, std::move(message), [this](const PushResponse& answer) {
      Expect(answer.code() == 0, answer.message());
      Expect(answer.outcome() != PushResponse::ALREADY_APPLIED, "a step was there already");
      told_->acknowledged = std::max<uint64_t>(told_->acknowledged, next_ + 1);
    });
    ++next_;
  }

  const ShardPlan plan_;
  const uint32_t replicas_;
  Told* const told_;
  std::shared_ptr<Arena> arena_;
  std::unique_ptr<BlockPool> pool_;
  std::unique_ptr<Shard> shard_;
  uint64_t next_ = 0;
};

class ShardKillTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(ShardKillTest, SuccessorHasEveryAcknowledgedStepOnce) {
  const auto seed = static_cast<unsigned>(TestSeed());
  std::mt19937 random(seed);
  const std::string directory = absl::StrCat(::testing::TempDir(), "/shard_kill_test_", GetParam());
  std::filesystem::remove_all(directory);
  std::filesystem::create_directories(directory);
  void* const memory = mmap(nullptr, sizeof(Told), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, /*fd=*/-1, /*offset=*/0);
  ASSERT_NE(memory, MAP_FAILED);
  Told* const told = new (memory) Told();
  for (int life = 0; life < kLives; ++life) {
    const uint64_t before = told->acknowledged;
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) Life(directory, GetParam(), told).Run();
    // Each fourth is killed while it begins; the others get on.
    const uint64_t wanted = life % 4 == 3 ? before : before + 1 + random() % 9;
    int status = 0;
    while (told->acknowledged < wanted && waitpid(child, &status, WNOHANG) == 0) usleep(100);
    usleep(random() % 3000);  // Not to wait for anything: to hit another moment each time.
    kill(child, SIGKILL);
    if (status == 0) {
      ASSERT_EQ(waitpid(child, &status, 0), child);
    }
    ASSERT_TRUE(WIFSIGNALED(status)) << "see above";
  }
  EXPECT_GT(told->lives_that_found_a_root, kLives / 2);
  munmap(memory, sizeof(Told));
}

INSTANTIATE_TEST_SUITE_P(Replicas, ShardKillTest, ::testing::Values(0, 1, 2));

}  // namespace
}  // namespace millrace::ps
