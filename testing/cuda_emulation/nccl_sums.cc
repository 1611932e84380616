#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "testing/cuda_emulation/fail.h"
#include "testing/cuda_emulation/nccl_comms.h"
#include "testing/cuda_emulation/stream.h"

namespace cuda_emulation {
namespace {

constexpr size_t kConnectionBytes = 2 << 20;

thread_local int group_depth = 0;
thread_local std::vector<NcclPart> group;

// One sum of all ranks.
struct RanksSum {
  std::shared_ptr<Clique> clique;
  std::vector<NcclPart> parts;  // By rank.
  std::vector<std::vector<float>> results;

  size_t ranks() const { return parts.size(); }
};

std::string RankOf(const NcclPart& part) {
  return "rank " + std::to_string(part.comm->rank) + " of " +
         std::to_string(part.comm->clique->devices.size());
}

void CheckMemory(const Device& device, const NcclPart& part, const void* memory, size_t floats) {
  const int owner = part.comm->clique->devices[static_cast<size_t>(part.comm->rank)];
  if (floats == 0 || (device.memory.OnDevice(memory, floats * sizeof(float)) &&
                      device.memory.DeviceOf(memory) == owner)) {
    return;
  }
  Fail("ncclReduceScatter with memory that is not that of the device of " + RankOf(part));
}

void CheckPart(const Device& device, const NcclPart& part) {
  const Clique& clique = *part.comm->clique;
  const size_t ranks = clique.devices.size();
  const auto rank = static_cast<size_t>(part.comm->rank);
  CheckMemory(device, part, part.send, ranks * part.count);
  CheckMemory(device, part, part.receive, part.count);
  const bool apart =
      part.receive + part.count <= part.send || part.receive >= part.send + ranks * part.count;
  if (!apart && part.receive != part.send + rank * part.count) {
    Fail("ncclReduceScatter of " + RankOf(part) +
         ", whose result overlaps what it sends and is not in place");
  }
  if (part.stream == nullptr || part.stream->device != clique.devices[rank]) {
    Fail("ncclReduceScatter in a stream that is not of the device of " + RankOf(part));
  }
  if (part.stream->capture != nullptr) Fail("ncclReduceScatter is not emulated in captures");
}

// The k-th parts of a communicator's ranks are one sum.
std::vector<RanksSum> SumsOf(const std::vector<NcclPart>& parts) {
  std::map<Clique*, std::vector<std::vector<NcclPart>>> by_rank;
  for (const NcclPart& part : parts) {
    auto& ranks = by_rank[part.comm->clique.get()];
    ranks.resize(part.comm->clique->devices.size());
    ranks[static_cast<size_t>(part.comm->rank)].push_back(part);
  }
  std::vector<RanksSum> sums;
  for (const auto& [clique, ranks] : by_rank) {
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (ranks[i].size() == ranks[0].size()) continue;
      Fail("ncclGroupEnd: rank " + std::to_string(i) + " of " + std::to_string(ranks.size()) +
           " has " + std::to_string(ranks[i].size()) + " calls in the group, rank 0 has " +
           std::to_string(ranks[0].size()) + ": the others would wait for ever");
    }
    for (size_t k = 0; k < ranks[0].size(); ++k) {
      RanksSum sum;
      sum.clique = ranks[0][k].comm->clique;
      for (const auto& rank : ranks) sum.parts.push_back(rank[k]);
      sums.push_back(std::move(sum));
    }
  }
  return sums;
}

void CheckCounts(const RanksSum& sum) {
  for (const NcclPart& part : sum.parts) {
    if (part.count == sum.parts[0].count) continue;
    Fail("ncclReduceScatter of " + std::to_string(part.count) + " floats by " + RankOf(part) +
         ", of " + std::to_string(sum.parts[0].count) + " by rank 0");
  }
}

// Piece i is added up from rank i on, as by a ring.
void AddUpPieces(Device* device, RanksSum* sum) {
  const size_t count = sum->parts[0].count;
  sum->results.assign(sum->ranks(), std::vector<float>(count));
  for (const int index : sum->clique->devices) device->memory.OpenBoth(index, -1);
  for (size_t i = 0; i < sum->ranks(); ++i) {
    std::vector<float>& result = sum->results[i];
    for (size_t k = 0; k < sum->ranks(); ++k) {
      const size_t rank = (i + k) % sum->ranks();
      const float* const piece = sum->parts[rank].send + i * count;
      for (size_t j = 0; j < count; ++j) result[j] += piece[j];
    }
  }
}

// All ranks have come. False: it never ends.
bool RunSum(Device* device, Nccl* nccl, RanksSum* sum) {
  Clique* const clique = sum->clique.get();
  if (clique->aborted) return true;
  for (const int index : clique->devices) {
    if (device->lost[index] != cudaSuccess) return false;
  }
  if (nccl->sum.Happens()) {
    clique->error = ncclRemoteError;
    return false;
  }
  ++nccl->sums;
  AddUpPieces(device, sum);
  return true;
}

void Store(Device* device, const RanksSum& sum, size_t rank) {
  if (sum.results.empty()) return;  // Aborted.
  device->memory.OpenOnly(sum.clique->devices[rank]);
  const std::vector<float>& result = sum.results[rank];
  std::copy(result.begin(), result.end(), sum.parts[rank].receive);
}

// On each stream a kernel that waits for the others', and the result; between them the sum.
void EnqueueSum(Device* device, Nccl* nccl, const RanksSum& of_ranks) {
  const auto sum = std::make_shared<RanksSum>(of_ranks);
  Clique* const clique = sum->clique.get();
  std::vector<TaskPointer> here;
  for (size_t i = 0; i < sum->ranks(); ++i) {
    Enqueue(device, sum->parts[i].stream,
            [device, index = clique->devices[i]] { return Execute(device, index, [] {}); });
    here.push_back(sum->parts[i].stream->last);
  }
  const TaskPointer all =
      device->work.Add([device, nccl, sum] { return RunSum(device, nccl, sum.get()); }, here);
  for (size_t i = 0; i < sum->ranks(); ++i) {
    CUstream_st* const stream = sum->parts[i].stream;
    stream->last = device->work.Add(
        [device, sum, i] {
          Store(device, *sum, i);
          return true;
        },
        {all});
    clique->results[i] = stream->last;
  }
  std::erase_if(clique->sums, [](const TaskPointer& earlier) { return earlier->done; });
  clique->sums.push_back(all);
}

// What NCCL takes when a communicator is first used.
ncclResult_t Connect(Device* device, Clique* clique) {
  if (std::exchange(clique->connected, true)) return ncclSuccess;
  for (const int index : clique->devices) {
    void* const memory = device->memory.Allocate(index, kConnectionBytes);
    if (memory == nullptr) return ncclUnhandledCudaError;
    clique->memory.push_back(memory);
  }
  return ncclSuccess;
}

}  // namespace

ncclResult_t EnqueueSums(Device* device, Nccl* nccl, const std::vector<NcclPart>& parts) {
  for (const RanksSum& sum : SumsOf(parts)) {
    CheckCounts(sum);
    for (const NcclPart& part : sum.parts) CheckPart(*device, part);
    for (const int index : sum.clique->devices) {
      if (device->lost[index] != cudaSuccess) return ncclUnhandledCudaError;
    }
    const ncclResult_t connected = Connect(device, sum.clique.get());
    if (connected != ncclSuccess) return connected;
    EnqueueSum(device, nccl, sum);
  }
  return ncclSuccess;
}

}  // namespace cuda_emulation

using cuda_emulation::CallNccl;
using cuda_emulation::Device;
using cuda_emulation::Nccl;
using cuda_emulation::NcclPart;

ncclResult_t ncclGroupStart() {
  ++cuda_emulation::group_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (cuda_emulation::group_depth == 0) return ncclInvalidUsage;
  if (--cuda_emulation::group_depth > 0) return ncclSuccess;
  const std::vector<NcclPart> parts = std::exchange(cuda_emulation::group, {});
  return CallNccl([&](Device* device, Nccl* nccl) {
    if (nccl->group.Happens()) return ncclInternalError;
    return cuda_emulation::EnqueueSums(device, nccl, parts);
  });
}

ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count, ncclDataType_t type,
                               ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream) {
  return CallNccl([&](Device* device, Nccl* nccl) {
    if (nccl->comms.count(comm) == 0 || type != ncclFloat32 || operation != ncclSum) {
      return ncclInvalidArgument;
    }
    const NcclPart part = {comm, static_cast<const float*>(send), static_cast<float*>(receive),
                           count, stream};
    if (cuda_emulation::group_depth > 0) {
      cuda_emulation::group.push_back(part);
      return ncclSuccess;
    }
    if (comm->clique->devices.size() > 1) {
      cuda_emulation::Fail(
          "ncclReduceScatter for one of several ranks outside of a group, by the thread of all");
    }
    return cuda_emulation::EnqueueSums(device, nccl, {part});
  });
}
