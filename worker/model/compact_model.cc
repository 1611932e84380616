#include "worker/model/compact_model.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/memory/memory.h"
#include "common/status_macros.h"
#include "common/wire/rows.h"
#include "glog/logging.h"
#include "worker/model/batch_check.h"
#include "worker/model/memory_budget.h"
#include "worker/model/shape.h"

namespace millrace::worker {
namespace {

uint64_t ElementsOf(const VariableSpec& variable) {
  return ElementCount({variable.shape().begin(), variable.shape().end()});
}

// Gradients of compact tables go on as those of rows; all others as they are. Where no device
// writes gradients by itself, those of rows are made where they leave from.
class RowSink final : public GradientSink {
 public:
  RowSink(const CompactBatch& batch, GradientSet* compact, GradientSink* sink)
      : batch_(batch), compact_(compact), sink_(sink), places_(batch.rows.size()) {}

  void BackwardBegins() override { sink_->BackwardBegins(); }

  absl::Span<float> Buffer(size_t variable) override {
    if (!IsTable(variable)) return sink_->Buffer(variable);
    absl::Span<float>& place = places_[variable];
    if (place.data() == nullptr) place = PlaceOf(variable);
    return place;
  }

  absl::Span<float> DeviceBuffer(size_t variable) override {
    if (!IsTable(variable)) return sink_->DeviceBuffer(variable);
    return compact_->is_host_memory() ? compact_->variable(variable) : absl::Span<float>();
  }

  void FinishedFirst(size_t variable, size_t count) override {
    if (!IsTable(variable)) sink_->FinishedFirst(variable, count);
  }

  void Finished(size_t variable) override {
    HandOver(variable);
    sink_->Finished(variable);
  }

  void FinishedFinite(size_t variable) override {
    HandOver(variable);
    sink_->FinishedFinite(variable);
  }

 private:
  bool IsTable(size_t variable) const { return batch_.rows[variable] != nullptr; }

  absl::Span<float> PlaceOf(size_t variable) {
    const VariableRows& rows = *batch_.rows[variable];
    if (!compact_->is_host_memory()) {
      const auto to = sink_->RowBuffer(variable, batch_.rows[variable]);
      if (to.has_value() && to->data() != nullptr) return *to;
    }
    return compact_->variable(variable).subspan(0, rows.rows.size() * rows.width);
  }

  void HandOver(size_t variable) {
    if (!IsTable(variable)) return;
    const float* const gradient = compact_->variable(variable).data();
    if (places_[variable].data() != gradient) return;  // It is there.
    const absl::optional<absl::Span<float>> to = sink_->RowBuffer(variable, batch_.rows[variable]);
    if (to.has_value()) {
      std::copy_n(gradient, to->size(), to->data());
      return;
    }
    const VariableRows& rows = *batch_.rows[variable];
    const absl::Span<float> whole = sink_->Buffer(variable);
    std::fill(whole.begin(), whole.end(), 0.0f);
    CopyToRuns(gradient, RunsOf(rows.rows, rows.width, {0, whole.size()}), sizeof(float),
               whole.data());
  }

  const CompactBatch& batch_;
  GradientSet* const compact_;
  GradientSink* const sink_;
  std::vector<absl::Span<float>> places_;  // Of tables' gradients, once they are asked for.
};

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> CompactModel::Compile(std::shared_ptr<Device> device,
                                                             const ModelPlan& plan,
                                                             const BatchSizes& batches) {
  try {
    auto model = absl::WrapUnique(new CompactModel(std::move(device), plan, batches));
    MILLRACE_RETURN_IF_ERROR(model->MakeModel(model->first_rooms_));
    model->MakeTables();
    return std::unique_ptr<Model>(std::move(model));
  } catch (const std::bad_alloc&) {
    return NoMemoryForModel();
  }
}

CompactModel::CompactModel(std::shared_ptr<Device> device, const ModelPlan& plan,
                           const BatchSizes& batches)
    : device_(std::move(device)),
      plan_(plan),
      batches_(batches),
      tables_(plan_),
      first_rooms_(tables_.RoomsFor(batches_.train)) {}

void CompactModel::MakeTables() {
  table_values_.resize(plan_.variables.size());
  for (size_t i = 0; i < table_values_.size(); ++i) {
    if (!IsTable(i)) continue;
    table_values_[i].reset(
        static_cast<float*>(std::calloc(ElementsOf(plan_.variables[i]), sizeof(float))));
    if (table_values_[i] == nullptr) throw std::bad_alloc();
  }
}

// The old one first: the device may have no room for both.
absl::Status CompactModel::TryToMakeModel(const CompactTables::Rooms& rooms) {
  model_.reset();
  gradients_.reset();
  const ModelPlan plan = tables_.PlanFor(rooms);
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, device_->Compile(plan, batches_));
  host_memory_ = model->host_memory();
  has_next_values_ = model->has_next_values();
  std::vector<uint64_t> sizes(plan.variables.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    const bool has_gradient = IsTable(i) && !plan.variables[i].update().has_frozen();
    if (has_gradient) sizes[i] = ElementsOf(plan.variables[i]);
  }
  gradients_ = std::make_unique<GradientSet>(sizes, host_memory_);
  for (size_t i = 0; i < saved_.size(); ++i) {
    if (!IsTable(i)) std::copy(saved_[i].begin(), saved_[i].end(), model->values(i).begin());
  }
  const std::string before = std::exchange(numerics_, model->numerics());
  LOG_IF(WARNING, !before.empty() && before != numerics_)
      << device_->name() << ": the model that was made anew computes as '" << numerics_
      << "', the one before as '" << before << "'";
  rooms_ = rooms;
  model_ = std::move(model);
  saved_.clear();
  return absl::OkStatus();
}

absl::Status CompactModel::MakeModel(const CompactTables::Rooms& rooms) {
  try {
    return TryToMakeModel(rooms);
  } catch (const std::bad_alloc&) {
    return NoMemoryForModel();
  }
}

absl::Status CompactModel::MakeRoom(const CompactBatch& batch) {
  if (model_ != nullptr && CompactTables::Fits(rooms_, batch)) return absl::OkStatus();
  if (model_ != nullptr) SaveValues();
  const CompactTables::Rooms last = rooms_;
  absl::Status made;
  for (const uint64_t factor : {2, 1}) {
    const CompactTables::Rooms rooms = tables_.Grown(last, batch, factor);
    SayWhatGrows(rooms);
    made = MakeModel(rooms);
    if (!absl::IsResourceExhausted(made) || rooms == last) return made;
  }
  const absl::Status restored = MakeModel(last);
  LOG_IF(WARNING, !restored.ok()) << device_->name() << ": " << restored.message();
  return made;
}

void CompactModel::SayWhatGrows(const CompactTables::Rooms& rooms) const {
  for (size_t i = 0; i < rooms.size(); ++i) {
    if (rooms[i] == rooms_[i]) continue;
    LOG(INFO) << device_->name() << ": the model is made anew, with room for " << rooms[i]
              << " rows of '" << plan_.variables[i].name() << "', and not " << rooms_[i];
  }
}

void CompactModel::SaveValues() {
  std::vector<std::vector<float>> saved(plan_.variables.size());
  for (size_t i = 0; i < saved.size(); ++i) {
    if (IsTable(i)) continue;
    const absl::Span<float> values = model_->values(i);
    saved[i].assign(values.begin(), values.end());
  }
  saved_ = std::move(saved);
}

absl::Span<float> CompactModel::values(size_t variable) {
  if (IsTable(variable)) {
    return absl::MakeSpan(table_values_[variable].get(), ElementsOf(plan_.variables[variable]));
  }
  return model_ != nullptr ? model_->values(variable) : absl::MakeSpan(saved_[variable]);
}

absl::Span<float> CompactModel::held_values(size_t variable) {
  const bool is_of_device = !IsTable(variable) && model_ != nullptr;
  return is_of_device ? model_->held_values(variable) : values(variable);
}

void CompactModel::Arrived(size_t variable, size_t first, size_t count) {
  if (!IsTable(variable) && model_ != nullptr) model_->Arrived(variable, first, count);
}

std::vector<uint64_t> CompactModel::RowsOf(size_t variable, const Batch& batch) const {
  const TableRows& table = tables_.tables()[variable];
  return RowsOfBatch(table.features, table.rows, batch).TakeRows();
}

// The device's are asked for of compact tables too, as TakeNextValues requires.
absl::Span<float> CompactModel::next_values(size_t variable) {
  const absl::Span<float> next = model_->next_values(variable);
  return IsTable(variable) ? values(variable) : next;
}

void CompactModel::TakeNextValues() {
  if (model_ != nullptr) model_->TakeNextValues();
}

bool CompactModel::Stage(const Batch* batch) {
  staged_for_ = nullptr;
  if (model_ == nullptr) return false;
  model_->Stage(nullptr);
  if (batch == nullptr || !CheckBatch(plan_, *batch, batches_.train).ok()) return false;
  try {
    tables_.Translate(*batch, staged_.get());
  } catch (const std::bad_alloc&) {
    return false;
  }
  if (!CompactTables::Fits(rooms_, *staged_)) return false;
  // Within Train a device may refuse what it takes afterwards.
  if (!model_->Stage(&staged_->batch) && within_train_) return false;
  staged_for_ = batch;
  return true;
}

// Rows that follow one another at once. No id is of what is behind them: that is of any state, and
// need not go to the device.
void CompactModel::CopyRows(const CompactBatch& batch) {
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    if (batch.rows[i] == nullptr) continue;
    const VariableRows& rows = *batch.rows[i];
    float* to = model_->values(i).data();
    for (const ElementRange& run :
         RunsOf(rows.rows, rows.width, {0, ElementsOf(plan_.variables[i])})) {
      to = std::copy_n(table_values_[i].get() + run.begin, run.count, to);
    }
    model_->Arrived(i, 0, rows.rows.size() * rows.width);
  }
}

absl::StatusOr<BatchResult> CompactModel::Train(const Batch& batch, uint64_t seed,
                                                GradientSink* gradients) {
  const bool is_staged = std::exchange(staged_for_, nullptr) == &batch;
  if (!is_staged) MILLRACE_RETURN_IF_ERROR(CheckBatch(plan_, batch, batches_.train));
  try {
    return TrainOn(batch, is_staged, seed, gradients);
  } catch (const std::bad_alloc&) {
    return NoMemoryForModel();
  }
}

absl::StatusOr<BatchResult> CompactModel::TrainOn(const Batch& batch, bool is_staged, uint64_t seed,
                                                  GradientSink* gradients) {
  if (is_staged) {
    std::swap(current_, staged_);
  } else {
    if (model_ != nullptr) model_->Stage(nullptr);
    tables_.Translate(batch, current_.get());
  }
  MILLRACE_RETURN_IF_ERROR(MakeRoom(*current_));
  CopyRows(*current_);
  within_train_ = true;
  const auto trained = absl::MakeCleanup([this] { within_train_ = false; });
  RowSink sink(*current_, gradients_.get(), gradients);
  return model_->Train(current_->batch, seed, &sink);
}

absl::Status CompactModel::Evaluate(const Batch& batch, EvaluationSums* sums) {
  staged_for_ = nullptr;
  MILLRACE_RETURN_IF_ERROR(CheckBatch(plan_, batch, batches_.largest()));
  try {
    return EvaluateOn(batch, sums);
  } catch (const std::bad_alloc&) {
    return NoMemoryForModel();
  }
}

absl::Status CompactModel::EvaluateOn(const Batch& batch, EvaluationSums* sums) {
  if (model_ != nullptr) model_->Stage(nullptr);
  tables_.Translate(batch, current_.get());
  if (batch.size > batches_.train && !CompactTables::Fits(first_rooms_, *current_)) {
    return EvaluateParts(batch, batches_.train, sums);
  }
  const absl::Status room = MakeRoom(*current_);
  if (absl::IsResourceExhausted(room) && batch.size > 1) {
    return EvaluateParts(batch, (batch.size + 1) / 2, sums);
  }
  MILLRACE_RETURN_IF_ERROR(room);
  CopyRows(*current_);
  return model_->Evaluate(current_->batch, sums);
}

absl::Status CompactModel::EvaluateParts(const Batch& batch, size_t most, EvaluationSums* sums) {
  for (size_t begin = 0; begin < batch.size; begin += most) {
    const size_t end = std::min(begin + most, batch.size);
    MILLRACE_RETURN_IF_ERROR(EvaluateOn(ExamplesOf(batch, begin, end), sums));
  }
  return absl::OkStatus();
}

}  // namespace millrace::worker
