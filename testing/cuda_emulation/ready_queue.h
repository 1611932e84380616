#ifndef MILLRACE_TESTING_CUDA_EMULATION_READY_QUEUE_H_
#define MILLRACE_TESTING_CUDA_EMULATION_READY_QUEUE_H_

#include <array>
#include <cstddef>
#include <vector>

namespace cuda_emulation {

// Threads of a block that may run, in order. Holds each at most once, so that it never grows: under
// AddressSanitizer a std::deque takes most of the time of a shuffle.
class ReadyQueue {
 public:
  bool empty() const { return size_ == 0; }
  size_t front() const { return threads_[first_ % kMost]; }
  void PopFront() {
    ++first_;
    --size_;
  }
  void PushBack(const std::vector<size_t>& threads) {
    for (size_t thread : threads) threads_[(first_ + size_++) % kMost] = thread;
  }
  // The first of `threads` becomes the first of all.
  void PushFront(const std::vector<size_t>& threads) {
    first_ -= threads.size();
    size_ += threads.size();
    for (size_t i = 0; i < threads.size(); ++i) threads_[(first_ + i) % kMost] = threads[i];
  }

 private:
  static constexpr size_t kMost = 1024;  // Threads of a block. Divides what a size_t counts to.
  std::array<size_t, kMost> threads_;
  size_t first_ = 0;
  size_t size_ = 0;
};

}  // namespace cuda_emulation

#endif  // MILLRACE_TESTING_CUDA_EMULATION_READY_QUEUE_H_
