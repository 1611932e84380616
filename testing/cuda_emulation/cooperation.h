// What the threads of a block and of a warp do together. Each of these waits for others; all of
// these threads must call it at the same place. What CUDA leaves undefined stops the process with a
// message that names the kernel, the block and the thread: a thread that ends, or waits elsewhere,
// while others wait for it; a mask without the caller, or with lanes that have ended or are none;
// a value taken from a lane that is not in the mask.
#ifndef MILLRACE_TESTING_CUDA_EMULATION_COOPERATION_H_
#define MILLRACE_TESTING_CUDA_EMULATION_COOPERATION_H_

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace cuda_emulation {

enum class Operation {
  kSyncThreads,
  kSyncThreadsCount,
  kSyncThreadsAnd,
  kSyncThreadsOr,
  kSyncWarp,
  kBallot,
  kShuffle,
  kShuffleUp,
  kShuffleDown,
  kShuffleXor,
  kStoreMatrix,  // And others of tensor_cores.h.
  kMultiplyMatrices,
};

// Where in the source a thread waits.
struct Place {
  const char* file;
  int line;
};

// One thread's part in an operation.
struct Request {
  Operation operation;
  Place place;
  uint32_t mask = 0xffffffff;  // Of operations of a warp.
  uint64_t value = 0;          // What this thread brings.
  int argument = 0;            // Of shuffles: the lane, or how far.
  int width = 32;              // Of shuffles.
};

// Waits for the others and returns what the operation gives this thread.
uint64_t Cooperate(const Request& request);

template <typename T>
T Shuffle(Operation operation, uint32_t mask, T value, int argument, int width, Place place) {
  static_assert(std::is_arithmetic_v<T> && sizeof(T) <= sizeof(uint64_t));
  Request request{operation, place, mask, 0, argument, width};
  std::memcpy(&request.value, &value, sizeof(T));
  const uint64_t result = Cooperate(request);
  T other;
  std::memcpy(&other, &result, sizeof(T));
  return other;
}

}  // namespace cuda_emulation

// The place of the call; default arguments are evaluated there.
#define CUDA_EMULATION_PLACE const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(CUDA_EMULATION_PLACE) {
  cuda_emulation::Cooperate({cuda_emulation::Operation::kSyncThreads, {file, line}});
}
inline int __syncthreads_count(int predicate, CUDA_EMULATION_PLACE) {
  return static_cast<int>(cuda_emulation::Cooperate(
      {cuda_emulation::Operation::kSyncThreadsCount, {file, line}, 0, predicate != 0}));
}
inline int __syncthreads_and(int predicate, CUDA_EMULATION_PLACE) {
  return static_cast<int>(cuda_emulation::Cooperate(
      {cuda_emulation::Operation::kSyncThreadsAnd, {file, line}, 0, predicate != 0}));
}
inline int __syncthreads_or(int predicate, CUDA_EMULATION_PLACE) {
  return static_cast<int>(cuda_emulation::Cooperate(
      {cuda_emulation::Operation::kSyncThreadsOr, {file, line}, 0, predicate != 0}));
}

inline void __syncwarp(unsigned mask = 0xffffffff, CUDA_EMULATION_PLACE) {
  cuda_emulation::Cooperate({cuda_emulation::Operation::kSyncWarp, {file, line}, mask});
}
inline unsigned __ballot_sync(unsigned mask, int predicate, CUDA_EMULATION_PLACE) {
  return static_cast<unsigned>(cuda_emulation::Cooperate(
      {cuda_emulation::Operation::kBallot, {file, line}, mask, predicate != 0}));
}
inline int __any_sync(unsigned mask, int predicate, CUDA_EMULATION_PLACE) {
  return __ballot_sync(mask, predicate, file, line) != 0;
}
inline int __all_sync(unsigned mask, int predicate, CUDA_EMULATION_PLACE) {
  return __ballot_sync(mask, predicate, file, line) == mask;
}

template <typename T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32, CUDA_EMULATION_PLACE) {
  return cuda_emulation::Shuffle(cuda_emulation::Operation::kShuffle, mask, value, lane, width,
                                 {file, line});
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, CUDA_EMULATION_PLACE) {
  return cuda_emulation::Shuffle(cuda_emulation::Operation::kShuffleUp, mask, value,
                                 static_cast<int>(by), width, {file, line});
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32, CUDA_EMULATION_PLACE) {
  return cuda_emulation::Shuffle(cuda_emulation::Operation::kShuffleDown, mask, value,
                                 static_cast<int>(by), width, {file, line});
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, CUDA_EMULATION_PLACE) {
  return cuda_emulation::Shuffle(cuda_emulation::Operation::kShuffleXor, mask, value, bits, width,
                                 {file, line});
}

#undef CUDA_EMULATION_PLACE

#endif  // MILLRACE_TESTING_CUDA_EMULATION_COOPERATION_H_
