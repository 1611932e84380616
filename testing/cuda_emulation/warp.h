// What operations of a warp give each lane.
#ifndef MILLRACE_TESTING_CUDA_EMULATION_WARP_H_
#define MILLRACE_TESTING_CUDA_EMULATION_WARP_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "testing/cuda_emulation/cooperation.h"

namespace cuda_emulation {

inline constexpr size_t kLanes = 32;

// Null where a lane is not in the mask.
using WarpRequests = std::array<const Request*, kLanes>;

// Gives what `lane` gets of the operation that all requests are for. An error: words that follow
// "thread (0, 0, 0) waits in ...".
std::string ResultOfLane(const WarpRequests& requests, size_t lane, uint64_t* result);

// The same operation at the same place of the source.
bool SameCall(const Request& a, const Request& b);

// "__shfl_sync (at kernel.cu:12)".
std::string TextOf(const Request& request);

}  // namespace cuda_emulation

#endif  // MILLRACE_TESTING_CUDA_EMULATION_WARP_H_
