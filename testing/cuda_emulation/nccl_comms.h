// Communicators of the emulated NCCL. Guarded by the devices' mutex (device.h).
#ifndef MILLRACE_TESTING_CUDA_EMULATION_NCCL_COMMS_H_
#define MILLRACE_TESTING_CUDA_EMULATION_NCCL_COMMS_H_

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "testing/cuda_emulation/device.h"
#include "testing/cuda_emulation/work.h"

namespace cuda_emulation {

// What communicators that were made together share; lists are by rank.
struct Clique {
  std::vector<int> devices;
  std::vector<void*> memory;         // Of devices.
  std::vector<TaskPointer> sums;     // That may not have ended.
  std::vector<TaskPointer> results;  // The latest of each rank.
  size_t ended = 0;                  // Ranks that were destroyed or aborted.
  bool connected = false;            // By a first sum.
  bool aborted = false;
  ncclResult_t error = ncclSuccess;
};

struct Nccl {
  bool missing = false;
  int version = NCCL_VERSION_CODE;
  Fault init, group, sum;
  std::set<ncclComm_t> comms;
  uint64_t sums = 0;
};

Nccl& TheNccl();

// `body` under the devices' lock. Its error is what ncclGetLastError has words for.
ncclResult_t CallNccl(const std::function<ncclResult_t(Device*, Nccl*)>& body);

// What a rank gives to a sum.
struct NcclPart {
  ncclComm_t comm = nullptr;
  const float* send = nullptr;
  float* receive = nullptr;
  size_t count = 0;
  cudaStream_t stream = nullptr;
};

// Enqueues what a group has: of each communicator's ranks equally many parts.
ncclResult_t EnqueueSums(Device* device, Nccl* nccl, const std::vector<NcclPart>& parts);

}  // namespace cuda_emulation

// NOLINTNEXTLINE(readability-identifier-naming): NCCL's name.
struct ncclComm {
  int rank = 0;
  std::shared_ptr<cuda_emulation::Clique> clique;
};

#endif  // MILLRACE_TESTING_CUDA_EMULATION_NCCL_COMMS_H_
