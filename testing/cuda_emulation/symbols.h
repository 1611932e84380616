// The symbols of the running binary.
#ifndef MILLRACE_TESTING_CUDA_EMULATION_SYMBOLS_H_
#define MILLRACE_TESTING_CUDA_EMULATION_SYMBOLS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cuda_emulation {

struct Symbol {
  std::string name;  // Mangled.
  uint64_t value;    // As in the file: an address, or an offset into a thread's variables.
  uint64_t bytes;
  bool function;
  bool thread_local_variable;
};

// Of the binary alone, not of shared libraries. Empty where it is stripped.
const std::vector<Symbol>& Symbols();

// What an address of the file must be moved by.
uintptr_t LoadedAt();

// Where this thread's variables of the binary begin; null if there are none.
char* ThreadLocals();

}  // namespace cuda_emulation

#endif  // MILLRACE_TESTING_CUDA_EMULATION_SYMBOLS_H_
