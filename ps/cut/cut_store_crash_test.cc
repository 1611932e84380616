// A process that writes cuts is killed at random moments; what it said was on the disk must be
// there, and what is there must be whole.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps/cut/cut_store.h"
#include "ps/shard/shard_test_util.h"
#include "testing/seed/test_seed.h"

namespace millrace::ps {
namespace {

using ::millrace::testing::MakeSpec;
using ::millrace::testing::Values;
using ::testing::Each;

constexpr int kLives = 8;

// Writes cuts of one version after the other, and says so on `said`, until it is killed.
[[noreturn]] void WriteCuts(const std::string& path, const ShardPlan& plan, int said) {
  BlockPool pool;
  const auto store = CutStore::Open(path);
  if (!store.ok()) _exit(1);
  uint64_t version = 0;
  const auto contents = (*store)->ReadShard(plan, &pool);
  if (contents.ok()) version = contents->state->version;
  if (!(*store)->WriteRecord(plan.spec, {1, 0, {}}).ok()) _exit(1);
  while (true) {
    ++version;
    auto state = std::make_shared<ShardState>();
    state->version = version;
    for (const BlockLayout::BlockPlace& place : plan.layout.blocks()) {
      std::shared_ptr<Block> block = pool.Allocate(place.elements, 0);
      std::fill_n(block->array(0), place.elements, static_cast<float>(version));
      state->blocks.push_back(std::move(block));
    }
    for (uint64_t step = 0; step < version; ++step) state->applied.Insert(step);
    if (!(*store)->WriteCut(plan, {0, std::move(state)}).ok()) _exit(1);
    if (!(*store)->Prune(plan, {}).ok()) _exit(1);
    if (write(said, &version, sizeof(version)) != sizeof(version)) _exit(1);
  }
}

// Reads what the child says, and kills it while it writes version `last` + 1 or a later one.
// Returns the last version that it said.
uint64_t KillAfter(pid_t child, int said, uint64_t cuts, unsigned microseconds) {
  uint64_t last = 0;
  for (uint64_t i = 0; i < cuts; ++i) {
    if (read(said, &last, sizeof(last)) != sizeof(last)) break;
  }
  usleep(microseconds);  // Not to wait for anything: to hit another moment each time.
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status)) << "the writer failed";
  uint64_t more;
  while (read(said, &more, sizeof(more)) == sizeof(more)) last = more;
  return last;
}

// What the database has after the writer said `said`.
void Check(const std::string& path, const ShardPlan& plan, uint64_t said) {
  BlockPool pool;
  const auto store = CutStore::Open(path);
  ASSERT_TRUE(store.ok()) << store.status();
  const auto contents = (*store)->ReadShard(plan, &pool);
  ASSERT_TRUE(contents.ok()) << contents.status();
  const uint64_t version = contents->state->version;
  EXPECT_GE(version, said);
  EXPECT_LE(version, said + 1) << "one may have been committed before it could be said";
  EXPECT_EQ(contents->state->applied.watermark(), version);
  EXPECT_THAT(Values(*contents->state), Each(static_cast<float>(version)));
}

// Only children open the database: its threads are not there after a fork.
TEST(CutStoreCrashTest, CommittedCutsSurviveAndOthersDoNotExist) {
  const auto seed = static_cast<unsigned>(TestSeed());
  std::mt19937 random(seed);
  const std::string path = absl::StrCat(::testing::TempDir(), "/cut_store_crash_test");
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  const ShardPlan plan = *PlanShard(MakeSpec({3 * kBlockElements, 5}));
  for (int life = 0; life < kLives; ++life) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t writer = fork();
    ASSERT_GE(writer, 0);
    if (writer == 0) {
      close(ends[0]);
      WriteCuts(path, plan, ends[1]);
    }
    close(ends[1]);
    const uint64_t said = KillAfter(writer, ends[0], 1 + random() % 4, random() % 20'000);
    close(ends[0]);
    const pid_t checker = fork();
    ASSERT_GE(checker, 0);
    if (checker == 0) {
      Check(path, plan, said);
      _exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(checker, &status, 0), checker);
    ASSERT_EQ(status, 0) << "see above";
  }
}

}  // namespace
}  // namespace millrace::ps
