#include "worker/device/cpu/context.h"

#include "glog/logging.h"

namespace millrace::worker {

CpuContext::CpuContext() : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {}

dnnl::primitive_attr CpuContext::Attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

void CpuContext::ReserveScratchpad(size_t bytes) {
  const size_t floats = (bytes + sizeof(float) - 1) / sizeof(float);
  if (scratchpad_.size() < floats) scratchpad_ = CpuBuffer(floats);
}

CpuPrimitive::CpuPrimitive(CpuContext* context, dnnl::primitive primitive,
                           const dnnl::memory::desc& scratchpad_layout,
                           std::initializer_list<std::pair<int, dnnl::memory::desc>> layouts)
    : context_(context), primitive_(std::move(primitive)) {
  context->ReserveScratchpad(scratchpad_layout.get_size());
  const auto add = [&](int argument, const dnnl::memory::desc& layout) {
    memories_.push_back(dnnl::memory(layout, context->engine(), DNNL_MEMORY_NONE));
    arguments_.push_back({argument, memories_.back().get()});
  };
  for (const auto& [argument, layout] : layouts) add(argument, layout);
  add(DNNL_ARG_SCRATCHPAD, scratchpad_layout);
}

void CpuPrimitive::Run(std::initializer_list<Data> data) {
  CHECK_EQ(data.size() + 1, memories_.size());
  size_t i = 0;
  for (const auto& [argument, place] : data) {
    CHECK_EQ(argument, arguments_[i].arg);
    // oneDNN writes only to the arguments that are outputs.
    memories_[i].set_data_handle(const_cast<void*>(place), context_->stream());
    ++i;
  }
  memories_.back().set_data_handle(context_->scratchpad(), context_->stream());
  dnnl::error::wrap_c_api(
      dnnl_primitive_execute(primitive_.get(), context_->stream().get(),
                             static_cast<int>(arguments_.size()), arguments_.data()),
      "could not execute a primitive");
  context_->stream().wait();
}

}  // namespace millrace::worker
