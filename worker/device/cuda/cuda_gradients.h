// Gradients on the device, and their way out.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_CUDA_GRADIENTS_H_
#define MILLRACE_WORKER_DEVICE_CUDA_CUDA_GRADIENTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "worker/device/cuda/batch_part.h"
#include "worker/device/cuda/host_variables.h"
#include "worker/device/cuda/library.h"
#include "worker/device/cuda/mirrored_memory.h"
#include "worker/model/model.h"
#include "worker/model/model_plan.h"
#include "worker/model/walk.h"

namespace millrace::worker {

// Where the gradient of each variable goes on the host: pinned memory. Of a variable without one,
// null.
using GradientPlaces = std::vector<float*>;

// Hands over a gradient, which has come to `from`: copies what the sink wants of it to the sink's
// place, unless it is there. Where it is not known to be finite, the sink looks itself, and tells
// where.
void HandOverFrom(absl::Span<const float> from, size_t variable, bool is_finite,
                  GradientSink* sink);

// Takes the layers' gradients while a backward pass is enqueued: those of a variable that several
// layers share are added up in the order of the pass, the regularizer's is added once several are
// whole (MakeFinal), and of statistics it is the mean (as GradientSums, worker/device/cpu). They
// are copied to host memory, on a stream of its own, when they are final: a large one at once,
// small ones in groups (kGroupBytes), of which neighbours are one copy. Meanwhile the GPU looks
// whether they are finite, so that the host need not. Not so where several replicas share a batch,
// which add them up (GradientExchange): then the first one alone adds the regularizer's, and
// statistics are multiplied by the replica's share of the examples. Used by one thread at a time;
// throws cuda::Error.
class CudaGradients final : public cuda::Gradients {
 public:
  // Adds pieces to `layout`'s mirrored part. `places` must outlive it. `alone`: no other replica.
  CudaGradients(const ModelPlan& plan, const Walk& walk, const VariablePlaces& places, bool alone,
                MemoryLayout* layout);
  // And to the rest, once the mirrored part is whole.
  void AddRest(MemoryLayout* layout);

  // The GPU, the memory that was laid out, and where the variables' values begin in it; all must
  // outlive it.
  void Bind(cuda::Gpu* gpu, const MirroredMemory* memory, const float* values);

  // Gradients that are final one after the other leave together once they have so many bytes: each
  // group costs the graph an event, a copy of its mark, and for each run of neighbours, which
  // mostly is one, a copy and a kernel that looks at it.
  static constexpr size_t kGroupBytes = size_t{256} << 10;

  // Enqueues the marks of the step whose pass is launched next, with its number. Each group brings
  // its own along, so that one of the step before is never taken for it, whatever an event says.
  void BeginStep();

  // A backward pass of this part is going to be enqueued, whose gradients go to `to`; where several
  // replicas share the batch, that is not looked at.
  void Begin(const BatchPart& part, const GradientPlaces& to);
  // Enqueues what is still to be added to the gradients that were finished: they are final.
  void MakeFinal();
  // The pass is enqueued: the compute stream waits for the copies.
  void End();

  float* Buffer(int variable) override;
  void Finished(int variable) override;

  // Waits for each group of the pass that was enqueued last, or launched again, and hands its
  // gradients over, as finite ones where all of the group are; `to` is where they go, from where
  // they are copied unless it is the sink's place. False: one took more than `seconds`.
  bool HandOver(double seconds, const GradientPlaces& to, GradientSink* sink) const;
  // Waits for them alone.
  bool Wait(double seconds) const;

  // On the device: where all gradients begin.
  char* on_device() const { return memory_->Device<char>(all_); }

 private:
  struct Variable {
    size_t elements = 0;
    size_t bytes() const { return elements * sizeof(float); }
    size_t value = 0;  // Where it is among all, in bytes; likewise its gradient.
    size_t gradient = 0;
    size_t uses = 0;  // In a pass.
    bool is_statistic = false;
    Regularizer regularizer;
    size_t part = 0;      // Of several: where that of one of them is.
    size_t finished = 0;  // Uses in this pass.
  };
  // Variables whose gradients leave together, in the order in which they are final.
  using Group = std::vector<size_t>;
  // What tells that a group is there, and whether it is finite: a mark, which is twice the number
  // of the step, and 1 more where one of the group's values is infinite or NaN. It is one word, so
  // that who sees the step sees what was found.
  struct Arrival {
    std::unique_ptr<cuda::Event> copied;
    size_t mark = 0;  // Where that is which was copied last, mirrored.
  };
  void Complete(size_t index);
  // The last of the groups is final.
  void CopyOutLast();
  void CopyOut(Group group, uint64_t* mark);
  // Whether `next` stands behind `before` on the device and where both go, with nothing else in
  // between. REQUIRES: its number is the higher one.
  bool Follows(size_t next, size_t before) const;
  float* OnDevice(const Variable& variable) const {
    return memory_->Device<float>(all_ + variable.gradient);
  }
  // False: it took more than `seconds`. Throws as soon as the device has failed.
  bool Await(const Arrival& arrival, double seconds) const;
  // The mark that came to `place` last.
  uint64_t MarkAt(size_t place) const;
  // One for each group that there may be.
  size_t MarksBytes() const { return arrivals_.size() * sizeof(uint64_t); }

  std::vector<Variable> variables_;
  const bool alone_;
  bool first_ = true;   // Of the pass that is being enqueued: it has the batch's first example,
  double share_ = 1;    // and this share of all.
  const size_t bytes_;  // Of all gradients,
  size_t all_ = 0;      // which begin here.
  std::vector<Arrival> arrivals_;  // Of as many groups as there may be; the first ones are used.
  // In the order in which they are final: of the pass that is being enqueued, and of whole ones.
  std::vector<Group> enqueued_;
  std::vector<Group> groups_;
  std::vector<cuda::Regularized> regularized_;  // That are to be, by MakeFinal.
  bool open_ = false;  // More may come to the last one that is enqueued; it has not left.
  size_t open_bytes_ = 0;
  std::unique_ptr<cuda::Event> final_on_device_;
  std::unique_ptr<cuda::Event> looked_at_;
  std::unique_ptr<cuda::Event> all_copied_;
  size_t marks_ = 0;  // Those of the step under way, of all groups, mirrored.
  uint64_t step_ = 0;
  cuda::Gpu* gpu_ = nullptr;
  const MirroredMemory* memory_ = nullptr;
  const float* values_ = nullptr;
  GradientPlaces to_;  // Of the pass that is being enqueued.
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CUDA_CUDA_GRADIENTS_H_
