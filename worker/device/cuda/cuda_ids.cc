#include "worker/device/cuda/cuda_ids.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "worker/model/batch_sizes.h"
#include "worker/model/walk.h"

namespace millrace::worker {
namespace {

// Pieces of one feature's memory.
struct Places {
  Places(size_t batch, size_t room)
      : count(layout.Add(sizeof(uint64_t))),
        ends(layout.Add(batch * sizeof(uint64_t))),
        ids(layout.Add(room * sizeof(int64_t))),
        sorted_ids(layout.Add(room * sizeof(int64_t))),
        sorted_rows(layout.Add(room * sizeof(int64_t))) {}

  MemoryLayout layout;
  size_t count;
  size_t ends;
  size_t ids;
  size_t sorted_ids;
  size_t sorted_rows;
};

}  // namespace

std::vector<CudaIds::Feature> CudaIds::FeaturesOf(const ModelPlan& plan, size_t batch) {
  std::vector<Feature> features;
  for (const LayerPlan& layer : plan.layers) {
    if (!layer.spec.has_embedding()) continue;
    const bool pooled = layer.spec.embedding().pooling() != Embedding::NONE;
    Feature feature;
    feature.feature = layer.sources.front().index;
    feature.slot = IdSlot(feature.feature, pooled);
    feature.ragged = layer.ragged;
    feature.sorted = IsTrained(layer);
    const size_t ids = layer.ragged ? kLikelyRaggedIds : ElementCount(layer.input());
    feature.ids_of_row = pooled ? ids : 1;
    feature.room = batch * ids;
    const auto known = std::find_if(features.begin(), features.end(), [&](const Feature& other) {
      return other.slot == feature.slot;
    });
    if (known == features.end()) {
      features.push_back(std::move(feature));
    } else {
      known->sorted |= feature.sorted;
    }
  }
  return features;
}

bool CudaIds::MayMove(const std::vector<Feature>& features) {
  return std::any_of(features.begin(), features.end(),
                     [](const Feature& feature) { return feature.ragged; });
}

size_t CudaIds::Bytes(const ModelPlan& plan, size_t batch) {
  const std::vector<Feature> features = FeaturesOf(plan, batch);
  size_t bytes = 0;
  for (const Feature& feature : features) bytes += Places(batch, feature.room).layout.bytes();
  return plan.pulls_ahead && !MayMove(features) ? 2 * bytes : bytes;
}

CudaIds::CudaIds(const ModelPlan& plan, size_t batch, cuda::Gpu* gpu)
    : gpu_(gpu),
      sorts_(gpu->Properties().deterministic),
      batch_(batch),
      features_(FeaturesOf(plan, batch)),
      slots_(IdSlot(plan.features.size(), /*pooled=*/false)),
      may_move_(MayMove(features_)),
      goes_ahead_(plan.pulls_ahead && !may_move_) {
  for (Feature& feature : features_) MakeRoom(&feature, feature.room);
  moved_ = false;
}

void CudaIds::MakeRoom(Feature* feature, size_t ids) {
  const Places places(batch_, ids);
  moved_ = true;
  feature->memory.reset();
  const size_t bytes = places.layout.bytes();
  feature->memory = std::make_unique<MirroredMemory>(gpu_, bytes, goes_ahead_ ? 2 * bytes : bytes);
  feature->room = ids;
  const MirroredMemory& memory = *feature->memory;
  cuda::Ids& slot = slots_[feature->slot];
  slot.ids = memory.Device<int64_t>(places.ids);
  slot.ends = feature->ragged ? memory.Device<uint64_t>(places.ends) : nullptr;
  if (sorts_) {
    slot.sorted_ids = memory.Device<int64_t>(places.sorted_ids);
    slot.sorted_rows = memory.Device<int64_t>(places.sorted_rows);
  }
  slot.count = memory.Device<uint64_t>(places.count);
  slot.most = ids;
}

// What is there at first is 0.
void CudaIds::AddPlacesAhead(CopiesIn* copies) const {
  if (!goes_ahead_) return;
  for (const Feature& feature : features_) {
    const MirroredMemory& memory = *feature.memory;
    const size_t bytes = Places(batch_, feature.room).layout.bytes();
    std::memset(memory.Host<char>(0), 0, bytes);
    gpu_->CopyIn(cuda::Stream::kCopyIn, memory.Device<char>(bytes), memory.Host<char>(0), bytes);
    copies->AddPlace(memory.Device<char>(0), bytes, memory.Device<char>(bytes), /*at_once=*/true);
  }
}

CudaIds::Ids CudaIds::IdsOf(const Feature& feature, const BatchPart& part) {
  const Tensor& tensor = part.batch->features[feature.feature];
  Ids taken;
  if (!feature.ragged) {
    const size_t of_example = tensor.ids.size() / part.whole();
    taken.ids =
        absl::MakeConstSpan(tensor.ids).subspan(part.first * of_example, part.size * of_example);
    return taken;
  }
  const uint64_t begin = part.first == 0 ? 0 : tensor.ends[part.first - 1];
  for (size_t i = part.first; i < part.end(); ++i) taken.ends.push_back(tensor.ends[i] - begin);
  taken.ids = absl::MakeConstSpan(tensor.ids).subspan(begin, taken.ends.back());
  return taken;
}

// The ids with their rows, as they stand.
void CudaIds::TakeRows(const Feature& feature, const Ids& taken) {
  order_.clear();
  size_t row = 0;
  for (size_t i = 0; i < taken.ids.size(); ++i) {
    while (feature.ragged && i >= taken.ends[row]) ++row;
    if (!feature.ragged) row = i / feature.ids_of_row;
    order_.push_back({taken.ids[i], static_cast<int64_t>(row)});
  }
}

void CudaIds::Copy(const Feature& feature, const Ids& taken, CopiesIn* copies) {
  const Places places(batch_, feature.room);
  const MirroredMemory& memory = *feature.memory;
  const absl::Span<const int64_t> ids = taken.ids;
  const size_t bytes = ids.size() * sizeof(int64_t);
  const auto copy = [&](size_t place, size_t count) {
    copies->Add(memory.Device<char>(place), memory.Host<char>(place), count);
  };
  *memory.Host<uint64_t>(places.count) = ids.size();
  std::copy(ids.begin(), ids.end(), memory.Host<int64_t>(places.ids));
  std::copy(taken.ends.begin(), taken.ends.end(), memory.Host<uint64_t>(places.ends));
  copy(places.count, sizeof(uint64_t));
  copy(places.ids, bytes);
  copy(places.ends, taken.ends.size() * sizeof(uint64_t));
  if (!feature.sorted || !sorts_) return;
  TakeRows(feature, taken);
  const absl::Span<const IdOfRow> sorted = sorter_.Sort(absl::MakeSpan(order_));
  for (size_t i = 0; i < sorted.size(); ++i) {
    memory.Host<int64_t>(places.sorted_ids)[i] = sorted[i].id;
    memory.Host<int64_t>(places.sorted_rows)[i] = sorted[i].row;
  }
  copy(places.sorted_ids, bytes);
  copy(places.sorted_rows, bytes);
}

bool CudaIds::Take(const BatchPart& part, CopiesIn* copies) {
  for (Feature& feature : features_) {
    const Ids taken = IdsOf(feature, part);
    // Memory that was not to be had for an earlier batch is asked for again.
    if (taken.ids.size() > feature.room) {
      MakeRoom(&feature, std::max(taken.ids.size(), 2 * feature.room));
    } else if (feature.memory == nullptr) {
      MakeRoom(&feature, feature.room);
    }
    Copy(feature, taken, copies);
  }
  return std::exchange(moved_, false);
}

}  // namespace millrace::worker
