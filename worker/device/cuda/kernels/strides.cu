#include "worker/device/cuda/kernels/strides.h"

namespace millrace::cuda {
namespace {

bool AreLikeOne(const Dimension& outer, const Dimension& inner) {
  for (size_t i = 0; i < outer.strides.size(); ++i) {
    if (outer.strides[i] != inner.size * inner.strides[i]) return false;
  }
  return true;
}

}  // namespace

std::vector<Dimension> Joined(const std::vector<Dimension>& dimensions) {
  std::vector<Dimension> joined;
  for (const Dimension& dimension : dimensions) {
    if (dimension.size == 1) continue;
    if (!joined.empty() && AreLikeOne(joined.back(), dimension)) {
      joined.back() = {joined.back().size * dimension.size, dimension.strides};
    } else {
      joined.push_back(dimension);
    }
  }
  return joined;
}

}  // namespace millrace::cuda
