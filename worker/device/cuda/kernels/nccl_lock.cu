#include <chrono>

#include "worker/device/cuda/kernels/nccl_lock.h"

namespace millrace::cuda {
namespace {

// Longer than such calls take, but for pinning tens of gigabytes.
constexpr std::chrono::seconds kPatienceForLock(5);

// Some thread may have it when the process ends.
std::shared_timed_mutex& NcclMutex() {
  static auto* const mutex = new std::shared_timed_mutex;
  return *mutex;
}

// Whoever waits for that mutex has this one. So who wants to share it does not overtake a sum,
// which would otherwise wait for as long as others share it in turns.
std::timed_mutex& Turn() {
  static auto* const turn = new std::timed_mutex;
  return *turn;
}

template <typename Lock>
Lock Acquire() {
  const auto deadline = std::chrono::steady_clock::now() + kPatienceForLock;
  const std::unique_lock<std::timed_mutex> turn(Turn(), deadline);
  return Lock(NcclMutex(), deadline);
}

}  // namespace

std::shared_lock<std::shared_timed_mutex> ShareNcclLock() {
  return Acquire<std::shared_lock<std::shared_timed_mutex>>();
}

std::unique_lock<std::shared_timed_mutex> TakeNcclLock() {
  return Acquire<std::unique_lock<std::shared_timed_mutex>>();
}

}  // namespace millrace::cuda
