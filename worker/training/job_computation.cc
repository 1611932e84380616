#include "worker/training/job_computation.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <numeric>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/job_spec.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "worker/input/augmenter.h"
#include "worker/input/step_order.h"
#include "worker/model/memory_budget.h"
#include "worker/training/pushing_sink.h"
#include "worker/training/step_seed.h"

namespace millrace::worker {
namespace {

StepOrder OrderOf(const JobSpec& spec, const Dataset& train) {
  return StepOrder(train.size(), spec.batch_size(), spec.seed(), !spec.data().no_shuffle());
}

// A server that does not know the shard or the cut, that is at an older version than the step's, or
// that was called off, says nothing about the job: the coordinator is about to send a new route, or
// will try again.
absl::Status FromServers(const absl::Status& status) {
  if (absl::IsNotFound(status) || absl::IsCancelled(status)) {
    return absl::UnavailableError(status.message());
  }
  // Not to be taken for a loss that is no number.
  if (absl::IsOutOfRange(status)) return absl::AbortedError(status.message());
  return status;
}

// The pictures of a step follow from it and the job alone, as its dropout does.
Prefetcher::Change ChangeOf(const JobSpec& spec, const Dataset& train) {
  if (!spec.data().train().has_augmentation()) return {};
  return [augmenter = Augmenter(spec.data().train().augmentation(), train.example()),
          seed = spec.seed()](uint64_t step, Batch* batch) {
    augmenter.Apply(StepSeed(seed, step), batch);
  };
}

// How many batches are ready or in the making: the step under way and those of the next leases.
size_t LookAhead(const JobSpec& spec, const Dataset& train) {
  return PrefetchedBatches(std::min<uint64_t>(spec.batch_size(), train.size()) *
                           ExampleBytes(train.example()));
}

absl::Status WithAdvice(const absl::Status& model_error) {
  if (!absl::IsOutOfRange(model_error)) return model_error;
  return absl::OutOfRangeError(absl::StrCat(model_error.message(), "; ", kLossAdvice));
}

// In synchronous mode it is a version's gradient that is clipped, by the shards.
absl::optional<double> NormToClipBy(const JobSpec& spec) {
  if (Replicas(spec) > 0 || !spec.optimizer().has_global_clip_norm()) return absl::nullopt;
  return spec.optimizer().global_clip_norm();
}

bool HasRows(const Model& model) {
  for (size_t v = 0; v < model.variables().size(); ++v) {
    if (model.row_width(v) > 0) return true;
  }
  return false;
}

// Where rows are more than this part of a variable, all of it is pulled: that takes no longer.
constexpr uint64_t kMostPulledRows = 2;

absl::Status AwaitPull(ParameterClient::StartedPull* pull, const Servers& servers) {
  return FromServers(WaitPatiently(servers.patience, servers.stop_early,
                                   [&](absl::Time until) { return pull->Wait(until); }));
}

}  // namespace

absl::Status AwaitPush(ParameterClient::Push* push, const Servers& servers) {
  return FromServers(WaitPatiently(servers.patience, servers.stop_early,
                                   [&](absl::Time until) { return push->Wait(until); }));
}

absl::StatusOr<std::unique_ptr<JobComputation>> JobComputation::Start(
    const JobSpec& spec, std::unique_ptr<PreparedJob> job, const ThreadStarter& start_thread) {
  auto computation = absl::WrapUnique(new JobComputation(spec, std::move(job)));
  const Dataset& train = *computation->job_->train;
  MILLRACE_ASSIGN_OR_RETURN(
      computation->prefetcher_,
      Prefetcher::Start(&train, OrderOf(spec, train), computation->look_ahead_,
                        ChangeOf(spec, train), start_thread));
  return computation;
}

JobComputation::JobComputation(const JobSpec& spec, std::unique_ptr<PreparedJob> job)
    : spec_(spec),
      job_(std::move(job)),
      look_ahead_(LookAhead(spec, *job_->train)),
      pulls_ahead_(PullsAhead(spec) && job_->model->has_next_values()),
      pulls_rows_(HasRows(*job_->model)),
      gradients_(GradientSizes(*job_->model), kGradientSets, job_->model->host_memory()) {}

absl::Status JobComputation::FromData(const absl::Status& status) {
  if (!absl::IsInvalidArgument(status)) return status;
  data_changed_ = true;
  return absl::FailedPreconditionError(status.message());
}

void JobComputation::Stage(uint64_t step) {
  staged_.reset();
  if (job_->model->Stage(Ready(step))) staged_ = step;
}

const Batch* JobComputation::Ready(uint64_t step) const {
  if (IsRead(step)) return read_.batch.get();
  return prefetcher_->Ready(step);
}

absl::Status JobComputation::ReadFor(uint64_t step) {
  if (IsRead(step)) return absl::OkStatus();
  if (read_.batch != nullptr) {
    job_->model->Stage(nullptr);
    staged_.reset();
    prefetcher_->Recycle(std::move(read_.batch));
  }
  absl::StatusOr<std::unique_ptr<Batch>> batch = prefetcher_->Take(step);
  if (!batch.ok()) return FromData(batch.status());
  read_ = {step, *std::move(batch)};
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Batch>> JobComputation::Read(uint64_t step) {
  // Where another step's batch was staged and dropped, this one's may stand now.
  if (std::exchange(staged_, absl::nullopt) != step) job_->model->Stage(nullptr);
  if (IsRead(step)) return std::move(read_.batch);
  absl::StatusOr<std::unique_ptr<Batch>> batch = prefetcher_->Take(step);
  if (!batch.ok()) return FromData(batch.status());
  return batch;
}

void JobComputation::Expect(const std::vector<uint64_t>& steps) {
  for (const uint64_t step : expected_) {
    if (std::find(steps.begin(), steps.end(), step) == steps.end()) {
      prefetcher_->Forget(step, step + 1);
    }
  }
  for (const uint64_t step : steps) {
    if (!IsRead(step)) prefetcher_->Expect(step);
  }
  expected_ = steps;
}

JobComputation::Held JobComputation::WantedBy(uint64_t step, const Servers& servers) const {
  return {servers.generation, step / Replicas(spec_)};
}

ParameterClient::PullOptions JobComputation::OptionsOfStep() const {
  ParameterClient::PullOptions options;
  options.encoding = spec_.precision().wire();
  return options;
}

std::unique_ptr<ParameterClient::StartedPull> JobComputation::StartPull(uint64_t step,
                                                                        const Servers& servers) {
  absl::optional<PullBegun> ahead = std::exchange(ahead_, absl::nullopt);
  if (ahead.has_value() && ahead->step == step && ahead->generation == servers.generation) {
    return std::move(ahead->pull);
  }
  ahead.reset();
  ParameterClient::PullOptions options = OptionsOfStep();
  bool is_held = false;
  if (Replicas(spec_) > 0) {
    const Held wanted = WantedBy(step, servers);
    is_held = held_ == wanted;
    if (is_held && !pulls_rows_) return nullptr;
    options.version = wanted.version;
  }
  if (pulls_rows_) options.rows = RowsFor(*CHECK_NOTNULL(Ready(step)), is_held);
  return StartPull(std::move(options), &Model::values, servers);
}

std::unique_ptr<ParameterClient::StartedPull> JobComputation::StartPull(const std::string& cut_id,
                                                                        const Servers& servers) {
  ahead_.reset();
  staged_.reset();  // An evaluation takes its place.
  ParameterClient::PullOptions options;
  options.cut_id = cut_id;
  return StartPull(std::move(options), &Model::values, servers);
}

std::unique_ptr<ParameterClient::StartedPull> JobComputation::StartPull(
    ParameterClient::PullOptions options, ValuesOf values, const Servers& servers) {
  held_.reset();  // From here on the values may be of several states.
  options.arrived = [model = job_->model.get()](size_t variable, size_t first, size_t count) {
    model->Arrived(variable, first, count);
  };
  std::vector<absl::Span<float>> places;
  for (size_t v = 0; v < job_->model->variables().size(); ++v) {
    places.push_back(IsHeld(options.rows, v) ? job_->model->held_values(v)
                                             : (job_->model.get()->*values)(v));
  }
  return servers.client->StartPull(options, places);
}

bool JobComputation::IsHeld(const std::vector<VariableRows>& rows, size_t variable) const {
  return !rows.empty() && rows[variable].width > 0 && job_->model->row_width(variable) == 0;
}

std::vector<VariableRows> JobComputation::RowsFor(const Batch& batch, bool rows_alone) const {
  const Model& model = *job_->model;
  const std::vector<uint64_t> sizes = variable_sizes();
  std::vector<VariableRows> rows(sizes.size());
  for (size_t v = 0; v < rows.size(); ++v) {
    const size_t width = model.row_width(v);
    if (width == 0) {
      if (rows_alone) rows[v].width = sizes[v];  // And none of its rows.
      continue;
    }
    rows[v] = {width, model.RowsOf(v, batch)};
    // Also where a model of somebody's own says what cannot be.
    if (!AreRowsOf(rows[v], sizes[v]) || rows[v].rows.size() * width * kMostPulledRows > sizes[v]) {
      rows[v] = {};
    }
  }
  return rows;
}

// What cannot be begun ahead is begun in its turn, and is no error of the step under way.
bool JobComputation::PullAhead(uint64_t step, const Servers& servers) {
  const Batch* const batch = Ready(step);
  if (pulls_rows_ && batch == nullptr) {
    prefetcher_->Expect(step);
    // So that it is forgotten where the step does not come.
    if (std::find(expected_.begin(), expected_.end(), step) == expected_.end()) {
      expected_.push_back(step);
    }
    return false;
  }
  try {
    ParameterClient::PullOptions options = OptionsOfStep();
    if (pulls_rows_) options.rows = RowsFor(*batch, /*rows_alone=*/false);
    ahead_ = {servers.generation, step,
              StartPull(std::move(options), &Model::next_values, servers)};
    Stage(step);
  } catch (const std::bad_alloc&) {
    LOG(WARNING) << servers.patience.waiter << ": too little memory to pull for step " << step
                 << " ahead";
  }
  return true;
}

absl::Status JobComputation::FinishPull(uint64_t step, ParameterClient::StartedPull* pull,
                                        const Servers& servers) {
  if (staged_ != step) Stage(step);
  MILLRACE_RETURN_IF_ERROR(AwaitPull(pull, servers));
  if (Replicas(spec_) > 0) held_ = WantedBy(step, servers);
  return absl::OkStatus();
}

absl::StatusOr<ComputedStep> JobComputation::Train(uint64_t step, std::unique_ptr<Batch> batch,
                                                   const Servers& servers,
                                                   const NextStep& next_step) {
  absl::StatusOr<ComputedStep> computed = TrainOn(*batch, step, servers, next_step);
  prefetcher_->Recycle(std::move(batch));
  return computed;
}

absl::StatusOr<ComputedStep> JobComputation::TrainOn(const Batch& batch, uint64_t step,
                                                     const Servers& servers,
                                                     const NextStep& next_step) {
  ComputedStep step_under_way;
  step_under_way.push = servers.client->StartPush(step, static_cast<uint32_t>(batch.size));
  bool may_pull_ahead = pulls_ahead_;
  const auto pull_ahead = [&] {
    if (!may_pull_ahead) return;
    const absl::optional<uint64_t> next = next_step();
    if (next.has_value()) may_pull_ahead = !PullAhead(*next, servers);
  };
  PushingSink sink(step_under_way.push.get(), gradients_.Take(), job_->model->variables(),
                   servers.patience.clock, pull_ahead, NormToClipBy(spec_),
                   spec_.precision().wire());
  // Also where Train throws.
  const auto take_next_values = absl::MakeCleanup([this] {
    if (ahead_.has_value()) job_->model->TakeNextValues();
  });
  const absl::StatusOr<BatchResult> computed =
      job_->model->Train(batch, StepSeed(spec_.seed(), step), &sink);
  if (!computed.ok()) return WithAdvice(computed.status());
  if (!std::isfinite(computed->loss_sum)) {
    return WithAdvice(absl::OutOfRangeError(absl::StrCat("the loss is ", computed->loss_sum)));
  }
  MILLRACE_RETURN_IF_ERROR(sink.Check());
  MILLRACE_RETURN_IF_ERROR(sink.PushKept());
  step_under_way.push->Commit();
  step_under_way.backward_began_at = sink.backward_began_at();
  StepResult& result = step_under_way.result;
  result.set_step(step);
  result.set_examples(batch.size);
  result.set_loss_sum(computed->loss_sum);
  if (computed->accuracy_sum.has_value()) result.set_accuracy_sum(*computed->accuracy_sum);
  for (const auto& [name, sum] : computed->metric_sums) *result.add_metric_sums() = sum;
  return step_under_way;
}

absl::StatusOr<EvaluationResult> JobComputation::Evaluate(ParameterClient::StartedPull* pull,
                                                          const Servers& servers) {
  if (job_->evaluate == nullptr) {
    return absl::InvalidArgumentError("data.evaluate: unset; there is nothing to evaluate");
  }
  MILLRACE_RETURN_IF_ERROR(AwaitPull(pull, servers));
  const uint64_t examples = job_->evaluate->size();
  const uint64_t batch_size = EvaluationBatchSize(spec_);
  Batch batch;
  EvaluationSums sums;
  std::vector<uint64_t> indices;
  for (uint64_t begin = 0; begin < examples; begin += batch_size) {
    if (servers.stop_early()) return absl::CancelledError("no longer wanted");
    indices.resize(std::min(batch_size, examples - begin));
    std::iota(indices.begin(), indices.end(), begin);
    MILLRACE_RETURN_IF_ERROR(FromData(job_->evaluate->Read(indices, &batch)));
    MILLRACE_RETURN_IF_ERROR(job_->model->Evaluate(batch, &sums));
  }
  if (sums.examples != examples) {
    return absl::InternalError(absl::StrCat("the model counted ", sums.examples, " examples of ",
                                            examples, " that it was given to evaluate"));
  }
  EvaluationResult result;
  result.set_examples(sums.examples);
  for (const auto& [name, value] : EvaluationMetrics(sums))
    (*result.mutable_metrics())[name] = value;
  for (const auto& [output, matrix] : sums.confusion_matrices)
    *result.add_confusion_matrices() = matrix;
  return result;
}

}  // namespace millrace::worker
