// The __shared__ variables of a kernel hold garbage when a block begins.
#ifndef MILLRACE_TESTING_CUDA_EMULATION_SHARED_MEMORY_H_
#define MILLRACE_TESTING_CUDA_EMULATION_SHARED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cuda_emulation {

// Of memory that nobody has written: as floats and as doubles no numbers, as integers far too
// large.
inline constexpr uint32_t kGarbage = 0x7ff5a5a5;
void FillWithGarbage(void* memory, size_t bytes);

// Before each block of a kernel: fills the shared memory of all kernels, or what blocks of the same
// launch have written so far. Which variables are shared is known by their being thread_local and
// of a function, and having no initial value: no others in the binary may be so. With
// AddressSanitizer does nothing (language.h).
class SharedMemory {
 public:
  SharedMemory();
  void BeforeBlock();
  void AfterBlock();

 private:
  struct Variable {
    char* begin;
    size_t bytes;
  };
  std::vector<Variable> filled_;  // Before the next block.
  bool first_ = true;             // No block has run.
};

}  // namespace cuda_emulation

#endif  // MILLRACE_TESTING_CUDA_EMULATION_SHARED_MEMORY_H_
