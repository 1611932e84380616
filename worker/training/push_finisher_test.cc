#include "worker/training/push_finisher.h"

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::worker {
namespace {

using ::testing::ElementsAre;

constexpr std::chrono::minutes kAckPatience{1};

TEST(PushFinisherTest, FinishesInOrder) {
  const auto finisher = *PushFinisher::Start(2);
  std::vector<int> order;
  for (int i = 0; i < 4; ++i) finisher->Add([&order, i] { order.push_back(i); });
  finisher->Drain();
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 3));
}

TEST(PushFinisherTest, AddWaitsForRoom) {
  const auto finisher = *PushFinisher::Start(2);
  std::promise<void> acknowledge;
  std::atomic<bool> acknowledged = false;
  finisher->Add([&] { acknowledge.get_future().wait_for(kAckPatience); });
  finisher->Add([] {});
  std::thread server([&] {
    acknowledged = true;
    acknowledge.set_value();
  });
  finisher->Add([] {});
  EXPECT_TRUE(acknowledged);
  server.join();
}

TEST(PushFinisherTest, DrainLeavesNothingBehind) {
  const auto gradients = std::make_shared<int>(0);
  const auto finisher = *PushFinisher::Start(3);
  for (int i = 0; i < 3; ++i) finisher->Add([gradients] {});
  finisher->Drain();
  EXPECT_EQ(gradients.use_count(), 1);
}

}  // namespace
}  // namespace millrace::worker
