#include "testing/cuda_emulation/shared_memory.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "testing/cuda_emulation/language.h"
#include "testing/cuda_emulation/symbols.h"

namespace cuda_emulation {
namespace {

struct SharedPlace {
  uint64_t offset;  // Among the thread's variables.
  uint64_t bytes;
};

#ifdef CUDA_EMULATION_ASAN
std::vector<SharedPlace> FindSharedPlaces() { return {}; }
#else
// "_ZZ4KernelvE4tile" is the variable `tile` of a function, "_ZGVZ4KernelvE4tile" says that it is
// initialised when the function first runs.
std::vector<SharedPlace> FindSharedPlaces() {
  std::set<std::string> initialised;
  for (const Symbol& symbol : Symbols()) {
    if (symbol.name.rfind("_ZGVZ", 0) == 0) initialised.insert("_Z" + symbol.name.substr(4));
  }
  std::vector<SharedPlace> places;
  for (const Symbol& symbol : Symbols()) {
    if (symbol.thread_local_variable && symbol.name.rfind("_ZZ", 0) == 0 &&
        initialised.count(symbol.name) == 0) {
      places.push_back({symbol.value, symbol.bytes});
    }
  }
  return places;
}
#endif

const std::vector<SharedPlace>& SharedPlaces() {
  static const auto* places = new std::vector<SharedPlace>(FindSharedPlaces());
  return *places;
}

bool IsGarbage(const char* memory, size_t bytes) {
  size_t done = 0;
  for (; done + sizeof(kGarbage) <= bytes; done += sizeof(kGarbage)) {
    if (std::memcmp(memory + done, &kGarbage, sizeof(kGarbage)) != 0) return false;
  }
  return std::memcmp(memory + done, &kGarbage, bytes - done) == 0;
}

}  // namespace

void FillWithGarbage(void* memory, size_t bytes) {
  auto* at = static_cast<char*>(memory);
  size_t done = 0;
  for (; done + sizeof(kGarbage) <= bytes; done += sizeof(kGarbage)) {
    std::memcpy(at + done, &kGarbage, sizeof(kGarbage));
  }
  std::memcpy(at + done, &kGarbage, bytes - done);
}

SharedMemory::SharedMemory() {
  for (const SharedPlace& place : SharedPlaces()) {
    filled_.push_back({ThreadLocals() + place.offset, place.bytes});
  }
}

void SharedMemory::BeforeBlock() {
  for (const Variable& variable : filled_) FillWithGarbage(variable.begin, variable.bytes);
}

// A variable that the first block has left alone is most likely another kernel's.
void SharedMemory::AfterBlock() {
  if (!first_) return;
  first_ = false;
  filled_.erase(std::remove_if(filled_.begin(), filled_.end(),
                               [](const Variable& variable) {
                                 return IsGarbage(variable.begin, variable.bytes);
                               }),
                filled_.end());
}

}  // namespace cuda_emulation
