// Inputs of one launch have their pointers in its arguments. A merge of more goes on in the layer's
// workspace, launch by launch, since the output may stand where one of the inputs does. Two inputs
// of one shape, as around residual blocks, are merged element by element instead.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "worker/device/cuda/kernels/elementwise.h"
#include "worker/device/cuda/kernels/function.h"
#include "worker/device/cuda/kernels/launch.h"
#include "worker/device/cuda/kernels/members.h"
#include "worker/device/cuda/kernels/strides.h"

namespace millrace::cuda {
namespace {

constexpr unsigned kMostInputs = 8;  // Of one launch.

// NaN is larger than all others.
MILLRACE_DEVICE bool IsLargerInput(float a, float b) { return (a > b) | (a != a); }

// What becomes of the merge of the inputs before when another is merged in.
struct AddNext {
  MILLRACE_DEVICE float operator()(float before, float x) const { return before + x; }
};
// And then ReLU, which keeps NaN.
struct AddWithRelu {
  MILLRACE_DEVICE float operator()(float a, float b) const { return a + b < 0 ? 0 : a + b; }
};
struct SubtractNext {
  MILLRACE_DEVICE float operator()(float before, float x) const { return before - x; }
};
struct MultiplyNext {
  MILLRACE_DEVICE float operator()(float before, float x) const { return before * x; }
};
struct MaximumNext {
  MILLRACE_DEVICE float operator()(float before, float x) const {
    return IsLargerInput(x, before) ? x : before;
  }
};

// The gradient by an input that is added, or subtracted: the sum of its one use, from 0.
struct LinearGradient {
  MILLRACE_DEVICE float operator()(float gradient) const { return 0.0f + gradient / divisor; }
  float divisor;
};

// ReLU's gradient in dy's place, and the one by an input to another place. REQUIRES: all are
// aligned as FourFloats.
__global__ void ReluGradientsKernel(size_t count, const float* y, float* dy, float* dx) {
  const LinearGradient by_input = {1};
  const size_t fours = count / 4;
  for (size_t i = FirstElement(); i < fours; i += ElementStride()) {
    const FourFloats values = reinterpret_cast<const FourFloats*>(y)[i];
    FourFloats four = reinterpret_cast<const FourFloats*>(dy)[i];
#pragma unroll
    for (int k = 0; k < 4; ++k) four.values[k] = ReluGradient()(values.values[k], four.values[k]);
    reinterpret_cast<FourFloats*>(dy)[i] = four;
#pragma unroll
    for (int k = 0; k < 4; ++k) four.values[k] = by_input(four.values[k]);
    reinterpret_cast<FourFloats*>(dx)[i] = four;
  }
  const size_t last = 4 * fours + FirstElement();
  if (last >= count) return;
  dy[last] = ReluGradient()(y[last], dy[last]);
  dx[last] = by_input(dy[last]);
}

template <unsigned kInputs>
struct MergedInputs {
  unsigned inputs = 0;
  const float* x[kInputs] = {};
  const float* before = nullptr;  // Of the inputs before; null: there are none.
  float divisor = 0;              // Of the result; 0: none.
  size_t count = 0;
  float* y = nullptr;
  Strides<kInputs> strides;  // Of y's elements in each input.
};

template <unsigned kInputs, typename Next>
__global__ void MergeKernel(MergedInputs<kInputs> merged, Next next) {
  for (size_t i = FirstElement(); i < merged.count; i += ElementStride()) {
    Offsets<kInputs> offsets = {};
    AddOffsets(merged.strides, i, &offsets);
    float value = merged.x[0][offsets.of[0]];
    if (merged.before != nullptr) value = next(merged.before[i], value);
    for (unsigned k = 1; k < kInputs; ++k) {
      if (k < merged.inputs) value = next(value, merged.x[k][offsets.of[k]]);
    }
    merged.y[i] = merged.divisor == 0 ? value : value / merged.divisor;
  }
}

// How the gradient by an input follows from that by the output, `gradient`: step by step from
// `other`, each of the other inputs.

// Others do not matter.
struct LinearStep {
  MILLRACE_DEVICE float operator()(float gradient, float, float, bool) const { return gradient; }
};
struct MultiplyStep {
  MILLRACE_DEVICE float operator()(float gradient, float, float other, bool) const {
    return gradient * other;
  }
};
// The first of the largest has it all.
struct MaximumStep {
  MILLRACE_DEVICE float operator()(float gradient, float x, float other, bool comes_before) const {
    const bool wins = comes_before ? IsLargerInput(x, other) : !IsLargerInput(other, x);
    return wins ? gradient : 0;
  }
};

// Of one input. Arrays of the strides: that of gradients, the input, the others.
template <unsigned kOthers>
struct MergeGradient {
  unsigned others = 0;
  unsigned others_before = 0;  // The first ones are inputs that come before this one.
  const float* other[kOthers] = {};
  const float* x = nullptr;
  const float* gradients = nullptr;  // By the output, perhaps after some steps.
  float divisor = 1;                 // Of the result.
  size_t elements = 0;               // Of dx.
  size_t repeats = 1;                // How often each is used: dx has sums of so many.
  unsigned adders = 1;               // Threads for each sum: a power of two.
  bool adders_are_neighbours = false;
  float* dx = nullptr;
  Strides<kOthers + 2> kept;      // Of dx's elements.
  Strides<kOthers + 2> repeated;  // Of the uses of one.
};

template <unsigned kOthers, typename Step>
MILLRACE_DEVICE float GradientAt(const MergeGradient<kOthers>& merge, const Step& step,
                                 const Offsets<kOthers + 2>& offsets) {
  float gradient = merge.gradients[offsets.of[0]];
  for (unsigned k = 0; k < kOthers; ++k) {
    if (k < merge.others) {
      gradient = step(gradient, merge.x[offsets.of[1]], merge.other[k][offsets.of[k + 2]],
                      k < merge.others_before);
    }
  }
  return gradient / merge.divisor;
}

// Adds up what the adders of a sum have, to the first of them. `next`: how far apart they are.
MILLRACE_DEVICE float SumOfAdders(float part, unsigned adder, unsigned adders, unsigned next) {
  __shared__ float parts[kThreads];
  parts[threadIdx.x] = part;
  __syncthreads();
  for (unsigned half = adders / 2; half > 0; half /= 2) {
    if (adder < half) parts[threadIdx.x] += parts[threadIdx.x + half * next];
    __syncthreads();
  }
  return parts[threadIdx.x];  // Which nobody else reads any more.
}

// Each adder takes every adders-th use of its element, in the order of the output.
template <unsigned kOthers, typename Step>
__global__ void MergeGradientKernel(MergeGradient<kOthers> merge, Step step) {
  const unsigned sums = blockDim.x / merge.adders;  // Of a block at one time.
  const bool neighbours = merge.adders_are_neighbours;
  const unsigned adder = neighbours ? threadIdx.x % merge.adders : threadIdx.x / sums;
  const unsigned own = neighbours ? threadIdx.x / merge.adders : threadIdx.x % sums;
  for (size_t begin = size_t{blockIdx.x} * sums; begin < merge.elements;
       begin += size_t{gridDim.x} * sums) {
    const size_t element = begin + own;
    float sum = 0;
    if (element < merge.elements) {
      Offsets<kOthers + 2> first = {};
      AddOffsets(merge.kept, element, &first);
      for (size_t i = adder; i < merge.repeats; i += merge.adders) {
        Offsets<kOthers + 2> offsets = first;
        AddOffsets(merge.repeated, i, &offsets);
        sum += GradientAt(merge, step, offsets);
      }
    }
    if (merge.adders > 1) sum = SumOfAdders(sum, adder, merge.adders, neighbours ? 1 : sums);
    if (adder == 0 && element < merge.elements) merge.dx[element] = sum;
  }
}

// By an example's shape alone: so is the order of sums.
unsigned AddersOf(size_t repeats, bool neighbours) {
  constexpr size_t kFewest = 8;
  // Those of several elements read whole sectors of memory, if they are not neighbours.
  const size_t most = neighbours ? kThreads : kThreads / 8;
  unsigned adders = 1;
  while (repeats >= kFewest && adders * 2 <= std::min(repeats, most)) adders *= 2;
  return adders;
}

class MergeLayer final : public Layer {
 public:
  MergeLayer(const Context& context, const MergeDescription& description)
      : stream_(context.stream),
        kind_(description.kind),
        relu_(description.relu),
        elements_(description.elements.begin(), description.elements.end()) {
    std::vector<Dimension> dimensions(1);
    for (const int64_t size : description.output) output_ *= static_cast<size_t>(size);
    dimensions[0].strides = description.elements;
    dimensions[0].strides.push_back(static_cast<int64_t>(output_));
    int64_t stride = static_cast<int64_t>(output_);
    for (size_t i = 0; i < description.output.size(); ++i) {
      stride /= description.output[i];
      Dimension dimension = {description.output[i], {}};
      for (const auto& strides : description.strides) dimension.strides.push_back(strides[i]);
      dimension.strides.push_back(stride);
      dimensions.push_back(std::move(dimension));
    }
    dimensions_ = Joined(dimensions);
  }

  size_t WorkspaceBytes(size_t batch) const override {
    return inputs() > kMostInputs ? batch * output_ * sizeof(float) : 0;
  }

  void Forward(const Pass& pass, const float* const* x, float* y) override {
    if (inputs() == 2 && IsLinear() && HaveOneShape()) return MergeTwo(pass, x, y);
    inputs() <= 2 ? Merge<2>(pass, x, y) : Merge<kMostInputs>(pass, x, y);
  }

  // What stands in dy's place comes last, since all are made of dy.
  void Backward(const Pass& pass, const float* const* x, const float* y, float* dy,
                float* const* dx) override {
    const float* const written = relu_ ? WriteReluGradients(pass, y, dy, dx) : nullptr;
    for (const bool in_place : {false, true}) {
      for (size_t k = 0; k < inputs(); ++k) {
        if (dx[k] == nullptr || dx[k] == written || (dx[k] == dy) != in_place) continue;
        if (in_place && kind_ == MergeKind::kAdd) continue;  // It is dy.
        inputs() <= 2 ? Gradient<1>(pass, x, k, dy, dx[k])
                      : Gradient<kMostInputs>(pass, x, k, dy, dx[k]);
      }
    }
  }

 private:
  size_t inputs() const { return elements_.size(); }
  // The output's among the arrays of dimensions_; those before are the inputs.
  size_t output_array() const { return inputs(); }

  bool IsRepeated(size_t input, const Dimension& dimension) const {
    return dimension.strides[input] == 0;
  }

  bool IsLinear() const { return kind_ == MergeKind::kAdd || kind_ == MergeKind::kSubtract; }
  // No input is repeated.
  bool HaveOneShape() const {
    return std::all_of(elements_.begin(), elements_.end(),
                       [this](size_t elements) { return elements == output_; });
  }

  void MergeTwo(const Pass& pass, const float* const* x, float* y) {
    const size_t count = pass.batch * output_;
    if (relu_) return ApplyTwo(stream_, AddWithRelu(), count, x[0], x[1], y);
    kind_ == MergeKind::kAdd ? ApplyTwo(stream_, AddNext(), count, x[0], x[1], y)
                             : ApplyTwo(stream_, SubtractNext(), count, x[0], x[1], y);
  }

  // In dy's place, and where one of the inputs has its own place for it there, too, by one kernel:
  // so each value is read once. Returns that place; null: there is none.
  const float* WriteReluGradients(const Pass& pass, const float* y, float* dy, float* const* dx) {
    const size_t count = pass.batch * output_;
    float* const* const end = dx + inputs();
    float* const* const own =
        std::find_if(dx, end, [dy](const float* place) { return place != nullptr && place != dy; });
    if (own == end || !AlignedForFours(y, dy, *own)) {
      ApplyTwo(stream_, ReluGradient(), count, y, dy, dy);
      return nullptr;
    }
    Launch(stream_, BlocksFor(count / 4), kThreads, ReluGradientsKernel, count, y, dy, *own);
    return *own;
  }

  template <unsigned kInputs>
  void Merge(const Pass& pass, const float* const* x, float* y) {
    float* const workspace = static_cast<float*>(pass.workspace);
    for (size_t begin = 0; begin < inputs(); begin += kInputs) {
      MergedInputs<kInputs> merged;
      const bool last = begin + kInputs >= inputs();
      merged.inputs = static_cast<unsigned>(std::min<size_t>(kInputs, inputs() - begin));
      std::copy(x + begin, x + begin + merged.inputs, merged.x);
      merged.before = begin == 0 ? nullptr : workspace;
      if (last && kind_ == MergeKind::kAverage) merged.divisor = static_cast<float>(inputs());
      merged.count = pass.batch * output_;
      merged.y = last ? y : workspace;
      for (const Dimension& dimension : dimensions_) {
        merged.strides.Add(dimension);
        for (unsigned k = 0; k < merged.inputs; ++k) {
          merged.strides.SetStride(k, dimension.strides[begin + k]);
        }
      }
      LaunchMerge(merged);
    }
  }

  template <unsigned kInputs>
  void LaunchMerge(const MergedInputs<kInputs>& merged) {
    switch (kind_) {
      case MergeKind::kAdd:
      case MergeKind::kAverage:
        return LaunchFor(stream_, merged.count, MergeKernel<kInputs, AddNext>, merged, AddNext());
      case MergeKind::kSubtract:
        return LaunchFor(stream_, merged.count, MergeKernel<kInputs, SubtractNext>, merged,
                         SubtractNext());
      case MergeKind::kMultiply:
        return LaunchFor(stream_, merged.count, MergeKernel<kInputs, MultiplyNext>, merged,
                         MultiplyNext());
      case MergeKind::kMaximum:
        return LaunchFor(stream_, merged.count, MergeKernel<kInputs, MaximumNext>, merged,
                         MaximumNext());
    }
  }

  // What the gradients by the output are divided by for those by an input.
  float DivisorOf(size_t input) const {
    if (kind_ == MergeKind::kAverage) return static_cast<float>(inputs());
    return kind_ == MergeKind::kSubtract && input == 1 ? -1 : 1;
  }

  // By one input. All steps but those of the last launch are made for each element of the output.
  template <unsigned kOthers>
  void Gradient(const Pass& pass, const float* const* x, size_t input, const float* dy, float* dx) {
    if (IsLinear() && elements_[input] == output_) {
      return Apply(stream_, LinearGradient{DivisorOf(input)}, pass.batch * output_, dy, dx);
    }
    std::vector<size_t> others;
    if (kind_ == MergeKind::kMultiply || kind_ == MergeKind::kMaximum) {
      for (size_t k = 0; k < inputs(); ++k) {
        if (k != input) others.push_back(k);
      }
    }
    float* const workspace = static_cast<float*>(pass.workspace);
    size_t begin = 0;
    MergeGradient<kOthers> merge;
    merge.x = x[input];
    merge.gradients = dy;
    for (; others.size() - begin > kOthers; begin += kOthers) {
      MergeGradient<kOthers> steps = merge;
      TakeOthers(x, input, &others[begin], kOthers, &steps);
      steps.elements = pass.batch * output_;
      steps.dx = workspace;
      for (const Dimension& dimension : dimensions_) {
        AddDimension(dimension, input, &others[begin], steps.others, &steps.kept);
      }
      LaunchGradient(steps);
      merge.gradients = workspace;
    }
    merge.divisor = DivisorOf(input);
    merge.elements = pass.batch * elements_[input];
    merge.dx = dx;
    TakeOthers(x, input, others.data() + begin, others.size() - begin, &merge);
    TakeRepeats(input, others.data() + begin, &merge);
    LaunchGradient(merge);
  }

  template <unsigned kOthers>
  static void TakeOthers(const float* const* x, size_t input, const size_t* others, size_t count,
                         MergeGradient<kOthers>* merge) {
    merge->others = static_cast<unsigned>(count);
    for (size_t k = 0; k < count; ++k) {
      merge->other[k] = x[others[k]];
      if (others[k] < input) ++merge->others_before;
    }
  }

  template <unsigned kArrays>
  void AddDimension(const Dimension& dimension, size_t input, const size_t* others, unsigned count,
                    Strides<kArrays>* strides) const {
    strides->Add(dimension);
    strides->SetStride(0, dimension.strides[output_array()]);
    strides->SetStride(1, dimension.strides[input]);
    for (unsigned k = 0; k < count; ++k) strides->SetStride(k + 2, dimension.strides[others[k]]);
  }

  // Divides the dimensions into those of the input and those along which it is repeated.
  template <unsigned kOthers>
  void TakeRepeats(size_t input, const size_t* others, MergeGradient<kOthers>* merge) const {
    for (const Dimension& dimension : dimensions_) {
      const bool repeated = IsRepeated(input, dimension);
      if (repeated) merge->repeats *= static_cast<size_t>(dimension.size);
      AddDimension(dimension, input, others, merge->others,
                   repeated ? &merge->repeated : &merge->kept);
    }
    merge->adders_are_neighbours = IsRepeated(input, dimensions_.back());
    merge->adders = AddersOf(merge->repeats, merge->adders_are_neighbours);
  }

  template <unsigned kOthers>
  void LaunchGradient(const MergeGradient<kOthers>& merge) {
    switch (kind_) {
      case MergeKind::kMultiply:
        return LaunchFor(stream_, merge.elements * merge.adders,
                         MergeGradientKernel<kOthers, MultiplyStep>, merge, MultiplyStep());
      case MergeKind::kMaximum:
        return LaunchFor(stream_, merge.elements * merge.adders,
                         MergeGradientKernel<kOthers, MaximumStep>, merge, MaximumStep());
      default:
        return LaunchFor(stream_, merge.elements * merge.adders,
                         MergeGradientKernel<kOthers, LinearStep>, merge, LinearStep());
    }
  }

  const cudaStream_t stream_;
  const MergeKind kind_;
  const bool relu_;
  const std::vector<size_t> elements_;  // Of each input.
  size_t output_ = 1;                   // Elements of the output.
  std::vector<Dimension> dimensions_;   // Through the inputs and the output.
};

}  // namespace

std::unique_ptr<Layer> MakeLayer(const Context& context, const MergeDescription& description) {
  return std::make_unique<MergeLayer>(context, description);
}

}  // namespace millrace::cuda
