#ifndef MILLRACE_TESTING_CUDA_EMULATION_FAIL_H_
#define MILLRACE_TESTING_CUDA_EMULATION_FAIL_H_

#include <string>

namespace cuda_emulation {

// Ends the process for an error of the program that a GPU would not report, or not so.
[[noreturn]] void Fail(const std::string& message);

// "Reduce(float const*, float*)". An address in hexadecimal where the binary does not know.
std::string NameOf(const void* function);

}  // namespace cuda_emulation

#endif  // MILLRACE_TESTING_CUDA_EMULATION_FAIL_H_
