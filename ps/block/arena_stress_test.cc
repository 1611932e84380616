#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "ps/block/arena.h"

namespace millrace::ps {
namespace {

// In a new directory.
ArenaOptions MakeArenaOptions() {
  const std::string root = absl::StrCat(::testing::TempDir(), "/arena_stress_test");
  std::filesystem::remove_all(root);
  std::filesystem::create_directories(root);
  ArenaOptions options;
  options.parent = root;
  options.data_dir = root;
  options.directory_id = "0123";
  return options;
}

// It went without an arena for all its life.
TEST(ArenaStressTest, ServerWhoseNewDirectoryIsTakenForALeftOneMakesItAgain) {
  const ArenaOptions options = MakeArenaOptions();
  const std::string directory = options.parent + "/millrace-0123";
  std::atomic<bool> stop = false;
  std::atomic<bool> removes = false;
  std::thread other([&] {
    while (!stop) {
      if (removes && rmdir(directory.c_str()) == 0) removes = false;  // As if it were old.
    }
  });
  int taken = 0;
  for (int i = 0; i < 5000 && taken < 20; ++i) {
    removes = true;
    const auto arena = Arena::Open(options);
    EXPECT_TRUE(arena.ok()) << arena.status();
    taken += removes.exchange(false) ? 0 : 1;
    if (arena.ok()) (*arena)->Remove();
  }
  stop = true;
  other.join();
}

// Others deleted a new segment before its maker had a buffer of it, who then used ordinary memory.
TEST(ArenaStressTest, WhoeverMakesRoomHasIt) {
  constexpr size_t kBytes = 2 << 20;
  const ArenaOptions options = MakeArenaOptions();
  const std::shared_ptr<Arena> arena = *Arena::Open(options);
  arena->EndRecovery();
  std::atomic<bool> stop = false;
  std::vector<std::thread> others;
  for (int t = 0; t < 2; ++t) {
    others.emplace_back([&] {
      while (!stop) arena->Trim();
    });
  }
  int without = 0;
  for (int i = 0; i < 60; ++i) {
    const ArenaBuffer buffer = arena->Take(kBytes);
    if (buffer.data == nullptr) {
      ++without;
    } else {
      arena->Release(buffer.place);
      arena->Trim();
    }
  }
  stop = true;
  for (std::thread& other : others) other.join();
  EXPECT_EQ(without, 0);
}

}  // namespace
}  // namespace millrace::ps
