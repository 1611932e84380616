#include "common/net/completion_threads.h"

#include <chrono>
#include <cstddef>
#include <set>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "glog/logging.h"
#include "grpcpp/alarm.h"
#include "grpcpp/completion_queue.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

constexpr size_t kMostQueues = 8;

// Keeps what it hears of alarms. Waits of more than a minute end the test.
class Listener {
 public:
  struct Call {
    bool ok;
    std::thread::id thread;
  };

  // Sets an alarm, and waits until it has been heard of.
  Call Hear(grpc::CompletionQueue* queue) {
    const size_t before = Calls().size();
    grpc::Alarm alarm;
    alarm.Set(queue, std::chrono::system_clock::now(), completion_.tag());
    return Await(before + 1);
  }

  // The same for one that is cancelled long before its time.
  Call HearCancelled(grpc::CompletionQueue* queue) {
    const size_t before = Calls().size();
    grpc::Alarm alarm;
    alarm.Set(queue, SystemDeadline(absl::Hours(1)), completion_.tag());
    alarm.Cancel();
    return Await(before + 1);
  }

  std::vector<Call> Calls() {
    MutexLock lock(&mutex_);
    return calls_;
  }

 private:
  Call Await(size_t calls) {
    const absl::Time deadline = Clock::Real()->Now() + absl::Minutes(1);
    MutexLock lock(&mutex_);
    while (calls_.size() < calls) {
      CHECK(!Clock::Real()->WaitUntil(&changed_, &mutex_, deadline)) << "nothing is heard";
    }
    return calls_.back();
  }

  void OnCompleted(bool ok) {
    MutexLock lock(&mutex_);
    calls_.push_back({ok, std::this_thread::get_id()});
    changed_.SignalAll();
  }

  Mutex mutex_;
  CondVar changed_;
  std::vector<Call> calls_ ABSL_GUARDED_BY(mutex_);
  MemberCompletion<Listener> completion_{this, &Listener::OnCompleted};
};

// The queues in the order of their turns, each once.
std::vector<grpc::CompletionQueue*> OneRound() {
  std::vector<grpc::CompletionQueue*> queues{NextClientQueue()};
  while (queues.size() <= kMostQueues) {
    grpc::CompletionQueue* const next = NextClientQueue();
    if (next == queues[0]) break;
    queues.push_back(next);
  }
  // The one that ended the round has had its turn.
  for (size_t i = 1; i < queues.size(); ++i) NextClientQueue();
  return queues;
}

TEST(CompletionThreadsTest, EachOperationIsHeardOfOnceOnTheQueuesThread) {
  grpc::CompletionQueue* const queue = NextClientQueue();
  Listener first;
  Listener second;
  const Listener::Call heard = first.Hear(queue);
  EXPECT_TRUE(heard.ok);
  EXPECT_NE(heard.thread, std::this_thread::get_id());
  EXPECT_EQ(second.Hear(queue).thread, heard.thread);
  EXPECT_EQ(first.Calls().size(), 1u);
  EXPECT_EQ(second.Calls().size(), 1u);
}

TEST(CompletionThreadsTest, CompletionServesOneOperationAfterTheOther) {
  grpc::CompletionQueue* const queue = NextClientQueue();
  Listener listener;
  EXPECT_TRUE(listener.Hear(queue).ok);
  EXPECT_FALSE(listener.HearCancelled(queue).ok);
  EXPECT_TRUE(listener.Hear(queue).ok);
  EXPECT_EQ(listener.Calls().size(), 3u);
}

TEST(CompletionThreadsTest, QueuesAreHandedOutInTurn) {
  const std::vector<grpc::CompletionQueue*> queues = OneRound();
  EXPECT_LE(queues.size(), kMostQueues);
  EXPECT_EQ(std::set<grpc::CompletionQueue*>(queues.begin(), queues.end()).size(), queues.size());
  EXPECT_EQ(OneRound(), queues);
}

TEST(CompletionThreadsTest, EachQueueHasAThreadOfItsOwn) {
  const std::vector<grpc::CompletionQueue*> queues = OneRound();
  Listener listener;
  std::set<std::thread::id> threads;
  for (grpc::CompletionQueue* const queue : queues) threads.insert(listener.Hear(queue).thread);
  EXPECT_EQ(threads.size(), queues.size());
}

}  // namespace
}  // namespace millrace
