// What the bits of a model's results depend on, beside its inputs.
#ifndef MILLRACE_WORKER_DEVICE_CPU_NUMERICS_H_
#define MILLRACE_WORKER_DEVICE_CPU_NUMERICS_H_

#include <string>

namespace millrace::worker {

// Equal on two machines exactly where this binary's models give equal bits, as far as we know: the
// number of threads, oneDNN's version, the instruction set that it uses (the processor's, or less
// where ONEDNN_MAX_CPU_ISA says so), and the sizes of the caches, by which oneDNN cuts products
// into blocks, and so the order of sums. Such as "cpu, 2 threads, oneDNN 2.6.3 on avx512_core_vnni,
// caches of 32, 1024 and 33792 KiB".
std::string CpuNumerics(int threads);

// Of these the instruction set: "avx512_core_vnni".
std::string CpuInstructionSet();

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_NUMERICS_H_
