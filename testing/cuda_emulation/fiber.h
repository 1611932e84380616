// Stacks that take turns on one thread of the system, by Boost.Context; AddressSanitizer and
// ThreadSanitizer are told.
#ifndef MILLRACE_TESTING_CUDA_EMULATION_FIBER_H_
#define MILLRACE_TESTING_CUDA_EMULATION_FIBER_H_

#include <cstddef>
#include <functional>

namespace cuda_emulation {

// Runs `body` whenever it is resumed from its beginning; a body that returned can run again. Lives
// until the process ends. Not thread-safe, but may be used by another thread between two runs.
class Fiber {
 public:
  explicit Fiber(std::function<void()> body);
  Fiber(const Fiber&) = delete;

  // Runs it until it suspends itself, or its body returns. Called from outside of all fibers.
  void Resume();
  // Goes back to who resumed it. Called within it.
  void Suspend();

 private:
  friend struct FiberEntry;
  void Enter(void* caller);

  std::function<void()> body_;
  void* stack_;             // Its lowest address.
  void* place_;             // Where it goes on.
  void* caller_ = nullptr;  // Where its resumer does.
  // What AddressSanitizer keeps of both.
  void* own_frames_ = nullptr;
  void* caller_frames_ = nullptr;
  const void* caller_stack_ = nullptr;
  size_t caller_bytes_ = 0;
  // What they are to ThreadSanitizer.
  void* thread_;
  void* caller_thread_ = nullptr;
};

}  // namespace cuda_emulation

#endif  // MILLRACE_TESTING_CUDA_EMULATION_FIBER_H_
