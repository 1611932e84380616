// CUDA on the host's processor, as far as the device in worker/device/cuda uses it: the same .cu
// files that nvcc compiles for the CUDA library are compiled by the host's compiler against these
// headers, of CUDA's own names, and run in tests without a GPU. The emulation is stricter than a
// GPU where this finds errors, and knows nothing of speed. Tests speak to it through control.h.
//
// Kernels (language.h, cooperation.h, device_math.h; tensor cores: mma.h)
// - Blocks run one after the other, the threads of a block as fibers on one thread of the system
//   (block.h); a thread runs alone until it waits for others. In which order threads and blocks
//   run follows from a seed (SetOrder), so that a missing barrier gives another result for some
//   seed. What two threads would do at once within one step between barriers is not seen: neither
//   torn values, nor one that spins until another writes.
// - Threads that do not all come to a barrier, and wrong masks of warps' operations, stop the
//   process with a message; a mask may not name lanes that have ended, even where a GPU would let
//   it.
// - Shared memory is static. It holds garbage when a block begins; with AddressSanitizer it does
//   not, but there an access beyond an array in it is found. A pointer into it that outlives its
//   block is not found.
// - Each thread sees what others wrote at once: missing fences and missing `volatile` do not
//   show.
// - Arithmetic is the host's, without contraction to fused multiply-adds: nvcc's code may differ
//   in the last bits, and so may expf and its kin.
// - Limits of registers, of shared memory in one kernel, and __launch_bounds__ are not checked.
//
// The runtime (runtime_api.h, launch.h)
// - Work is queued in streams and runs when somebody waits, on the thread that waits: in an order
//   that follows from the seed among what streams and events allow, and not always more than is
//   needed. So a missing event gives another result for some seed, and a copy reads memory of the
//   host late. A query is answered "not ready" once before that work is run.
// - Device memory is closed to the host but in copies, holds garbage when new (its first 4 MiB),
//   and has a limit. It must not be written to beyond an allocation, found at once with
//   AddressSanitizer and at cudaFree without; what is freed stays closed. An argument of a kernel
//   that points to neither device nor pinned memory stops the process (not so a pointer within a
//   struct), and so does a cudaMemcpyAsync of host memory that is not pinned, which on a GPU
//   would only be slow.
// - Streams can be captured into graphs, across streams by events; what CUDA forbids meanwhile
//   fails as with CUDA. An external event of a graph is recorded when the graph is launched.
// - There are no child graphs, attributes of launches, cooperative launches, clusters, textures,
//   managed memory, and timings of events. Of atomics there is atomicAdd of floats.
// - All functions are thread-safe, and run one at a time. The sanitizers know the fibers.
#ifndef MILLRACE_TESTING_CUDA_EMULATION_INCLUDE_CUDA_RUNTIME_H_
#define MILLRACE_TESTING_CUDA_EMULATION_INCLUDE_CUDA_RUNTIME_H_

#include "testing/cuda_emulation/cooperation.h"
#include "testing/cuda_emulation/device_math.h"
#include "testing/cuda_emulation/language.h"
#include "testing/cuda_emulation/launch.h"
#include "testing/cuda_emulation/runtime_api.h"
#include "testing/cuda_emulation/runtime_types.h"

#endif  // MILLRACE_TESTING_CUDA_EMULATION_INCLUDE_CUDA_RUNTIME_H_
