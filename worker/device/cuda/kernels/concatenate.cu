#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "worker/device/cuda/kernels/launch.h"
#include "worker/device/cuda/kernels/members.h"
#include "worker/device/cuda/kernels/strides.h"

namespace millrace::cuda {
namespace {

constexpr unsigned kMostPieces = 32;  // Of one launch.

// Matrices that stand side by side in a larger one. Float: const where they are read.
template <typename Float>
struct Pieces {
  void Add(Float* piece, size_t first, size_t width) {
    pieces[count] = piece;
    begins[count] = static_cast<uint32_t>(first);
    columns[count] = static_cast<uint32_t>(width);
    widest = std::max(widest, width);
    ++count;
  }

  unsigned count = 0;
  size_t widest = 0;
  Float* pieces[kMostPieces] = {};
  uint32_t begins[kMostPieces] = {};  // Their first columns in the whole.
  uint32_t columns[kMostPieces] = {};
};

// Each piece has blocks of its own: blockIdx.y is its number.
template <typename Float, typename Visit>
MILLRACE_DEVICE void ForEachOfPiece(const Pieces<Float>& pieces, size_t rows, size_t whole_columns,
                                    const Visit& visit) {
  const uint32_t columns = pieces.columns[blockIdx.y];
  const size_t begin = pieces.begins[blockIdx.y];
  for (size_t i = FirstElement(); i < rows * columns; i += ElementStride()) {
    const size_t row = Quotient(i, columns);
    visit(i, row * whole_columns + begin + (i - row * columns));
  }
}

__global__ void ConcatenateKernel(Pieces<const float> pieces, size_t rows, size_t columns,
                                  float* whole) {
  const float* const piece = pieces.pieces[blockIdx.y];
  ForEachOfPiece(pieces, rows, columns, [&](size_t i, size_t place) { whole[place] = piece[i]; });
}

__global__ void TakeApartKernel(Pieces<float> pieces, size_t rows, size_t columns,
                                const float* whole) {
  float* const piece = pieces.pieces[blockIdx.y];
  ForEachOfPiece(pieces, rows, columns, [&](size_t i, size_t place) { piece[i] = whole[place]; });
}

class ConcatenateLayer final : public Layer {
 public:
  ConcatenateLayer(const Context& context, const ConcatenateDescription& description)
      : stream_(context.stream), description_(description) {
    for (const int64_t columns : description.columns) columns_ += static_cast<size_t>(columns);
  }

  void Forward(const Pass& pass, const float* const* x, float* y) override {
    ForEachLaunch(x, [&](const Pieces<const float>& pieces) {
      Launch(stream_, BlocksOf(pass, pieces), kThreads, ConcatenateKernel, pieces, Rows(pass),
             columns_, y);
    });
  }

  void Backward(const Pass& pass, const float* const* /*x*/, const float* /*y*/, float* dy,
                float* const* dx) override {
    ForEachLaunch(dx, [&](const Pieces<float>& pieces) {
      Launch(stream_, BlocksOf(pass, pieces), kThreads, TakeApartKernel, pieces, Rows(pass),
             columns_, dy);
    });
  }

 private:
  size_t Rows(const Pass& pass) const {
    return pass.batch * static_cast<size_t>(description_.rows);
  }

  template <typename Float>
  dim3 BlocksOf(const Pass& pass, const Pieces<Float>& pieces) const {
    return dim3(BlocksFor(Rows(pass) * pieces.widest), pieces.count);
  }

  // Calls launch(pieces) until all inputs are done that are not null.
  template <typename Float, typename LaunchPieces>
  void ForEachLaunch(Float* const* inputs, const LaunchPieces& launch) const {
    Pieces<Float> pieces;
    size_t begin = 0;
    for (size_t k = 0; k < description_.columns.size(); ++k) {
      const auto columns = static_cast<size_t>(description_.columns[k]);
      if (inputs[k] != nullptr) pieces.Add(inputs[k], begin, columns);
      begin += columns;
      if (pieces.count < kMostPieces) continue;
      launch(pieces);
      pieces = {};
    }
    if (pieces.count > 0) launch(pieces);
  }

  const cudaStream_t stream_;
  const ConcatenateDescription description_;
  size_t columns_ = 0;  // Of the output.
};

}  // namespace

std::unique_ptr<Layer> MakeLayer(const Context& context,
                                 const ConcatenateDescription& description) {
  return std::make_unique<ConcatenateLayer>(context, description);
}

}  // namespace millrace::cuda
