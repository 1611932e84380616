#include "testing/cuda_emulation/block.h"

#include <string>
#include <vector>

#include "testing/cuda_emulation/cooperation.h"
#include "testing/cuda_emulation/fail.h"
#include "testing/cuda_emulation/fiber.h"
#include "testing/cuda_emulation/ready_queue.h"
#include "testing/cuda_emulation/shared_memory.h"
#include "testing/cuda_emulation/warp.h"

uint3 threadIdx;
uint3 blockIdx;
dim3 blockDim;
dim3 gridDim;

namespace cuda_emulation {
namespace {

uint3 IndexIn(const dim3& sizes, uint64_t number) {
  return {static_cast<unsigned>(number % sizes.x),
          static_cast<unsigned>(number / sizes.x % sizes.y),
          static_cast<unsigned>(number / sizes.x / sizes.y)};
}

std::string Text(const uint3& index) {
  return "(" + std::to_string(index.x) + ", " + std::to_string(index.y) + ", " +
         std::to_string(index.z) + ")";
}

// Waits for the whole block; otherwise for lanes of its warp.
bool IsBarrier(Operation operation) { return operation <= Operation::kSyncThreadsOr; }

struct Thread {
  Fiber* fiber = nullptr;  // Null: not begun.
  bool waits = false;
  bool ended = false;
  Request request;
  uint64_t result = 0;
};

// Lanes of a warp that wait for each other.
struct Meeting {
  uint32_t mask;
  uint32_t arrived;
  size_t first;  // The thread that came first.
};

// The kernel that runs.
class Runner {
 public:
  void Run(const KernelLaunch& launch, Order* order);
  uint64_t Cooperate(const Request& request);

 private:
  void RunBlock(uint64_t block);
  void RunThreads();
  void BeginNextThread();
  Fiber* IdleFiber();
  void MakeCurrent(size_t thread);
  void ArriveAtBarrier();
  void FinishBarrier();
  void ArriveAtWarp();
  void CheckNotAwaited() const;
  void CheckLanes(uint32_t mask) const;
  void FinishWarp(uint32_t mask);
  void MakeReady(std::vector<size_t> threads);
  [[noreturn]] void FailAt(size_t thread, const std::string& message) const;
  std::string Describe(size_t thread) const;

  const KernelLaunch* launch_ = nullptr;
  Order* order_ = nullptr;
  OrderKind kind_ = OrderKind::kForwards;
  std::vector<Thread> threads_;                 // Of the block.
  std::vector<std::vector<Meeting>> meetings_;  // Of each warp.
  ReadyQueue ready_;
  size_t current_ = 0;
  size_t at_barrier_ = 0;
  size_t ended_ = 0;
  Fiber* fiber_ = nullptr;    // That runs.
  std::vector<Fiber*> idle_;  // That have no thread.
};

void Runner::Run(const KernelLaunch& launch, Order* order) {
  launch_ = &launch;
  order_ = order;
  kind_ = order->NextKind();
  blockDim = launch.block;
  gridDim = launch.grid;
  std::vector<uint64_t> blocks(uint64_t{gridDim.x} * gridDim.y * gridDim.z);
  for (uint64_t i = 0; i < blocks.size(); ++i) blocks[i] = i;
  order->Arrange(kind_, &blocks);
  SharedMemory shared;
  for (uint64_t block : blocks) {
    shared.BeforeBlock();
    RunBlock(block);
    shared.AfterBlock();
  }
  launch_ = nullptr;
}

void Runner::RunBlock(uint64_t block) {
  blockIdx = IndexIn(gridDim, block);
  threads_.assign(size_t{blockDim.x} * blockDim.y * blockDim.z, Thread());
  meetings_.assign((threads_.size() + kLanes - 1) / kLanes, {});
  at_barrier_ = 0;
  ended_ = 0;
  std::vector<size_t> all(threads_.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  MakeReady(all);
  while (!ready_.empty()) {
    const Thread& next = threads_[ready_.front()];
    fiber_ = next.fiber == nullptr ? IdleFiber() : next.fiber;
    if (next.fiber != nullptr) {
      MakeCurrent(ready_.front());
      ready_.PopFront();
    }
    fiber_->Resume();
  }
  for (size_t i = 0; i < threads_.size(); ++i) {
    if (!threads_[i].ended) FailAt(i, "waits for ever");
  }
}

Fiber* Runner::IdleFiber() {
  if (idle_.empty()) return new Fiber([this] { RunThreads(); });
  Fiber* fiber = idle_.back();
  idle_.pop_back();
  return fiber;
}

// What a fiber does: as long as the next thread in order has not begun, it runs that one.
void Runner::RunThreads() {
  while (!ready_.empty() && threads_[ready_.front()].fiber == nullptr) {
    MakeCurrent(ready_.front());
    ready_.PopFront();
    threads_[current_].fiber = fiber_;
    launch_->body();
    threads_[current_].ended = true;
    ++ended_;
    CheckNotAwaited();
    if (at_barrier_ > 0) ArriveAtBarrier();
  }
  idle_.push_back(fiber_);
}

void Runner::MakeCurrent(size_t thread) {
  current_ = thread;
  threadIdx = IndexIn(blockDim, thread);
}

void Runner::MakeReady(std::vector<size_t> threads) {
  for (size_t thread : threads) threads_[thread].waits = false;
  order_->Arrange(kind_, &threads);
  // What becomes ready may also overtake all others.
  const bool first = kind_ == OrderKind::kShuffled && order_->Below(2) == 0;
  if (first) {
    ready_.PushFront(threads);
  } else {
    ready_.PushBack(threads);
  }
}

uint64_t Runner::Cooperate(const Request& request) {
  Thread& thread = threads_[current_];
  const size_t self = current_;
  thread.request = request;
  thread.waits = true;
  if (IsBarrier(request.operation)) {
    ++at_barrier_;
    CheckNotAwaited();
    ArriveAtBarrier();
  } else {
    ArriveAtWarp();
  }
  fiber_->Suspend();
  return threads_[self].result;
}

// A thread has come to a barrier, or has ended while others wait at one.
void Runner::ArriveAtBarrier() {
  size_t at = current_;
  if (threads_[at].ended) {
    while (!threads_[at].waits || !IsBarrier(threads_[at].request.operation)) {
      at = (at + 1) % threads_.size();
    }
  }
  if (ended_ > 0) {
    size_t ended = 0;
    while (!threads_[ended].ended) ++ended;
    FailAt(at, "while " + Describe(ended));
  }
  if (at_barrier_ == threads_.size()) FinishBarrier();
}

void Runner::FinishBarrier() {
  const Request& one = threads_[current_].request;
  uint64_t count = 0;
  std::vector<size_t> all(threads_.size());
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = i;
    if (!SameCall(one, threads_[i].request)) FailAt(current_, "while " + Describe(i));
    count += threads_[i].request.value;
  }
  const uint64_t result = one.operation == Operation::kSyncThreadsAnd  ? count == all.size()
                          : one.operation == Operation::kSyncThreadsOr ? count > 0
                                                                       : count;
  for (Thread& thread : threads_) thread.result = result;
  at_barrier_ = 0;
  MakeReady(all);
}

// A thread has come to an operation of its warp.
void Runner::ArriveAtWarp() {
  const size_t lane = current_ % kLanes;
  std::vector<Meeting>& meetings = meetings_[current_ / kLanes];
  const uint32_t mask = threads_[current_].request.mask;
  if (((mask >> lane) & 1) == 0) FailAt(current_, "and is not in its mask");
  size_t at = 0;
  while (at < meetings.size() && meetings[at].mask != mask) ++at;
  if (at == meetings.size()) {
    CheckNotAwaited();
    CheckLanes(mask);
    meetings.push_back({mask, 0, current_});
  } else if (!SameCall(threads_[meetings[at].first].request, threads_[current_].request)) {
    FailAt(current_, "while " + Describe(meetings[at].first) + ", which is in its mask");
  }
  meetings[at].arrived |= 1u << lane;
  if (meetings[at].arrived != mask) return;
  meetings.erase(meetings.begin() + static_cast<ptrdiff_t>(at));
  FinishWarp(mask);
}

// Others that wait for lanes of its warp do not wait for the current thread, which does something
// else.
void Runner::CheckNotAwaited() const {
  const size_t lane = current_ % kLanes;
  for (const Meeting& meeting : meetings_[current_ / kLanes]) {
    if (((meeting.mask >> lane) & 1) == 0) continue;
    FailAt(meeting.first, "while " + Describe(current_) + ", which is in its mask");
  }
}

// The lanes of a mask are threads, and none has ended or waits for others.
void Runner::CheckLanes(uint32_t mask) const {
  const size_t first = current_ / kLanes * kLanes;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    const size_t other = first + lane;
    if (((mask >> lane) & 1) == 0 || other == current_) continue;
    if (other >= threads_.size()) {
      FailAt(current_, "with lane " + std::to_string(lane) + " in its mask, which is no thread");
    }
    if (threads_[other].ended || threads_[other].waits) {
      FailAt(current_, "while " + Describe(other) + ", which is in its mask");
    }
  }
}

void Runner::FinishWarp(uint32_t mask) {
  const size_t first = current_ / kLanes * kLanes;
  WarpRequests requests = {};
  std::vector<size_t> lanes;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    if (((mask >> lane) & 1) == 0) continue;
    lanes.push_back(first + lane);
    requests[lane] = &threads_[first + lane].request;
  }
  for (size_t thread : lanes) {
    const std::string error = ResultOfLane(requests, thread - first, &threads_[thread].result);
    if (!error.empty()) FailAt(thread, error);
  }
  MakeReady(lanes);
}

std::string Runner::Describe(size_t thread) const {
  const Thread& it = threads_[thread];
  const std::string name = "thread " + Text(IndexIn(blockDim, thread));
  if (it.ended) return name + " has ended";
  if (!it.waits) return name + " runs";
  return name + " waits in " + TextOf(it.request);
}

void Runner::FailAt(size_t thread, const std::string& message) const {
  Fail("kernel " + NameOf(launch_->kernel) + ", block " + Text(blockIdx) + ": " + Describe(thread) +
       " " + message);
}

Runner& TheRunner() {
  static auto* runner = new Runner;
  return *runner;
}

}  // namespace

void RunKernel(const KernelLaunch& launch, Order* order) { TheRunner().Run(launch, order); }

uint64_t Cooperate(const Request& request) { return TheRunner().Cooperate(request); }

}  // namespace cuda_emulation
