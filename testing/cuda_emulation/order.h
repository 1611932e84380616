// Choices that a GPU makes and CUDA leaves open: in which order threads, blocks and streams run.
// All follow from one seed and from how many were made since it was set.
#ifndef MILLRACE_TESTING_CUDA_EMULATION_ORDER_H_
#define MILLRACE_TESTING_CUDA_EMULATION_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cuda_emulation {

// How equals are ordered, throughout a launch or a wait.
enum class OrderKind { kForwards, kBackwards, kShuffled };

// Not thread-safe: used under the lock of the device.
class Order {
 public:
  // 0: everything goes forwards, streams in the order of enqueueing.
  explicit Order(uint64_t seed) : seed_(seed), state_(seed) {}

  uint64_t seed() const { return seed_; }
  // For the next launch or wait.
  OrderKind NextKind();
  // A number below `bound`.
  uint64_t Below(uint64_t bound);
  // Puts `items` in order.
  template <typename T>
  void Arrange(OrderKind kind, std::vector<T>* items);

 private:
  uint64_t Next();

  uint64_t seed_;
  uint64_t state_;
};

template <typename T>
void Order::Arrange(OrderKind kind, std::vector<T>* items) {
  const size_t count = items->size();
  if (kind == OrderKind::kBackwards) {
    for (size_t i = 0; i < count / 2; ++i) std::swap((*items)[i], (*items)[count - 1 - i]);
  } else if (kind == OrderKind::kShuffled) {
    for (size_t i = count; i > 1; --i) std::swap((*items)[i - 1], (*items)[Below(i)]);
  }
}

}  // namespace cuda_emulation

#endif  // MILLRACE_TESTING_CUDA_EMULATION_ORDER_H_
