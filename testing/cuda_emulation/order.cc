#include "testing/cuda_emulation/order.h"

namespace cuda_emulation {

// SplitMix64.
uint64_t Order::Next() {
  uint64_t bits = state_ += 0x9e3779b97f4a7c15;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  return bits ^ (bits >> 31);
}

OrderKind Order::NextKind() {
  return seed_ == 0 ? OrderKind::kForwards : static_cast<OrderKind>(Below(3));
}

uint64_t Order::Below(uint64_t bound) { return Next() % bound; }

}  // namespace cuda_emulation
