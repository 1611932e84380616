#include "worker/device/cuda/piece_sums.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"

namespace millrace::worker {
namespace {

using cuda::Stream;

constexpr double kSecondsBetweenLooks = 0.05;  // At what else may have failed.
constexpr double kMiB = 1024.0 * 1024.0;

// Memory of a GPU for sums that are of no use.
class Scratch {
 public:
  Scratch(cuda::Gpu* gpu, size_t bytes) : gpu_(gpu), memory_(gpu->Allocate(bytes)) {}
  ~Scratch() { gpu_->Free(memory_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  float* floats() const { return static_cast<float*>(memory_); }

 private:
  cuda::Gpu* const gpu_;
  void* const memory_;
};

size_t LargestOf(const std::vector<GradientBucket>& buckets) {
  size_t bytes = 0;
  for (const GradientBucket& bucket : buckets) bytes = std::max(bytes, bucket.bytes());
  return bytes;
}

uint64_t FreeMemoryOf(const std::vector<cuda::Gpu*>& gpus) {
  uint64_t free = 0;
  for (cuda::Gpu* const gpu : gpus) free += gpu->Properties().free;
  return free;
}

// False: a sum has not ended within `seconds`.
bool TryOut(const std::vector<cuda::Gpu*>& gpus, const std::vector<GradientBucket>& buckets,
            const std::vector<float*>& arrays, double seconds, cuda::PieceSums* sums) {
  for (const GradientBucket& bucket : buckets) {
    const size_t count = bucket.bytes() / gpus.size() / sizeof(float);
    if (count > 0) sums->Enqueue(Stream::kExchange, arrays, count);
  }
  std::vector<std::unique_ptr<cuda::Event>> events;
  std::vector<AwaitedEvent> all;
  for (cuda::Gpu* const gpu : gpus) {
    events.push_back(gpu->MakeEvent());
    gpu->Record(Stream::kExchange, events.back().get());
    all.push_back({gpu, events.back().get()});
  }
  size_t at_work = 0;
  return AwaitAll(all, sums, seconds, &at_work);
}

std::unique_ptr<cuda::PieceSums> MakeTriedSums(const std::vector<cuda::Gpu*>& gpus,
                                               const std::vector<GradientBucket>& buckets,
                                               double seconds) {
  std::vector<std::unique_ptr<Scratch>> scratch;  // Freed last: until then sums may be under way.
  std::vector<float*> arrays;
  for (cuda::Gpu* const gpu : gpus) {
    scratch.push_back(std::make_unique<Scratch>(gpu, LargestOf(buckets)));
    arrays.push_back(scratch.back()->floats());
  }
  std::unique_ptr<cuda::PieceSums> sums = gpus[0]->MakePieceSums(gpus);
  try {
    if (TryOut(gpus, buckets, arrays, seconds, sums.get())) return sums;
    throw cuda::Error(
        cuda::Error::kOther,
        absl::StrCat(sums->name(), " has not added anything up within ", seconds, " s"));
  } catch (...) {
    sums->Abort();  // Where a GPU has failed, the others wait for it.
    throw;
  }
}

}  // namespace

// A GPU that is lost says so when it is used next.
std::unique_ptr<cuda::PieceSums> MakePieceSums(const std::vector<cuda::Gpu*>& gpus,
                                               const std::vector<GradientBucket>& buckets,
                                               const std::string& device_name, double seconds) {
  const char* const own = ": our own kernels add up gradients, in the order of the GPUs";
  if (gpus.size() < 2 || LargestOf(buckets) == 0) return nullptr;
  if (gpus[0]->Properties().deterministic) {
    LOG(INFO) << device_name << own;
    return nullptr;
  }
  try {
    const uint64_t free = FreeMemoryOf(gpus);
    std::unique_ptr<cuda::PieceSums> sums = MakeTriedSums(gpus, buckets, seconds);
    const double taken = static_cast<double>(free) - static_cast<double>(FreeMemoryOf(gpus));
    LOG(INFO) << device_name << ": " << sums->name()
              << " adds up gradients, in any order; it takes "
              << taken / static_cast<double>(gpus.size()) / kMiB << " MiB of each GPU";
    return sums;
  } catch (const cuda::Error& error) {
    LOG(WARNING) << device_name << own << ", without NCCL: " << error.what();
    return nullptr;
  }
}

bool AwaitAll(const std::vector<AwaitedEvent>& all, cuda::PieceSums* sums, double seconds,
              size_t* at_work) {
  const auto begin = std::chrono::steady_clock::now();
  const auto done = [&](size_t i, double patience) {
    *at_work = i;
    return all[i].gpu->HostWaitFor(*all[i].event, patience);
  };
  for (size_t i = 0; i < all.size(); ++i) {
    while (!done(i, std::min(kSecondsBetweenLooks, seconds))) {
      for (size_t k = 0; k < all.size(); ++k) done(k, /*patience=*/0);
      if (sums != nullptr) sums->Check();
      const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
      if (waited.count() >= seconds) return false;
    }
  }
  if (sums != nullptr) sums->Check();
  return true;
}

}  // namespace millrace::worker
