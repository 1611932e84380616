#include "worker/training/fakes.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <set>
#include <stop_token>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "glog/logging.h"

namespace millrace::worker {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(1);
constexpr char kJobId[] = "job-1";
constexpr uint64_t kSizes[] = {2, 3};

// Blocks; after a minute the process ends.
void AwaitStop(const std::stop_token& stop) {
  std::promise<void> stopped;
  const std::stop_callback callback(stop, [&stopped] { stopped.set_value(); });
  CHECK(stopped.get_future().wait_for(std::chrono::minutes(1)) == std::future_status::ready)
      << "nobody stopped the opening of data";
}

class FakeDataset final : public Dataset {
 public:
  FakeDataset(const FakeWorld* world, uint64_t size)
      : world_(world), size_(size), fingerprint_(world->fingerprint) {}

  uint64_t size() const override { return size_; }
  const ExampleSpec& example() const override { return example_; }
  uint64_t fingerprint() const override { return fingerprint_; }

  absl::Status Read(absl::Span<const uint64_t> indices, Batch* batch) const override {
    if (world_->on_read) {
      if (absl::Status status = world_->on_read(indices); !status.ok()) return status;
    }
    batch->size = indices.size();
    batch->features.resize(1);
    batch->features[0].floats.assign(indices.begin(), indices.end());
    batch->labels.resize(1);
    batch->labels[0].ids.assign(indices.size(), 0);
    return absl::OkStatus();
  }

 private:
  const FakeWorld* const world_;
  const uint64_t size_;
  const uint64_t fingerprint_;
  const ExampleSpec example_ = FloatsAndClass({1}, 1);
};

class FakeModel final : public Model {
  // Of each variable what was written, and what the model was told of.
  struct Place {
    std::vector<std::vector<float>> values;
    std::vector<std::vector<float>> taken;
  };

 public:
  explicit FakeModel(FakeWorld* world) : world_(world) {
    const char* const names[] = {"first", "second"};
    for (int v = 0; v < 2; ++v) {
      VariableSpec variable;
      variable.set_name(names[v]);
      variable.add_shape(kSizes[v]);
      variables_.push_back(variable);
      for (Place* const place : {&now_, &next_}) {
        place->values.emplace_back(kSizes[v]);
        place->taken.emplace_back(kSizes[v]);
      }
    }
    if (world->second_is_frozen) variables_[1].mutable_update()->mutable_frozen();
    world_->log.Add("make model");
  }
  ~FakeModel() override { world_->log.Add("model gone"); }

  const std::vector<VariableSpec>& variables() const override { return variables_; }
  absl::Span<float> values(size_t variable) override {
    arriving_ = &now_;
    now_.taken[variable].assign(kSizes[variable], NAN);  // As a device does, until it is told.
    return absl::MakeSpan(now_.values[variable]);
  }

  absl::Span<float> held_values(size_t variable) override {
    world_->log.Add(absl::StrCat("held ", variable));
    return absl::MakeSpan(now_.values[variable]);
  }

  size_t row_width(size_t variable) const override {
    return world_->second_by_rows && variable == 1 ? 1 : 0;
  }
  std::vector<uint64_t> RowsOf(size_t variable, const Batch& batch) const override {
    CHECK_GT(row_width(variable), 0u);
    return {static_cast<uint64_t>(batch.features[0].floats[0]) % kSizes[variable]};
  }

  bool has_next_values() const override { return world_->has_next_values; }
  absl::Span<float> next_values(size_t variable) override {
    arriving_ = &next_;
    return absl::MakeSpan(next_.values[variable]);
  }

  void TakeNextValues() override {
    world_->log.Add("take next");
    std::swap(now_, next_);
    arriving_ = &now_;
  }

  // As a model on a device has them: it sees no value that it was not told of.
  void Arrived(size_t variable, size_t first, size_t count) override {
    world_->log.Add(absl::StrCat("arrived ", variable, " from ", first, ": ", count));
    CHECK_LE(first + count, kSizes[variable]);
    const auto begin = arriving_->values[variable].begin() + static_cast<ptrdiff_t>(first);
    std::copy_n(begin, count, arriving_->taken[variable].begin() + static_cast<ptrdiff_t>(first));
  }

  bool Stage(const Batch* batch) override {
    staged_ = within_train_ && !world_->stages_within_train ? nullptr : batch;
    if (staged_ == nullptr) return false;
    staged_example_ = batch->features[0].floats[0];
    world_->log.Add(absl::StrCat("stage ", staged_example_));
    return true;
  }

  // As a model on a device, which has what the batch was when it was staged.
  absl::StatusOr<BatchResult> Train(const Batch& batch, uint64_t seed,
                                    GradientSink* gradients) override {
    within_train_ = true;
    const auto trained = absl::MakeCleanup([this] { within_train_ = false; });
    if (std::exchange(staged_, nullptr) == &batch) {
      CHECK_EQ(staged_example_, batch.features[0].floats[0]) << "another batch was staged";
      world_->log.Add(absl::StrCat("staged ", staged_example_));
    }
    world_->log.Add(absl::StrCat("train ", batch.features[0].floats[0]));
    world_->log.Add(absl::StrCat("seed ", seed));
    if (world_->on_train) {
      if (absl::Status status = world_->on_train(batch); !status.ok()) return status;
    }
    if (world_->second_by_rows) TakeRow(batch);
    if (!world_->second_is_frozen || world_->finishes_frozen) Finish(1, batch, gradients);
    if (world_->between_gradients) world_->between_gradients();
    if (world_->finishes_all_gradients) Finish(0, batch, gradients);
    if (world_->after_gradients) world_->after_gradients();
    BatchResult result;
    CHECK(now_.taken == now_.values) << "the model was not told of all values";
    result.loss_sum = world_->loss_sum.value_or(now_.taken[0][0] * static_cast<double>(batch.size));
    result.accuracy_sum = static_cast<double>(batch.size);
    AddTo("recall", 1, 2, /*root=*/false, &result.metric_sums);
    return result;
  }

  absl::Status Evaluate(const Batch& batch, EvaluationSums* sums) override {
    world_->log.Add(absl::StrCat("evaluate ", batch.size));
    staged_ = nullptr;
    sums->examples += batch.size;
    CHECK(now_.taken == now_.values) << "the model was not told of all values";
    sums->loss_sum += now_.taken[0][0] * static_cast<double>(batch.size);
    AddTo("recall", 1, 4, /*root=*/false, &sums->metric_sums);
    sums->confusion_matrices[""].set_classes(2);
    return absl::OkStatus();
  }

 private:
  // The row of the batch must be of the same state as the first variable.
  void TakeRow(const Batch& batch) {
    const uint64_t row = RowsOf(1, batch).front();
    CHECK_EQ(now_.taken[1][row], now_.taken[0][0]) << "row " << row << " was not pulled";
    for (std::vector<float>* second : {&now_.values[1], &now_.taken[1]}) {
      std::fill(second->begin(), second->end(), -1.0f);
    }
  }

  void Finish(size_t variable, const Batch& batch, GradientSink* gradients) {
    if (row_width(variable) > 0) {
      const std::vector<uint64_t> rows = RowsOf(variable, batch);
      const auto buffer =
          gradients->RowBuffer(variable, std::make_shared<VariableRows>(VariableRows{1, rows}));
      for (float& x : buffer.value()) x = 1;
      return gradients->Finished(variable);
    }
    for (float& x : gradients->Buffer(variable)) x = 1;
    if (world_->bad_gradient == variable) gradients->Buffer(variable)[1] = world_->bad_value;
    gradients->Finished(variable);
  }

  FakeWorld* const world_;
  std::vector<VariableSpec> variables_;
  Place now_;
  Place next_;
  Place* arriving_ = &now_;  // Whose values are told of.
  const Batch* staged_ = nullptr;
  float staged_example_ = 0;
  bool within_train_ = false;
};

std::string AsText(Encoding::Kind encoding) {
  return encoding == Encoding::FLOAT32 ? "" : absl::StrCat(" as ", Encoding::Kind_Name(encoding));
}

class FakePush final : public ParameterClient::Push {
 public:
  FakePush(FakeWorld* world, uint64_t step) : world_(world), step_(step) {}

  void AddFirst(size_t variable, size_t count, EncodedNumbers gradient,
                std::shared_ptr<const void> owner) override {
    CHECK_EQ(gradient.size(), kSizes[variable]);
    CHECK_EQ(count, gradient.size());
    std::vector<float> values(gradient.size());
    Widen(gradient.encoding(), gradient.bytes(), absl::MakeSpan(values));
    for (const float x : values) CHECK_EQ(x, 1);
    CHECK(!committed_);
    owners_.push_back(std::move(owner));
    world_->log.Add(absl::StrCat("add ", variable, AsText(gradient.encoding())));
  }

  void AddRows(size_t variable, std::shared_ptr<const VariableRows> rows, EncodedNumbers gradient,
               std::shared_ptr<const void> owner) override {
    CHECK_GE(rows->width, 1u);
    CHECK_EQ(gradient.size(), rows->rows.size() * rows->width);
    CHECK(!committed_);
    owners_.push_back(std::move(owner));
    world_->log.Add(absl::StrCat("add rows of ", variable, ": ", absl::StrJoin(rows->rows, " "),
                                 AsText(gradient.encoding())));
  }

  void Commit() override {
    CHECK_EQ(owners_.size(), world_->second_is_frozen ? 1 : 2)
        << "every variable must be added before Commit";
    committed_ = true;
    world_->log.Add(absl::StrCat("commit ", step_));
  }

  absl::Status Wait(absl::Time) override {
    CHECK(committed_);
    world_->log.Add(absl::StrCat("push ", step_));
    return world_->on_push ? world_->on_push(step_) : absl::OkStatus();
  }

 private:
  FakeWorld* const world_;
  const uint64_t step_;
  std::vector<std::shared_ptr<const void>> owners_;
  bool committed_ = false;
};

// In two pieces, the last one first.
void Fill(size_t variable, float value, absl::Span<float> values,
          const std::function<void(size_t, size_t, size_t)>& arrived) {
  const absl::Span<float> rest = values.subspan(1);
  std::fill(rest.begin(), rest.end(), value);
  arrived(variable, 1, rest.size());
  values[0] = value;
  arrived(variable, 0, 1);
}

void FillRows(size_t variable, float value, const VariableRows& rows, absl::Span<float> values,
              const std::function<void(size_t, size_t, size_t)>& arrived) {
  for (const uint64_t row : rows.rows) {
    for (float& each : values.subspan(row * rows.width, rows.width)) each = value;
    arrived(variable, row * rows.width, rows.width);
  }
}

// Runs what it is told to.
class FakeStartedPull final : public ParameterClient::StartedPull {
 public:
  FakeStartedPull(std::function<absl::Status(absl::Time deadline)> wait,
                  std::function<void()> cancel)
      : wait_(std::move(wait)), cancel_(std::move(cancel)) {}

  absl::Status Wait(absl::Time deadline) override { return wait_(deadline); }
  void Cancel() override { cancel_(); }

 private:
  std::function<absl::Status(absl::Time)> wait_;
  const std::function<void()> cancel_;
};

class FakeClient final : public ParameterClient {
 public:
  FakeClient(FakeWorld* world, uint64_t generation) : world_(world), generation_(generation) {
    world_->log.Add(absl::StrCat("client ", generation_));
  }
  ~FakeClient() override {
    if (world_->on_client_gone) world_->on_client_gone(generation_);
  }

  std::unique_ptr<StartedPull> StartPull(const PullOptions& options,
                                         absl::Span<const absl::Span<float>> values) override {
    CHECK_EQ(values.size(), 2);
    float value = 100;
    std::string event = "pull newest";
    if (!options.cut_id.empty()) {
      event = absl::StrCat("pull cut ", options.cut_id);
      value = 500;
    } else if (options.version.has_value()) {
      event = absl::StrCat("pull ", *options.version);
      value = static_cast<float>(*options.version);
    }
    event += AsText(options.encoding);
    for (size_t v = 0; v < options.rows.size(); ++v) {
      if (options.rows[v].width == 0) continue;
      absl::StrAppend(&event, " rows of ", v, ": ", absl::StrJoin(options.rows[v].rows, " "));
    }
    if (world_->on_begin_pull) world_->on_begin_pull();
    world_->log.Add(absl::StrCat("begin ", event));
    const std::vector<absl::Span<float>> spans(values.begin(), values.end());
    const int id = NextPull();
    FakePull pull = {generation_, options.version, options.cut_id, absl::InfiniteFuture(),
                     [this, id] { WaitForCancel(id); }};
    const auto fill = [value, spans, arrived = options.arrived, rows = options.rows] {
      for (size_t v = 0; v < spans.size(); ++v) {
        if (rows.empty() || rows[v].width == 0) {
          Fill(v, value, spans[v], arrived);
        } else {
          FillRows(v, value, rows[v], spans[v], arrived);
        }
      }
    };
    const bool filled = world_->values_come_at_once;
    if (filled) fill();
    return std::make_unique<FakeStartedPull>(
        [this, id, pull, fill, filled, event, logged = false](absl::Time deadline) mutable {
          if (!std::exchange(logged, true)) world_->log.Add(event);
          FakePull waited = pull;
          waited.deadline = deadline;
          if (world_->on_pull) {
            if (absl::Status status = world_->on_pull(waited); !status.ok()) return status;
          }
          if (cancelled(id)) return absl::CancelledError("cancelled");
          if (!filled) fill();
          return absl::OkStatus();
        },
        [this, id] { CancelPull(id); });
  }

  std::unique_ptr<Push> StartPush(uint64_t step, uint32_t examples) override {
    CHECK_GE(examples, 1u);
    return std::make_unique<FakePush>(world_, step);
  }

  void Cancel() override {
    {
      MutexLock lock(&mutex_);
      if (!cancelled_) world_->log.Add(absl::StrCat("cancel ", generation_));
      cancelled_ = true;
      changed_.SignalAll();
    }
    if (world_->on_cancel) world_->on_cancel(generation_);
  }

 private:
  int NextPull() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return pulls_++;
  }

  void CancelPull(int id) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    cancelled_pulls_.insert(id);
    changed_.SignalAll();
  }

  bool cancelled(int id) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return cancelled_ || cancelled_pulls_.count(id) > 0;
  }

  void WaitForCancel(int id) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    while (!cancelled_ && cancelled_pulls_.count(id) == 0) {
      CHECK(!changed_.WaitWithTimeout(&mutex_, kPatience)) << "not cancelled";
    }
  }

  FakeWorld* const world_;
  const uint64_t generation_;
  Mutex mutex_;
  CondVar changed_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  int pulls_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<int> cancelled_pulls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

void EventLog::Add(std::string event) {
  MutexLock lock(&mutex_);
  events_.push_back(std::move(event));
  added_.SignalAll();
}

void EventLog::Await(const std::string& event, int times) {
  MutexLock lock(&mutex_);
  while (std::count(events_.begin(), events_.end(), event) < times) {
    CHECK(!added_.WaitWithTimeout(&mutex_, kPatience)) << "never happened: " << event;
  }
}

std::vector<std::string> EventLog::events() const {
  MutexLock lock(&mutex_);
  return events_;
}

std::vector<std::string> EventLog::EventsWith(const std::string& prefix) const {
  std::vector<std::string> found;
  for (const std::string& event : events()) {
    if (absl::StartsWith(event, prefix)) found.push_back(event);
  }
  return found;
}

void Messages::Add(MemberMessage message) {
  MutexLock lock(&mutex_);
  messages_.push_back(std::move(message));
  added_.SignalAll();
}

MemberMessage Messages::Next() {
  MutexLock lock(&mutex_);
  while (messages_.empty()) {
    CHECK(!added_.WaitWithTimeout(&mutex_, kPatience)) << "no message came";
  }
  MemberMessage message = std::move(messages_.front());
  messages_.pop_front();
  return message;
}

bool Messages::empty() const {
  MutexLock lock(&mutex_);
  return messages_.empty();
}

DatasetOpener FakeWorld::open_dataset() {
  return [this](const millrace::Dataset&, const DataDirectory& directory,
                const std::string& field) -> absl::StatusOr<std::unique_ptr<Dataset>> {
    log.Add(absl::StrCat("open ", field));
    if (on_open) {
      if (absl::Status status = on_open(field); !status.ok()) return status;
    }
    if (opens_until_stopped) {
      AwaitStop(directory.stop);
      log.Add("stopped");
      return CheckWanted(directory.stop);
    }
    return std::make_unique<FakeDataset>(
        this, field == "data.train" ? train_examples : evaluate_examples);
  };
}

ModelFactory FakeWorld::make_model() {
  return [this](const JobSpec&, const Dataset&,
                const Dataset*) -> absl::StatusOr<std::unique_ptr<Model>> {
    return std::make_unique<FakeModel>(this);
  };
}

ParameterClientFactory FakeWorld::make_client() {
  return [this](std::string, std::vector<uint64_t>, const Routing& routing,
                const ParameterClientOptions& options)
             -> absl::StatusOr<std::unique_ptr<ParameterClient>> {
    for (size_t v = 0; v < options.frozen.size(); ++v) {
      if (options.frozen[v]) log.Add(absl::StrCat("frozen ", v));
    }
    return std::make_unique<FakeClient>(this, routing.generation());
  };
}

JobSpec FakeJob(uint32_t replicas) {
  JobSpec spec;
  spec.set_batch_size(1);
  spec.set_epochs(1);
  spec.set_seed(7);
  spec.mutable_data()->mutable_train();
  spec.mutable_data()->mutable_evaluate();
  spec.mutable_data()->set_no_shuffle(true);
  spec.mutable_evaluation()->set_batch_size(2);
  if (replicas > 0) spec.mutable_synchronous()->set_replicas(replicas);
  return spec;
}

CoordinatorMessage PlanMessage(uint64_t request_id, const JobSpec& spec) {
  CoordinatorMessage message;
  message.mutable_plan_job()->set_request_id(request_id);
  *message.mutable_plan_job()->mutable_spec() = spec;
  return message;
}

CoordinatorMessage RouteMessage(const JobSpec& spec, uint64_t generation) {
  CoordinatorMessage message;
  SetRoute* route = message.mutable_set_route();
  route->set_job_id(kJobId);
  *route->mutable_spec() = spec;
  route->mutable_routing()->set_generation(generation);
  const char* const names[] = {"first", "second"};
  for (int v = 0; v < 2; ++v) {
    VariableSpec* variable = route->mutable_plan()->add_variables();
    variable->set_name(names[v]);
    variable->add_shape(kSizes[v]);
  }
  route->mutable_plan()->set_train_examples(kFakeTrainExamples);
  if (spec.data().has_evaluate()) {
    route->mutable_plan()->set_evaluate_examples(kFakeEvaluateExamples);
  }
  return message;
}

CoordinatorMessage LeaseMessage(uint64_t lease_id, uint64_t begin, uint64_t end,
                                uint64_t generation) {
  CoordinatorMessage message;
  Lease* lease = message.mutable_lease();
  lease->set_job_id(kJobId);
  lease->set_generation(generation);
  lease->set_lease_id(lease_id);
  lease->set_begin(begin);
  lease->set_end(end);
  return message;
}

CoordinatorMessage EvaluateMessage(uint64_t evaluation_id, const std::string& cut_id,
                                   uint64_t generation) {
  CoordinatorMessage message;
  Evaluate* evaluate = message.mutable_evaluate();
  evaluate->set_job_id(kJobId);
  evaluate->set_generation(generation);
  evaluate->set_evaluation_id(evaluation_id);
  evaluate->set_cut_id(cut_id);
  return message;
}

CoordinatorMessage ForgetMessage() {
  CoordinatorMessage message;
  message.mutable_forget_job()->set_job_id(kJobId);
  return message;
}

}  // namespace millrace::worker
