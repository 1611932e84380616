#include "testing/cuda_emulation/warp.h"

#include <cstring>

#include "testing/cuda_emulation/tensor_cores.h"

namespace cuda_emulation {
namespace {

const char* NameOfOperation(Operation operation) {
  switch (operation) {
    case Operation::kSyncThreads:
      return "__syncthreads";
    case Operation::kSyncThreadsCount:
      return "__syncthreads_count";
    case Operation::kSyncThreadsAnd:
      return "__syncthreads_and";
    case Operation::kSyncThreadsOr:
      return "__syncthreads_or";
    case Operation::kSyncWarp:
      return "__syncwarp";
    case Operation::kBallot:
      return "__ballot_sync";
    case Operation::kShuffle:
      return "__shfl_sync";
    case Operation::kShuffleUp:
      return "__shfl_up_sync";
    case Operation::kShuffleDown:
      return "__shfl_down_sync";
    case Operation::kShuffleXor:
      return "__shfl_xor_sync";
    case Operation::kStoreMatrix:
      return "store_matrix_sync";
    case Operation::kMultiplyMatrices:
      return "mma_sync";
  }
  return "?";
}

uint64_t Ballot(const WarpRequests& requests) {
  uint64_t ballot = 0;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    if (requests[lane] != nullptr && requests[lane]->value != 0) ballot |= uint64_t{1} << lane;
  }
  return ballot;
}

// REQUIRES: all lanes take part.
void MultiplyMatrices(const WarpRequests& requests) {
  const MatrixProduct* parts[kLanes];
  for (size_t i = 0; i < kLanes; ++i) {
    parts[i] = reinterpret_cast<const MatrixProduct*>(requests[i]->value);
  }
  parts[0]->compute(parts);
}

// The lane that a shuffle takes its value from: its own, where that is beyond the lanes of `width`.
int SourceOf(const Request& request, int lane) {
  const int width = request.width;
  const int first = lane / width * width;
  int source = lane;
  switch (request.operation) {
    case Operation::kShuffle:
      return first + ((request.argument % width) + width) % width;
    case Operation::kShuffleUp:
      source = lane - request.argument;
      return source < first ? lane : source;
    case Operation::kShuffleDown:
      source = lane + request.argument;
      return source >= first + width ? lane : source;
    default:
      source = lane ^ request.argument;
      return source >= first + width ? lane : source;
  }
}

}  // namespace

std::string ResultOfLane(const WarpRequests& requests, size_t lane, uint64_t* result) {
  const Request& request = *requests[lane];
  *result = 0;
  switch (request.operation) {
    case Operation::kSyncWarp:
    case Operation::kStoreMatrix:
      return "";
    case Operation::kBallot:
      *result = Ballot(requests);
      return "";
    case Operation::kMultiplyMatrices:
      if (lane == 0) MultiplyMatrices(requests);  // For all of them.
      return "";
    default:
      break;
  }
  const int width = request.width;
  if (width < 1 || width > static_cast<int>(kLanes) || (width & (width - 1)) != 0) {
    return "with the width " + std::to_string(width) + "; must be a power of two up to 32";
  }
  const int source = SourceOf(request, static_cast<int>(lane));
  if (source < 0 || source >= static_cast<int>(kLanes) || requests[source] == nullptr) {
    return "for the value of lane " + std::to_string(source) + ", which is not in its mask";
  }
  *result = requests[source]->value;
  return "";
}

bool SameCall(const Request& a, const Request& b) {
  return a.operation == b.operation && a.place.line == b.place.line &&
         (a.place.file == b.place.file || std::strcmp(a.place.file, b.place.file) == 0);
}

std::string TextOf(const Request& request) {
  return std::string(NameOfOperation(request.operation)) + " (at " + request.place.file + ":" +
         std::to_string(request.place.line) + ")";
}

}  // namespace cuda_emulation
