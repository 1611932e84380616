// Features of ids on their way to the device.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_CUDA_IDS_H_
#define MILLRACE_WORKER_DEVICE_CUDA_CUDA_IDS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "worker/device/cuda/batch_part.h"
#include "worker/device/cuda/copies_in.h"
#include "worker/device/cuda/id_sorter.h"
#include "worker/device/cuda/library.h"
#include "worker/device/cuda/mirrored_memory.h"
#include "worker/model/model_plan.h"

namespace millrace::worker {

// Embeddings take ids by slots: a feature has one for those that pool its ids and one for those
// that do not, since the rows of their outputs differ.
inline size_t IdSlot(size_t feature, bool pooled) { return 2 * feature + (pooled ? 1 : 0); }

// The ids of a batch for all embeddings of a model, with their order for the gradient's sums, where
// these have one. Room for ragged ones grows with the batches. Used by one thread at a time.
class CudaIds {
 public:
  // `plan` and `gpu` must outlive it. For batches of up to `batch` examples. Throws cuda::Error.
  CudaIds(const ModelPlan& plan, size_t batch, cuda::Gpu* gpu);

  // What it takes of the device when it is made.
  static size_t Bytes(const ModelPlan& plan, size_t batch);

  // Adds the copy of a part's ids, whose twins in host memory stay as they are until it is done or
  // of no use (CudaInputs::CopyBatch). True: some have moved since it last returned, and work
  // that was captured with slots() is void. After an exception it may be called again.
  bool Take(const BatchPart& part, CopiesIn* copies);

  // Whether Take may move ids: some are ragged.
  bool may_move() const { return may_move_; }

  // Of a plan that pulls ahead, unless ids may move: adds where they go ahead to.
  void AddPlacesAhead(CopiesIn* copies) const;

  // By IdSlot; empty where nobody asks for one.
  const cuda::Ids* slots() const { return slots_.data(); }

 private:
  struct Feature {
    size_t slot = 0;
    size_t feature = 0;
    size_t ids_of_row = 1;  // If not ragged.
    bool ragged = false;
    bool sorted = false;  // Its table is trained.
    size_t room = 0;      // Ids.
    std::unique_ptr<MirroredMemory> memory;
  };
  static std::vector<Feature> FeaturesOf(const ModelPlan& plan, size_t batch);
  static bool MayMove(const std::vector<Feature>& features);
  void MakeRoom(Feature* feature, size_t ids);
  // The ids of a part, whose `ends` count from its first one; none if not ragged.
  struct Ids {
    absl::Span<const int64_t> ids;
    std::vector<uint64_t> ends;
  };
  static Ids IdsOf(const Feature& feature, const BatchPart& part);
  void TakeRows(const Feature& feature, const Ids& taken);
  void Copy(const Feature& feature, const Ids& taken, CopiesIn* copies);

  cuda::Gpu* const gpu_;
  const bool sorts_;  // Sums have one order.
  const size_t batch_;
  std::vector<Feature> features_;
  std::vector<cuda::Ids> slots_;
  const bool may_move_;
  const bool goes_ahead_;       // Each feature has its memory twice on the device.
  bool moved_ = false;          // Since Take last returned.
  std::vector<IdOfRow> order_;  // Kept between batches, as is what the sorter takes.
  IdSorter sorter_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CUDA_CUDA_IDS_H_
