#include "client/interrupt.h"

#include <thread>

#include "gtest/gtest.h"

namespace millrace::client {
namespace {

TEST(InterruptTest, CallsTheActionOnce) {
  Interrupt interrupt;
  int calls = 0;
  Interrupt::Action action(&interrupt, [&calls] { ++calls; });
  EXPECT_FALSE(interrupt.triggered());
  interrupt.Trigger();
  interrupt.Trigger();
  EXPECT_TRUE(interrupt.triggered());
  EXPECT_EQ(calls, 1);
}

TEST(InterruptTest, AnActionThatComesLateIsCalledAtOnce) {
  Interrupt interrupt;
  interrupt.Trigger();
  int calls = 0;
  Interrupt::Action action(&interrupt, [&calls] { ++calls; });
  EXPECT_EQ(calls, 1);
}

TEST(InterruptTest, AnActionThatHasGoneIsNotCalled) {
  Interrupt interrupt;
  int calls = 0;
  {
    Interrupt::Action action(&interrupt, [&calls] { ++calls; });
  }
  interrupt.Trigger();
  EXPECT_EQ(calls, 0);
}

TEST(InterruptTest, AnActionUnderWayIsWaitedFor) {
  Interrupt interrupt;
  Mutex mutex;
  CondVar changed;
  bool started = false;
  bool ended = false;
  std::thread trigger;
  {
    Interrupt::Action action(&interrupt, [&] {
      {
        MutexLock lock(&mutex);
        started = true;
        changed.SignalAll();
      }
      std::this_thread::yield();
      MutexLock lock(&mutex);
      ended = true;
    });
    trigger = std::thread([&interrupt] { interrupt.Trigger(); });
    MutexLock lock(&mutex);
    while (!started) changed.Wait(&mutex);
  }
  EXPECT_TRUE(ended);
  trigger.join();
}

}  // namespace
}  // namespace millrace::client
