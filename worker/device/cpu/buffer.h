// Memory for the values of a model.
#ifndef MILLRACE_WORKER_DEVICE_CPU_BUFFER_H_
#define MILLRACE_WORKER_DEVICE_CPU_BUFFER_H_

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace millrace::worker {

// Floats on a cache line's boundary, which start at 0. Movable; its memory stays where it is.
class CpuBuffer {
 public:
  CpuBuffer() = default;
  // Throws std::bad_alloc.
  explicit CpuBuffer(size_t size);

  float* data() const { return data_.get(); }
  size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(float* data) const { std::free(data); }
  };
  std::unique_ptr<float, Free> data_;
  size_t size_ = 0;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_BUFFER_H_
