#include "testing/cuda_emulation/nccl_comms.h"

#include <algorithm>
#include <mutex>

#include "testing/cuda_emulation/fail.h"
#include "testing/cuda_emulation/nccl_control.h"

namespace cuda_emulation {
namespace {

constexpr size_t kCommunicatorBytes = 1 << 20;

bool AllDiffer(const int* devices, int count) {
  return std::set<int>(devices, devices + count).size() == static_cast<size_t>(count);
}

void FreeMemory(Device* device, Clique* clique) {
  for (void* const memory : clique->memory) device->memory.Free(memory);
  clique->memory.clear();
}

ncclResult_t InitAll(Device* device, Nccl* nccl, ncclComm_t* comms, int count, const int* devices) {
  if (comms == nullptr || count <= 0 || devices == nullptr) return ncclInvalidArgument;
  if (nccl->init.Happens()) return ncclSystemError;
  if (!AllDiffer(devices, count)) return ncclInvalidUsage;
  auto clique = std::make_shared<Clique>();
  for (int i = 0; i < count; ++i) {
    if (devices[i] < 0 || devices[i] >= device->count) return ncclInvalidArgument;
    if (device->lost[devices[i]] != cudaSuccess) return ncclUnhandledCudaError;
    clique->devices.push_back(devices[i]);
  }
  for (const int index : clique->devices) {
    clique->memory.push_back(device->memory.Allocate(index, kCommunicatorBytes));
    if (clique->memory.back() != nullptr) continue;
    clique->memory.pop_back();
    FreeMemory(device, clique.get());
    return ncclUnhandledCudaError;
  }
  clique->results.resize(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    comms[i] = new ncclComm{i, clique};
    nccl->comms.insert(comms[i]);
  }
  return ncclSuccess;
}

// The last rank ends them all.
ncclResult_t End(Device* device, Nccl* nccl, ncclComm_t comm, bool abort) {
  if (nccl->comms.erase(comm) == 0) return ncclInvalidArgument;
  const std::shared_ptr<Clique> clique = comm->clique;
  delete comm;
  if (abort) clique->aborted = true;
  if (++clique->ended < clique->devices.size()) return ncclSuccess;
  if (clique->aborted) {
    for (const TaskPointer& sum : clique->sums) sum->never_ends = false;
  } else {
    for (const TaskPointer& result : clique->results) {
      if (result != nullptr && !result->done) Wait(device, result, "ncclCommDestroy");
    }
  }
  FreeMemory(device, clique.get());
  return ncclSuccess;
}

}  // namespace

Nccl& TheNccl() {
  static auto* const nccl = new Nccl;
  return *nccl;
}

ncclResult_t CallNccl(const std::function<ncclResult_t(Device*, Nccl*)>& body) {
  const std::lock_guard<std::mutex> lock(TheDevice().mutex);
  return body(&TheDevice(), &TheNccl());
}

namespace {

void SetNccl(const std::function<void(Nccl*)>& change) {
  CallNccl([&](Device*, Nccl* nccl) {
    change(nccl);
    return ncclSuccess;
  });
}

}  // namespace

void SetNcclMissing() {
  SetNccl([](Nccl* nccl) { nccl->missing = true; });
}
void SetNcclVersion(int version) {
  SetNccl([&](Nccl* nccl) { nccl->version = version; });
}
void FailNcclInit(int n) {
  SetNccl([&](Nccl* nccl) { nccl->init.countdown = n; });
}
void FailNcclGroup(int n) {
  SetNccl([&](Nccl* nccl) { nccl->group.countdown = n; });
}
void FailNcclSum(int n) {
  SetNccl([&](Nccl* nccl) { nccl->sum.countdown = n; });
}

int NcclVersion() {
  int version = 0;
  SetNccl([&](const Nccl* nccl) { version = nccl->version; });
  return version;
}
bool NcclMissing() {
  bool missing = false;
  SetNccl([&](const Nccl* nccl) { missing = nccl->missing; });
  return missing;
}
size_t NcclCommunicators() {
  size_t count = 0;
  SetNccl([&](const Nccl* nccl) { count = nccl->comms.size(); });
  return count;
}
uint64_t NcclSums() {
  uint64_t sums = 0;
  SetNccl([&](const Nccl* nccl) { sums = nccl->sums; });
  return sums;
}

}  // namespace cuda_emulation

using cuda_emulation::CallNccl;
using cuda_emulation::Device;
using cuda_emulation::Nccl;

ncclResult_t ncclGetVersion(int* version) {
  if (version == nullptr) return ncclInvalidArgument;
  *version = cuda_emulation::NcclVersion();
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
  }
  return "unknown result code";
}

const char* ncclGetLastError(ncclComm_t /*comm*/) { return ""; }

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int* devices) {
  return CallNccl([&](Device* device, Nccl* nccl) {
    return cuda_emulation::InitAll(device, nccl, comms, count, devices);
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return CallNccl([&](Device* device, Nccl* nccl) {
    return cuda_emulation::End(device, nccl, comm, /*abort=*/false);
  });
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return CallNccl([&](Device* device, Nccl* nccl) {
    return cuda_emulation::End(device, nccl, comm, /*abort=*/true);
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  return CallNccl([&](Device*, Nccl* nccl) {
    if (nccl->comms.count(comm) == 0 || error == nullptr) return ncclInvalidArgument;
    *error = comm->clique->error;
    return ncclSuccess;
  });
}
