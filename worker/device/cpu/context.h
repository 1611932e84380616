// What the layers of one compiled model share, and the oneDNN primitives that they are made of.
//
// Several models run in one process at the same time, each in a thread of its own. oneDNN allows
// that as long as primitives do not share temporary memory, so each model has a stream and a
// scratchpad of its own, and every primitive is made with Attributes(), which tell it to use them:
// by default oneDNN shares a scratchpad among all primitives of the thread that made them, and
// would write into it from two threads when a model moves from one to another.
//
// What oneDNN computes follows from the primitive's description, the number of threads and the kind
// of processor, but not from addresses or timing: equal inputs give equal bits.
#ifndef MILLRACE_WORKER_DEVICE_CPU_CONTEXT_H_
#define MILLRACE_WORKER_DEVICE_CPU_CONTEXT_H_

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "oneapi/dnnl/dnnl.hpp"
#include "worker/device/cpu/buffer.h"
#include "worker/device/per_batch.h"

namespace millrace::worker {

// Used by one thread at a time. Its methods, and those of CpuPrimitive, throw dnnl::error and
// std::bad_alloc; CpuModel turns them into statuses.
class CpuContext {
 public:
  CpuContext();
  CpuContext(const CpuContext&) = delete;
  CpuContext& operator=(const CpuContext&) = delete;

  const dnnl::engine& engine() const { return engine_; }
  dnnl::stream& stream() { return stream_; }

  // For every primitive: use the model's scratchpad.
  static dnnl::primitive_attr Attributes();

  // Makes the scratchpad large enough.
  void ReserveScratchpad(size_t bytes);
  float* scratchpad() const { return scratchpad_.data(); }

 private:
  dnnl::engine engine_;
  dnnl::stream stream_;
  CpuBuffer scratchpad_;
};

// A primitive that runs again and again on data at other places, but of one layout.
class CpuPrimitive {
 public:
  // DNNL_ARG_SRC and so on, and where its data stands.
  using Data = std::pair<int, const void*>;

  // `context` must outlive the primitive. `layouts` are those of all its arguments but the
  // scratchpad.
  template <typename Primitive>
  static CpuPrimitive Make(CpuContext* context,
                           const typename Primitive::primitive_desc& description,
                           std::initializer_list<std::pair<int, dnnl::memory::desc>> layouts) {
    return CpuPrimitive(context, Primitive(description), description.scratchpad_desc(), layouts);
  }

  // Blocks until done. REQUIRES: `data` names each argument once, in the order of the layouts.
  void Run(std::initializer_list<Data> data);

 private:
  CpuPrimitive(CpuContext* context, dnnl::primitive primitive,
               const dnnl::memory::desc& scratchpad_layout,
               std::initializer_list<std::pair<int, dnnl::memory::desc>> layouts);

  CpuContext* context_;
  dnnl::primitive primitive_;
  std::vector<dnnl::memory> memories_;      // The scratchpad is the last.
  std::vector<dnnl_exec_arg_t> arguments_;  // The same, as oneDNN takes them.
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_CONTEXT_H_
