#include "worker/device/cpu/thread_settings.h"

#include <atomic>
#include <future>
#include <limits>
#include <thread>

#include "gtest/gtest.h"
#include "worker/device/cpu/openmp.h"

namespace millrace::worker {
namespace {

bool DenormalsAreZero() {
  volatile float smallest = std::numeric_limits<float>::min();
  volatile float half = smallest * 0.5f;
  return half == 0;
}

TEST(ThreadSettingsTest, HoldInTheirScopeOnly) {
  const int threads = omp_get_max_threads();
  EXPECT_FALSE(DenormalsAreZero());
  {
    const ScopedThreadSettings settings(3);
    EXPECT_EQ(omp_get_max_threads(), 3);
    EXPECT_TRUE(DenormalsAreZero());
    {
      const ScopedThreadSettings inner(1);
      EXPECT_EQ(omp_get_max_threads(), 1);
    }
    EXPECT_EQ(omp_get_max_threads(), 3);
    EXPECT_TRUE(DenormalsAreZero());
  }
  EXPECT_EQ(omp_get_max_threads(), threads);
  EXPECT_FALSE(DenormalsAreZero());
}

TEST(ThreadSettingsTest, OtherThreadsDoNotNotice) {
  std::promise<void> settings_made;
  std::promise<bool> answer;
  std::thread other([&] {  // Runs already when the settings are made.
    settings_made.get_future().wait();
    answer.set_value(DenormalsAreZero());
  });
  const ScopedThreadSettings settings(1);
  settings_made.set_value();
  EXPECT_FALSE(answer.get_future().get());
  other.join();
}

TEST(ThreadSettingsTest, HoldInTheWholeTeam) {
  const ScopedThreadSettings settings(3);
  struct Team {
    std::atomic<int> members = 0;
    std::atomic<int> without_denormals = 0;
  } team;
  const auto join = [](void* argument) {
    auto* joined = static_cast<Team*>(argument);
    ++joined->members;
    if (DenormalsAreZero()) ++joined->without_denormals;
  };
  GOMP_parallel(join, &team, /*threads=*/0, /*flags=*/0);
  EXPECT_GE(team.members, 1);
  EXPECT_EQ(team.without_denormals, team.members);
}

}  // namespace
}  // namespace millrace::worker
