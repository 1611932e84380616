// Matrix products, by cuBLASLt.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_KERNELS_PRODUCTS_H_
#define MILLRACE_WORKER_DEVICE_CUDA_KERNELS_PRODUCTS_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "worker/device/cuda/descriptions.h"

namespace millrace::cuda {

// c = a b, row-major: a is [rows, inner], b [inner, columns].
struct ProductShape {
  int64_t rows = 0;
  int64_t inner = 0;
  int64_t columns = 0;
  bool transpose_a = false;  // What stands at `a` is [inner, rows].
  bool transpose_b = false;  // What stands at `b` is [columns, inner].
  bool bias = false;         // A vector [columns] is added to each row of c,
  bool relu = false;         // and of that what is below 0 becomes 0; NaN stays.
  // What elements of a and b are rounded to; of TF32, or something more precise.
  Precision precision = Precision::kFloat32;
  // c is of bfloat16. The bias is rounded to that before it is added. REQUIRES: kBfloat16.
  bool narrow_result = false;

  bool operator<(const ProductShape& other) const;
};

// A matrix to multiply, and the same in bfloat16 where it was rounded already (Products::Narrow).
// `values` may be null where `narrow` is given.
struct Factor {
  // NOLINTNEXTLINE(google-explicit-constructor): most are floats alone.
  Factor(const float* floats, const void* rounded = nullptr) : values(floats), narrow(rounded) {}

  static Factor OfNarrow(const void* rounded) { return {nullptr, rounded}; }

  const float* values;
  const void* narrow;
};

// What Multiply needs at the beginning of its workspace, whatever it multiplies. Factors, and a
// bias, that it rounds stand behind.
inline constexpr size_t kProductWorkspace = size_t{32} << 20;

// Chooses one algorithm for each shape, when it is first seen, by the shape and by whether it is
// prepared. Where cuBLASLt has none that adds a bias, or none that applies ReLU and keeps NaN, a
// kernel of ours does; a narrow result is rounded before that, too. Enqueues on the stream that it
// was made for; all but Prepare may be captured. Throws Error. Used by one thread at a time.
class Products {
 public:
  // `deterministic`: algorithms use no atomics, so that runs repeat.
  static std::unique_ptr<Products> Make(cudaStream_t stream, bool deterministic = true);
  static std::string LibraryName();  // "cuBLASLt 13.1.0".
  virtual ~Products() = default;

  // What Multiply needs at `workspace`, less NarrowBytes of each factor that is narrow already. It
  // is aligned to 256 bytes, all else to 16.
  virtual size_t WorkspaceBytes(const ProductShape& shape) const = 0;

  // Chooses the algorithm, so that errors come before the first step, and tries what cuBLASLt's
  // ReLU makes of NaN: takes memory for that time, no more than the product's factors, result and
  // workspace, and blocks. Of shapes that were not prepared a kernel of ours applies ReLU.
  virtual void Prepare(const ProductShape& shape) = 0;

  // As Gpu::ChosenProducts.
  virtual std::vector<std::string> Chosen() const = 0;

  // Where a product is of bfloat16, factors that are not narrow yet are rounded first. `bias` is of
  // floats, null where the shape has none; `c` as the shape says.
  virtual void Multiply(const ProductShape& shape, const Factor& a, const Factor& b,
                        const float* bias, void* c, void* workspace) = 0;

  // Rounds a factor of several products once for all of them: enqueues that, to `place`, of
  // NarrowBytes and aligned to 256 bytes.
  virtual Factor Narrow(const float* factor, size_t elements, void* place) = 0;
  static size_t NarrowBytes(size_t elements);
};

}  // namespace millrace::cuda

#endif  // MILLRACE_WORKER_DEVICE_CUDA_KERNELS_PRODUCTS_H_
