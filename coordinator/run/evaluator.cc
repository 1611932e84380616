#include "coordinator/run/evaluator.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/grpc_status.h"
#include "common/job_spec.h"
#include "common/output_spec.h"
#include "common/printable.h"
#include "common/retry.h"
#include "common/status_macros.h"
#include "coordinator/job/worker_metrics.h"
#include "glog/logging.h"

namespace millrace::coordinator {
namespace {

constexpr absl::Duration kRetryPause = absl::Milliseconds(200);
constexpr int kQuietAttempts = 3;  // Failures before people are told.
constexpr int kAttemptsBeforeLook = 10;

std::string CutId(uint64_t pin) { return absl::StrCat("evaluation-", pin); }

// Synchronous versions are evaluated whole.
uint64_t PeriodOf(const JobSpec& spec) {
  const uint64_t every = spec.evaluation().every_steps();
  const uint64_t replicas = std::max<uint64_t>(Replicas(spec), 1);
  if (every == 0 || every > kMaxSteps) return 0;
  return (every + replicas - 1) / replicas * replicas;
}

// What people are told of a result; of matrices only at the job's end.
Evaluated EvaluatedOf(const EvaluationResult& result, uint64_t step, bool at_end) {
  Evaluated evaluated;
  evaluated.set_step(step);
  evaluated.set_examples(result.examples());
  for (const auto& [name, value] : UsableMetrics(result)) {
    (*evaluated.mutable_metrics())[absl::StrCat("eval_", name)] = value;
  }
  if (!at_end) return evaluated;
  for (ConfusionMatrix& matrix : UsableMatrices(result)) {
    *evaluated.add_confusion_matrices() = std::move(matrix);
  }
  return evaluated;
}

}  // namespace

Evaluator::Evaluator(Options options, ShardGroup* shards, Dispatcher* dispatcher)
    : options_(std::move(options)),
      total_steps_(options_.total_steps),
      period_(options_.spec.data().has_evaluate() ? PeriodOf(options_.spec) : 0),
      shards_(shards),
      dispatcher_(dispatcher),
      evaluated_(options_.evaluated) {}

uint64_t Evaluator::BarrierFrom(uint64_t step) const {
  const uint64_t total = total_steps_;
  if (period_ == 0 || step >= total) return total;
  const uint64_t from = std::max(step, evaluated_ + 1);
  return std::min(total, (from + period_ - 1) / period_ * period_);
}

bool Evaluator::IsDueAt(uint64_t barrier) const {
  return options_.spec.data().has_evaluate() && barrier > evaluated_;
}

absl::StatusOr<BarrierCheck> Evaluator::Begin(uint64_t step, uint64_t generation,
                                              bool may_be_last) {
  CHECK(!under_way());
  // A call to pin the one before the last may have come after the one to unpin it.
  for (const uint64_t pin : {pins_ - 1, pins_}) {
    if (pins_ == 0) continue;
    MILLRACE_RETURN_IF_ERROR(shards_->UnpinCut(generation, CutId(pin)));
  }
  // Only now, so that nothing is left under an older name.
  const std::string cut_id = CutId(++pins_);
  MILLRACE_ASSIGN_OR_RETURN(const auto pinned, shards_->PinCut(generation, cut_id));
  const BarrierCheck check = CheckBarrier(pinned, step);
  if (check.state != BarrierState::kReached) return check;
  step_ = step;
  may_be_last_ = may_be_last;
  answered_at_.reset();
  request_.set_job_id(options_.job_id);
  request_.set_generation(generation);
  request_.set_evaluation_id(generation << 32 | ++evaluations_);
  request_.set_cut_id(cut_id);
  worker_.reset();
  assign_at_ = absl::InfinitePast();
  attempts_ = 0;
  look_at_pins_at_ = kAttemptsBeforeLook;
  pins_are_sure_ = true;
  has_failed_ = false;
  asked_at_.clear();
  Assign();
  return check;
}

void Evaluator::Assign() {
  worker_ = dispatcher_->SendEvaluate(request_);
  assigned_at_ = options_.clock->Now();
  answer_by_ = assigned_at_ + pace_.Patience();
  if (worker_) asked_at_.try_emplace(*worker_, assigned_at_);
}

std::string Evaluator::CheckWorker(const std::vector<WorkerMember>& workers) {
  if (!under_way() || answered_at_) return std::exchange(trouble_, "");
  const absl::Time now = options_.clock->Now();
  if (worker_) {
    const auto found = std::find_if(workers.begin(), workers.end(),
                                    [&](const WorkerMember& w) { return w.id == *worker_; });
    const bool has_it =
        dispatcher_->HasEvaluation(*worker_, options_.job_id, request_.evaluation_id());
    if (found == workers.end() || !has_it) {
      worker_.reset();
    } else if (now >= answer_by_) {
      GiveUp(found->registration.name());
    }
  }
  if (!worker_ && now >= assign_at_) Assign();
  return std::exchange(trouble_, "");
}

void Evaluator::GiveUp(const std::string& name) {
  trouble_ = absl::StrCat("the evaluation at step ", *step_, " took longer than ",
                          absl::FormatDuration(answer_by_ - assigned_at_), " on ", name,
                          "; another worker tries");
  pace_.GaveUp();
  dispatcher_->SetAnswersEvaluations(*worker_, false);
  worker_.reset();
}

absl::optional<Dispatcher::Stall> Evaluator::FindStall(
    const std::vector<WorkerMember>& workers) const {
  if (!under_way()) return absl::nullopt;
  if (answered_at_) {
    return Dispatcher::Stall{
        absl::StrCat("the best state so far, of step ", *step_, ", to be saved"), *answered_at_};
  }
  for (const WorkerMember& worker : workers) {
    if (worker_ != worker.id) continue;
    return Dispatcher::Stall{absl::StrCat(worker.registration.name(),
                                          ", which evaluates the state at step ", *step_, ","),
                             assigned_at_};
  }
  return Dispatcher::Stall{absl::StrCat("a worker that can evaluate the state at step ", *step_),
                           absl::InfinitePast()};
}

// Another try is due, or the job ends with what is returned.
absl::Status Evaluator::TakeError(const EvaluationReport& report) {
  dispatcher_->TakeEvaluationBack(report.worker, options_.job_id);
  asked_at_.erase(report.worker);
  if (worker_ != report.worker) return absl::OkStatus();  // It was given up: no news.
  const absl::StatusCode code = ToStatusCode(report.result.code());
  const std::string& why = report.result.message();
  const std::string message =
      absl::StrCat("the evaluation at step ", *step_, ": ",
                   why.empty() ? "it does not say why" : Printable(why), " (on ", report.name, ")");
  if (Classify(code) == Failure::kFinal) return absl::Status(code, message);
  has_failed_ =
      code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kDeadlineExceeded;
  if (++attempts_ % kQuietAttempts == 0) trouble_ = message;
  worker_.reset();
  assign_at_ = options_.clock->Now() + kRetryPause * std::min(attempts_, 10);
  return absl::OkStatus();
}

// Pinning under the name that was used already changes nothing where that is pinned, and says what
// it is. Whoever lacks it may have gone on: then what it pins now is no state to evaluate.
absl::optional<std::string> Evaluator::LookAtPins() {
  if (!under_way() || answered_at_ || attempts_ < look_at_pins_at_) return absl::nullopt;
  look_at_pins_at_ = attempts_ + kAttemptsBeforeLook;
  const auto pinned = shards_->PinCut(request_.generation(), cut_id());
  const std::string at = absl::StrCat(" for the evaluation at step ", *step_);
  // It is for a name that is not pinned yet.
  if (absl::IsResourceExhausted(pinned.status())) {
    return absl::StrCat("what was pinned", at,
                        " is gone: ", std::string(pinned.status().message()));
  }
  pins_are_sure_ = pinned.ok();
  if (!pinned.ok()) {
    look_at_pins_at_ = attempts_ + 1;
    return absl::nullopt;
  }
  const BarrierCheck check = CheckBarrier(*pinned, *step_);
  if (check.state == BarrierState::kReached) return absl::nullopt;
  return absl::StrCat("what ", shards_->NameOf(check.shard), " had pinned", at, " is gone");
}

void Evaluator::NoteMetrics(const std::string& worker, size_t reported, size_t taken) {
  if (reported == 0) {
    trouble_ =
        absl::StrCat("the evaluation at step ", *step_, " has no metrics (on ", worker,
                     "): nobody learns how good the model is; a worker reports at least 'loss'");
  } else if (taken < reported) {
    trouble_ =
        absl::StrCat("the evaluation at step ", *step_, " has ", reported, " metrics, of which ",
                     reported - taken, " are left out; must be at most ", kMostReportedMetrics,
                     ", with names of 1 to ", kMaxMetricNameBytes, " printable bytes");
  }
}

absl::StatusOr<absl::optional<Evaluated>> Evaluator::OnResult(const EvaluationReport& report) {
  const EvaluationResult& result = report.result;
  if (!under_way() || answered_at_ || result.evaluation_id() != request_.evaluation_id()) {
    return absl::nullopt;
  }
  if (result.code() != 0) {
    MILLRACE_RETURN_IF_ERROR(TakeError(report));
    return absl::nullopt;
  }
  if (!pins_are_sure_) {
    EvaluationReport doubtful = report;
    doubtful.result.set_code(static_cast<int>(absl::StatusCode::kAborted));
    doubtful.result.set_message("whether a shard still has what it had pinned is not known");
    MILLRACE_RETURN_IF_ERROR(TakeError(doubtful));
    return absl::nullopt;
  }
  dispatcher_->EndEvaluation(options_.job_id);
  const auto loss = result.metrics().find("loss");
  if (loss != result.metrics().end() && !std::isfinite(loss->second)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the evaluation at step ", *step_, ": the loss is ", loss->second, " (on ",
                     report.name, "); a smaller learning rate may help"));
  }
  // Not since it began: the patience with workers that were given up would make the next one
  // longer.
  const auto asked = asked_at_.find(report.worker);
  if (asked != asked_at_.end()) pace_.Took(options_.clock->Now() - asked->second);
  answered_at_ = options_.clock->Now();
  Evaluated evaluated =
      EvaluatedOf(result, *step_, /*at_end=*/may_be_last_ || *step_ >= total_steps_);
  NoteMetrics(report.name, result.metrics().size(), evaluated.metrics().size());
  return evaluated;
}

void Evaluator::End() {
  CHECK(answered_at_);
  evaluated_ = *step_;
  step_.reset();
  answered_at_.reset();
  const absl::Status unpinned = shards_->UnpinCut(request_.generation(), cut_id());
  LOG_IF(WARNING, !unpinned.ok() && !absl::IsCancelled(unpinned))
      << options_.job_id << ": " << unpinned;
}

absl::optional<uint64_t> Evaluator::Abandon() {
  if (under_way()) dispatcher_->EndEvaluation(options_.job_id);
  answered_at_.reset();
  return std::exchange(step_, absl::nullopt);
}

}  // namespace millrace::coordinator
