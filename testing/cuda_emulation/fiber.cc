#include "testing/cuda_emulation/fiber.h"

#include <sys/mman.h>

#include <boost/context/detail/fcontext.hpp>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "testing/cuda_emulation/language.h"

#ifdef CUDA_EMULATION_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
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

// What is said to AddressSanitizer before and after another stack is used. `frames` is its own.
void BeforeSwitch(void** frames, const void* stack, size_t bytes) {
#ifdef CUDA_EMULATION_ASAN
  __sanitizer_start_switch_fiber(frames, stack, bytes);
#else
  static_cast<void>(frames), static_cast<void>(stack), static_cast<void>(bytes);
#endif
}
void AfterSwitch(void* frames, const void** stack, size_t* bytes) {
#ifdef CUDA_EMULATION_ASAN
  __sanitizer_finish_switch_fiber(frames, stack, bytes);
#else
  static_cast<void>(frames), static_cast<void>(stack), static_cast<void>(bytes);
#endif
}

// To ThreadSanitizer a fiber is a thread.
void* NewThread() {
#ifdef __SANITIZE_THREAD__
  return __tsan_create_fiber(0);
#else
  return nullptr;
#endif
}
void* CurrentThread() {
#ifdef __SANITIZE_THREAD__
  return __tsan_get_current_fiber();
#else
  return nullptr;
#endif
}
void BecomeThread(void* thread) {
#ifdef __SANITIZE_THREAD__
  __tsan_switch_to_fiber(thread, 0);
#else
  static_cast<void>(thread);
#endif
}

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
                                    &FiberEntry::Start)),
      thread_(NewThread()) {}

// The fiber runs from here.
void Fiber::Enter(void* caller) {
  AfterSwitch(own_frames_, &caller_stack_, &caller_bytes_);
  caller_ = caller;
}

void Fiber::Resume() {
  caller_thread_ = CurrentThread();
  BeforeSwitch(&caller_frames_, stack_, kStackBytes);
  BecomeThread(thread_);
  const context::transfer_t back = context::jump_fcontext(place_, this);
  AfterSwitch(caller_frames_, nullptr, nullptr);
  place_ = back.fctx;
}

void Fiber::Suspend() {
  BeforeSwitch(&own_frames_, caller_stack_, caller_bytes_);
  BecomeThread(caller_thread_);
  Enter(context::jump_fcontext(caller_, nullptr).fctx);
}

}  // namespace cuda_emulation
