// Who evaluates: the workers that are ready for the job, in turn.
#include <tuple>

#include "coordinator/dispatch/dispatcher.h"

namespace millrace::coordinator {

// One that was asked before may be stuck in it, and its turn comes again whenever another job has
// evaluated meanwhile; it beats and trains, and would keep each evaluation waiting anew.
absl::optional<uint64_t> Dispatcher::SendEvaluate(const Evaluate& evaluate) {
  MutexLock lock(&mutex_);
  const auto found = jobs_.find(evaluate.job_id());
  if (found == jobs_.end()) return absl::nullopt;
  JobDispatch& job = found->second;
  if (job.evaluation_id != evaluate.evaluation_id()) job.evaluating.clear();
  job.evaluation_id = evaluate.evaluation_id();
  const auto comes_later = [&](uint64_t worker,
                               const Worker& state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return std::make_tuple(job.evaluating.contains(worker), !state.answers_evaluations,
                           HasTrouble(job, worker), job.standings.at(worker).slowness > kSlow,
                           worker <= evaluated_);
  };
  absl::optional<uint64_t> chosen;
  std::tuple<bool, bool, bool, bool, bool> of_chosen;
  for (const auto& [worker, state] : workers_) {
    if (!IsReady(job, worker)) continue;
    if (chosen && comes_later(worker, state) >= of_chosen) continue;
    chosen = worker;
    of_chosen = comes_later(worker, state);
  }
  if (!chosen) return absl::nullopt;
  evaluated_ = *chosen;
  job.evaluating.try_emplace(*chosen, options_.clock->Now());
  CoordinatorMessage message;
  *message.mutable_evaluate() = evaluate;
  outbox_->Send(*chosen, message);
  return chosen;
}

void Dispatcher::SetAnswersEvaluations(uint64_t worker, bool answers) {
  MutexLock lock(&mutex_);
  const auto found = workers_.find(worker);
  if (found != workers_.end()) found->second.answers_evaluations = answers;
}

void Dispatcher::EndEvaluation(const std::string& job_id) {
  MutexLock lock(&mutex_);
  const auto job = jobs_.find(job_id);
  if (job == jobs_.end()) return;
  job->second.evaluating.clear();
  HandOut();
}

void Dispatcher::TakeEvaluationBack(uint64_t worker, const std::string& job_id) {
  MutexLock lock(&mutex_);
  const auto job = jobs_.find(job_id);
  if (job == jobs_.end()) return;
  job->second.evaluating.erase(worker);
  HandOut();
}

bool Dispatcher::HasEvaluation(uint64_t worker, const std::string& job_id, uint64_t evaluation_id) {
  MutexLock lock(&mutex_);
  const auto job = jobs_.find(job_id);
  return job != jobs_.end() && job->second.evaluating.count(worker) > 0 &&
         job->second.evaluation_id == evaluation_id;
}

}  // namespace millrace::coordinator
