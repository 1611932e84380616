// The seam between the worker and libmillrace_cuda.so, which holds all that CUDA compiles: kernels,
// and what drives them. The worker loads it when it is asked for a GPU (library_loader.h), so that
// one binary runs on machines with and without CUDA.
//
// The two share this header and descriptions.h alone: standard types, no protos, no Abseil. Both
// are built by one compiler from one source tree; kLibraryVersion, which the build makes of the
// bytes of these two headers (library_version.h), tells those apart whose headers differ.
//
// The library knows layers, not models. The worker walks through the graph, plans memory and
// decides what is captured; see cuda_model.h.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_LIBRARY_H_
#define MILLRACE_WORKER_DEVICE_CUDA_LIBRARY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "worker/device/cuda/descriptions.h"

namespace millrace::cuda {

// What all methods here throw when CUDA reports an error; what() names the call and CUDA's words.
// After kLost the device is of no use to this process any more.
class Error : public std::runtime_error {
 public:
  enum Kind {
    kMemory,  // Too little of it on the device, or of pinned memory.
    kLost,    // A kernel failed, or the device is gone.
    kOther,
  };
  Error(Kind kind, const std::string& what) : std::runtime_error(what), kind_(kind) {}
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

// Where a layer's gradients go. Called while work is enqueued, not while it runs.
class Gradients {
 public:
  virtual ~Gradients() = default;
  // Device memory for the gradient of a variable, or for a statistic's value; uninitialised.
  virtual float* Buffer(int variable) = 0;
  // All that writes to Buffer(variable) is enqueued.
  virtual void Finished(int variable) = 0;
};

// A feature of ids. Row i has ids[ends[i - 1]] to ids[ends[i] - 1], the first one from 0, if
// ragged. Device memory.
struct Ids {
  const int64_t* ids = nullptr;
  const uint64_t* ends = nullptr;  // Null: not ragged.
  // Not set where any order will do (GpuOptions): the rows and ids again, in the order of the ids,
  // equal ones by where they stand, so that sums have one order: position k is of table row
  // `sorted_ids[k]` and output row `sorted_rows[k]`.
  const int64_t* sorted_ids = nullptr;
  const int64_t* sorted_rows = nullptr;
  const uint64_t* count = nullptr;  // One number: how many ids.
  uint64_t most = 0;                // What that is at most.
};

// One run through a layer. Pointers are to device memory, but for the arrays of them.
struct Pass {
  size_t batch = 0;  // Examples.
  size_t first = 0;  // The number of the first of them in the batch that several GPUs share.
  bool training = false;
  const uint64_t* seed = nullptr;            // Of the dropout.
  const Ids* ids = nullptr;                  // By EmbeddingDescription::feature.
  const float* const* parameters = nullptr;  // By role; null where the layer has none.
  float* kept = nullptr;                     // LayerTraits::kept (worker/model/layer_traits.h).
  // Layer::CarriedBytes; null in a forward pass that no backward pass of the layer follows.
  void* carried = nullptr;
  void* workspace = nullptr;  // Layer::WorkspaceBytes; of this layer until its return.
  Gradients* gradients = nullptr;
};

// As CpuLayer (worker/device/cpu/layer.h), whose contracts and LayerTraits hold here too. Methods
// enqueue work on the compute stream of the GPU that made it and return; they may be captured into
// a graph, so all but Prepare neither wait nor allocate. Results depend on values alone: no
// atomics, one order of every sum (but see GpuOptions). Used by one thread at a time.
class Layer {
 public:
  virtual ~Layer() = default;

  // Temporary memory that Forward or Backward need for so many examples or fewer.
  virtual size_t WorkspaceBytes(size_t /*batch*/) const { return 0; }

  // What Backward finds as Forward left it, beside LayerTraits::kept, in a training pass of so many
  // examples or fewer.
  virtual size_t CarriedBytes(size_t /*batch*/) const { return 0; }

  // Chooses how to multiply for so many examples, so that errors come before the first step. Takes
  // memory of the GPU for that time, no more than the layer's values, variables and workspace, and
  // blocks. What was not prepared is chosen when it is first enqueued, without that.
  virtual void Prepare(size_t /*batch*/, bool /*training*/) {}

  // Pointers to what the layer's description calls narrow are to bfloat16, whatever their type
  // says.
  virtual void Forward(const Pass& pass, const float* const* x, float* y) = 0;

  // `dy` may be overwritten. Finishes the gradients of the layer's variables, if it is trained,
  // then writes the gradient by each input to dx, but where that is null.
  virtual void Backward(const Pass& pass, const float* const* x, const float* y, float* dy,
                        float* const* dx) = 0;
};

// A batch as a loss takes it. Device memory.
struct LossPass {
  size_t batch = 0;
  size_t mean_of = 0;             // Examples of the batch that several GPUs share; alone: batch.
  const float* output = nullptr;  // [batch, width]
  // The labels: of sparse_categorical_crossentropy ids [batch], otherwise either [batch, width].
  const int64_t* ids = nullptr;
  const float* floats = nullptr;
  const double* weights = nullptr;  // [batch]: how much each example counts.
  float* gradient = nullptr;        // [batch, width], of the mean of all, times scale; null: none.
  double* losses = nullptr;         // [batch]: each example's, times its weight; not times scale.
};

// Methods as Layer's.
class Loss {
 public:
  virtual ~Loss() = default;
  virtual void Compute(const LossPass& pass) = 0;
};

enum class Stream {
  kCompute,   // Layers and losses, the seed, and the marks of gradients.
  kCopyIn,    // Values that arrive, and batches.
  kCopyOut,   // Gradients that leave.
  kExchange,  // Gradients on their way from GPU to GPU, and the look at those that leave.
};

// The most GPUs that share a batch.
inline constexpr size_t kMostGpus = 16;

// A place in a stream's order of work.
class Event {
 public:
  virtual ~Event() = default;
};

// Work that was captured, to run again and again.
class Graph {
 public:
  virtual ~Graph() = default;
};

struct GpuProperties {
  std::string name;  // "NVIDIA H200".
  int major = 0;     // Compute capability.
  int minor = 0;
  uint64_t memory = 0;  // Bytes.
  uint64_t free = 0;
  // What the kernels were compiled by, and what multiplies matrices: "CUDA 13.1",
  // "cuBLASLt 13.1.0". Bits depend on both.
  std::string release;
  std::string products;
  bool deterministic = true;  // As it was opened.
};

struct GpuOptions {
  // Equal values give equal bits: every sum has one order. False: where another way is faster, its
  // sums are made in any order, and repeated runs differ in their last bits.
  bool deterministic = true;
};

// What Gpu::AddRegularizers adds to the gradient of a variable. Device memory, aligned to 16 bytes.
struct Regularized {
  const float* values = nullptr;
  float* gradient = nullptr;
  size_t count = 0;
  float l1 = 0;
  float twice_l2 = 0;  // 2 * l2
};

// Sums of arrays that several GPUs have, one each, by NCCL: in an order of its own, which may
// differ from run to run. Used by one thread at a time. Gives back what it has of the GPUs when it
// ends, which may block until what is enqueued is done; with an error, without that.
class PieceSums {
 public:
  virtual ~PieceSums() = default;

  virtual std::string name() const = 0;  // "NCCL 2.28.9".

  // Enqueues on each GPU, where arrays[i] is the i-th one's, of as many pieces as there are GPUs,
  // `count` floats each: its piece i becomes the sum of all arrays' pieces i. Arrays are aligned to
  // 256 bytes. Not to be captured.
  virtual void Enqueue(Stream stream, const std::vector<float*>& arrays, size_t count) = 0;

  // Throws kLost if anything that was enqueued has failed, which may then never end by itself.
  virtual void Check() = 0;

  // Ends what is enqueued, whatever becomes of its results: what waits for a GPU that is lost would
  // never end. May block. Nothing is enqueued afterwards.
  virtual void Abort() noexcept = 0;
};

// One GPU, with its streams. Used by one thread at a time, but for CopyIn on Stream::kCopyIn, which
// other threads may call meanwhile, one at a time; what is captured then is not disturbed.
class Gpu {
 public:
  virtual ~Gpu() = default;  // Waits for its work.

  virtual GpuProperties Properties() = 0;

  // How matrices are multiplied: a line for each shape of a product that layers were prepared for
  // so far, in one order of the shapes, with the algorithm that was chosen for it. Where they
  // differ, so may bits, on GPUs of one kind too.
  virtual std::vector<std::string> ChosenProducts() = 0;

  // Device and pinned host memory, aligned to 256 bytes, not initialised. Both block until work
  // that is under way is done; giving memory back throws nothing, also when the device is lost.
  virtual void* Allocate(size_t bytes) = 0;
  virtual void Free(void* memory) noexcept = 0;
  virtual void* AllocatePinned(size_t bytes) = 0;
  virtual void FreePinned(void* memory) noexcept = 0;

  // All of these enqueue. Host memory is pinned, and stays as it is until the copy is done.
  virtual void CopyIn(Stream stream, void* device, const void* host, size_t bytes) = 0;
  virtual void CopyOut(Stream stream, void* host, const void* device, size_t bytes) = 0;
  // From one place on the device to another; the two do not overlap.
  virtual void CopyWithin(Stream stream, void* to, const void* from, size_t bytes) = 0;

  // Copies from `peer`'s memory go straight to this GPU from now on, where the machine allows it;
  // elsewhere the driver takes them through the host's.
  virtual void Reach(const Gpu& peer) = 0;
  // Copies what is in `peer`'s memory to this GPU's.
  virtual void CopyFrom(Stream stream, void* device, const Gpu& peer, const void* from,
                        size_t bytes) = 0;
  // sum[i] = parts[0][i] + parts[1][i] + ..., in this order; `sum` may be one of them. REQUIRES: 1
  // to kMostGpus parts.
  virtual void Sum(Stream stream, const std::vector<const float*>& parts, size_t count,
                   float* sum) = 0;
  // Sets the lowest bit of *mark if one of the values is infinite or NaN; leaves it otherwise.
  virtual void MarkNotFinite(Stream stream, const float* values, size_t count, uint64_t* mark) = 0;

  // For these GPUs, each once, of which this is the first; all must outlive it. Blocks, and takes
  // memory of each. Throws where NCCL cannot be had, or not for these GPUs: says why.
  virtual std::unique_ptr<PieceSums> MakePieceSums(const std::vector<Gpu*>& gpus) = 0;

  virtual std::unique_ptr<Event> MakeEvent() = 0;
  // One that is recorded only while a graph is captured, and waited for only by streams of that
  // capture. It costs the graph nothing: another event is a node of it.
  virtual std::unique_ptr<Event> MakeOrderEvent() = 0;
  virtual void Record(Stream stream, Event* event) = 0;
  // What is enqueued from now on waits for the event, which may be another GPU's.
  virtual void WaitFor(Stream stream, const Event& event) = 0;
  // Blocks until all that came before the event's last Record is done. False: `seconds` have passed
  // before that. Recorded while a graph is captured: each launch of the graph records it again.
  virtual bool HostWaitFor(const Event& event, double seconds) = 0;

  // What is enqueued between the two, on any stream but kCopyIn, is not run but captured. Another
  // stream than the compute stream takes part from its first WaitFor, and must be waited for by the
  // compute stream before the end. Nothing is recorded on kCopyIn and nothing waits on it between
  // the two.
  virtual void BeginCapture() = 0;
  virtual std::unique_ptr<Graph> EndCapture() = 0;
  virtual void Launch(const Graph& graph) = 0;  // On the compute stream.

  // On the compute stream.
  virtual void Add(const float* part, size_t count, float* sum) = 0;  // sum += part
  virtual void Divide(float by, size_t count, float* values) = 0;     // values /= by
  virtual void ToFloats(const uint8_t* bytes, size_t count, float* floats) = 0;
  // gradient += l1 * sign(value) + 2 * l2 * value, of all of these with few kernels.
  virtual void AddRegularizers(const std::vector<Regularized>& variables) = 0;

  virtual std::unique_ptr<Layer> Make(const LayerDescription& description) = 0;
  virtual std::unique_ptr<Loss> Make(const LossDescription& description) = 0;
};

// Thread-safe. Lives as long as the process.
class Library {
 public:
  virtual ~Library() = default;

  // GPUs that CUDA_VISIBLE_DEVICES leaves. Throws Error where there is no driver; says so.
  virtual int GpuCount() = 0;
  // Throws Error where there is no GPU of this index; says how many there are.
  virtual std::unique_ptr<Gpu> Open(int index, const GpuOptions& options) = 0;

  // Pinned host memory as Gpu's, but for all GPUs, and for longer than any Gpu lives. `index`: of
  // one that this process uses. Giving it back may block until work that is under way is done.
  virtual void* AllocatePinned(int index, size_t bytes) = 0;
  virtual void FreePinned(int index, void* memory) noexcept = 0;
};

}  // namespace millrace::cuda

// The library's only symbol. Null: it is of another version than `version`, the caller's
// kLibraryVersion.
extern "C" millrace::cuda::Library* MillraceCudaLibrary(int version);

#endif  // MILLRACE_WORKER_DEVICE_CUDA_LIBRARY_H_
