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

}  // namespace

std::shared_lock<std::shared_timed_mutex> ShareNcclLock() {
  return std::shared_lock<std::shared_timed_mutex>(NcclMutex(), kPatienceForLock);
}

std::unique_lock<std::shared_timed_mutex> TakeNcclLock() {
  return std::unique_lock<std::shared_timed_mutex>(NcclMutex(), kPatienceForLock);
}

}  // namespace millrace::cuda
