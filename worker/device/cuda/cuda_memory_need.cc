#include "worker/device/cuda/cuda_memory_need.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "worker/model/memory_budget.h"

namespace millrace::worker {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

// The largest size below `size` that fits; 0: none. `fits` holds for all below one that it holds
// for.
template <typename Fits>
size_t LargestThatFits(size_t size, const Fits& fits) {
  size_t low = 0;
  while (low + 1 < size) {
    const size_t middle = low + (size - low) / 2;
    (fits(middle) ? low : size) = middle;
  }
  return low;
}

}  // namespace

uint64_t CudaMemoryNeed::DeviceBytes(const CudaLayout& layout, const BatchSizes& part) const {
  return layout.memory.bytes() + CudaIds::Bytes(plan_, part.largest()) + kMargin;
}

uint64_t CudaMemoryNeed::DeviceBytes(const BatchSizes& batches) const {
  const BatchSizes part = PartSizes(batches, replicas_);
  return DeviceBytes(CudaLayout(plan_, walk_, layers_, places_, part, buckets_, replicas_), part);
}

uint64_t CudaMemoryNeed::BytesWithoutAhead() const {
  ModelPlan plan = plan_;
  plan.pulls_ahead = false;
  return CudaMemoryNeed(plan, walk_, layers_, places_, buckets_, replicas_, batches_, layout_)
      .DeviceBytes(batches_);
}

std::string CudaMemoryNeed::SmallerBatches(size_t fitting) const {
  // The room of compact tables, here that for batches of this size, is smaller for smaller ones.
  const bool is_compact = plan_.host_bytes > 0;
  if (fitting == 0) {
    return is_compact ? "use smaller layers or a smaller batch_size" : "use smaller layers";
  }
  return is_compact
             ? absl::StrFormat("batches of %d examples would fit, perhaps larger ones", fitting)
             : absl::StrFormat("batches of up to %d examples would fit", fitting);
}

absl::Status CudaMemoryNeed::CheckDevice(uint64_t free, const std::string& device_name) const {
  const uint64_t need = DeviceBytes(layout_, PartSizes(batches_, replicas_));
  if (need <= free) return absl::OkStatus();
  const bool train_alone = DeviceBytes({batches_.train, 0}) > free;
  const size_t size = train_alone ? batches_.train : batches_.evaluation;
  const size_t fitting = LargestThatFits(size, [&](size_t smaller) {
    return DeviceBytes(train_alone ? BatchSizes{smaller, 0}
                                   : BatchSizes{batches_.train, smaller}) <= free;
  });
  std::string advice = SmallerBatches(fitting);
  if (plan_.pulls_ahead) {
    absl::StrAppendFormat(&advice, "; without asynchronous.pull_ahead the model needs %.3g GiB",
                          BytesWithoutAhead() / kGiB);
  }
  return absl::ResourceExhaustedError(
      absl::StrFormat("the model, with batches of %d examples (%s), needs %.3g GiB of the memory "
                      "of %s (%.3g GiB of "
                      "it for CUDA itself), of which %.3g GiB are free; %s",
                      size, train_alone ? "batch_size" : "evaluation.batch_size", need / kGiB,
                      device_name, kMargin / kGiB, free / kGiB, advice));
}

absl::Status CudaMemoryNeed::CheckHost(uint64_t limit) const {
  const auto pinned = static_cast<double>(replicas_ * layout_.mirrored_bytes +
                                          places_.values_bytes + places_.gradients_bytes);
  const double need = pinned + TrainingBytes(plan_, batches_);
  if (need <= static_cast<double>(limit)) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "the model, with batches of %d examples (batch_size), needs %.3g GiB of this machine's "
      "memory beside the GPU's, this worker may use %.3g GiB; use smaller layers or a smaller "
      "batch_size",
      batches_.train, need / kGiB, static_cast<double>(limit) / kGiB));
}

}  // namespace millrace::worker
