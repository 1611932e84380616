// How matrices lie in memory, as oneDNN is told.
#ifndef MILLRACE_WORKER_DEVICE_CPU_LAYERS_MATRIX_LAYOUT_H_
#define MILLRACE_WORKER_DEVICE_CPU_LAYERS_MATRIX_LAYOUT_H_

#include <cstdint>

#include "oneapi/dnnl/dnnl.hpp"

namespace millrace::worker {

// Float32, row by row.
inline dnnl::memory::desc Matrix(int64_t rows, int64_t columns) {
  return dnnl::memory::desc({rows, columns}, dnnl::memory::data_type::f32,
                            dnnl::memory::format_tag::ab);
}

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_LAYERS_MATRIX_LAYOUT_H_
