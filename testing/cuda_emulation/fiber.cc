#include "testing/cuda_emulation/fiber.h"

#include <sys/mman.h>

#include <boost/context/detail/fcontext.hpp>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "testing/cuda_emulation/language.h"

#ifdef CUDA_EMULATION_ASAN
#include <sanitizer/common_interface_defs.h>
#else
namespace {
void __sanitizer_start_switch_fiber(void**, const void*, size_t) {}
void __sanitizer_finish_switch_fiber(void*, const void**, size_t*) {}
}  // namespace
#endif

namespace cuda_emulation {
namespace {

namespace context = boost::context::detail;

constexpr size_t kPage = 4096;
#ifdef CUDA_EMULATION_ASAN
constexpr size_t kStackBytes = size_t{512} << 10;  // Its frames and its reports take more.
#else
constexpr size_t kStackBytes = size_t{128} << 10;
#endif

// Pages that are not touched cost nothing. The lowest one is a guard.
void* MakeStack() {
  void* stack = mmap(nullptr, kStackBytes + kPage, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED || mprotect(stack, kPage, PROT_NONE) != 0) {
    std::perror("cuda_emulation: no memory for the stack of a thread");
    std::abort();
  }
  return static_cast<char*>(stack) + kPage;
}

}  // namespace

struct FiberEntry {
  static void Start(context::transfer_t transfer) {
    auto* fiber = static_cast<Fiber*>(transfer.data);
    fiber->Enter(transfer.fctx);
    for (;;) {
      fiber->body_();
      fiber->Suspend();
    }
  }
};

Fiber::Fiber(std::function<void()> body)
    : body_(std::move(body)),
      stack_(MakeStack()),
      place_(context::make_fcontext(static_cast<char*>(stack_) + kStackBytes, kStackBytes,
                                    &FiberEntry::Start)) {}

// The fiber runs from here.
void Fiber::Enter(void* caller) {
  __sanitizer_finish_switch_fiber(own_frames_, &caller_stack_, &caller_bytes_);
  caller_ = caller;
}

void Fiber::Resume() {
  __sanitizer_start_switch_fiber(&caller_frames_, stack_, kStackBytes);
  const context::transfer_t back = context::jump_fcontext(place_, this);
  __sanitizer_finish_switch_fiber(caller_frames_, nullptr, nullptr);
  place_ = back.fctx;
}

void Fiber::Suspend() {
  __sanitizer_start_switch_fiber(&own_frames_, caller_stack_, caller_bytes_);
  Enter(context::jump_fcontext(caller_, nullptr).fctx);
}

}  // namespace cuda_emulation
