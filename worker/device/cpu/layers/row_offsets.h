// Where rows begin in an array whose dimensions stand in another order, or are repeated.
#ifndef MILLRACE_WORKER_DEVICE_CPU_LAYERS_ROW_OFFSETS_H_
#define MILLRACE_WORKER_DEVICE_CPU_LAYERS_ROW_OFFSETS_H_

#include <cstddef>
#include <vector>

namespace millrace::worker {

class RowOffsets {
 public:
  // The next dimension, of which the last one added goes fastest: its size, and how far apart two
  // neighbours are in the array (0: they are one).
  void Add(size_t size, size_t stride) { dimensions_.push_back({size, stride}); }

  // Of a row, counted through all dimensions.
  size_t operator[](size_t row) const {
    size_t offset = 0;
    for (size_t i = dimensions_.size(); i-- > 0; row /= dimensions_[i].size) {
      offset += row % dimensions_[i].size * dimensions_[i].stride;
    }
    return offset;
  }

 private:
  struct Dimension {
    size_t size;
    size_t stride;
  };
  std::vector<Dimension> dimensions_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_LAYERS_ROW_OFFSETS_H_
