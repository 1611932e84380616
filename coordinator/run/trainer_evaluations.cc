// What evaluations come to: which is the best, whether the job ends, and what people are told.
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "coordinator/run/trainer.h"

namespace millrace::coordinator {

absl::Status Trainer::HandleEvaluations(Evaluator& evaluator) {
  for (const EvaluationReport& report : inbox_.TakeEvaluations()) {
    MILLRACE_ASSIGN_OR_RETURN(auto evaluated, evaluator.OnResult(report));
    if (evaluated) MILLRACE_RETURN_IF_ERROR(Judge(*std::move(evaluated), evaluator));
  }
  const std::string trouble = evaluator.CheckWorker(environment_.registry->Workers());
  if (!trouble.empty()) job_.AppendNotice(trouble);
  return absl::OkStatus();
}

// The state of the best one is saved first, so that none counts as the best that is not kept.
absl::Status Trainer::Judge(Evaluated evaluated, Evaluator& evaluator) {
  MILLRACE_ASSIGN_OR_RETURN(EvaluationVerdict verdict, JudgeEvaluation(job_.record(), evaluated));
  job_.AddMetrics(evaluated.metrics());
  judged_ = Judged{std::move(evaluated), std::move(verdict)};
  if (!judged_->verdict.best) return Conclude(evaluator);
  checkpointer_->SaveBest(*judged_->verdict.best, evaluator.cut_id());
  return absl::OkStatus();
}

absl::Status Trainer::ConcludeIfSaved(Evaluator& evaluator) {
  if (!judged_) return absl::OkStatus();
  const auto saved = checkpointer_->TakeBest();
  if (!saved) return absl::OkStatus();
  auto& best = judged_->verdict.best;
  const bool was_kept = std::exchange(bests_are_kept_, saved->ok());
  if (saved->ok()) {
    *best->mutable_checkpoint() = **saved;
  } else {
    if (was_kept) {
      job_.AppendNotice(
          absl::StrCat("the best state so far, of step ", best->step(),
                       ", is not kept, and does not count as the best, nor does any until one can "
                       "be kept: ",
                       std::string(saved->status().message())));
    }
    best.reset();
  }
  return Conclude(evaluator);
}

// Where something depends on evaluations, what this one came to is in the journal before anybody
// hears of it.
absl::Status Trainer::Conclude(Evaluator& evaluator) {
  Judged judged = *std::exchange(judged_, absl::nullopt);
  Evaluated& evaluated = judged.evaluated;
  const EvaluationVerdict& verdict = judged.verdict;
  const auto change = [&](JobRecord& record) { RecordVerdict(verdict, evaluated.step(), record); };
  if (IsWatched(job_.spec())) {
    MILLRACE_RETURN_IF_ERROR(reporter_.Journal(change));
  } else {
    reporter_.JournalSoon(change);
  }
  evaluator.End();
  if (verdict.stop) SetEnd(verdict.stop->step(), evaluator);
  evaluated.set_best(verdict.best.has_value());
  if (evaluated.step() < total_steps_) evaluated.clear_confusion_matrices();
  JobEvent event;
  *event.mutable_evaluated() = std::move(evaluated);
  job_.events().Append(std::move(event));
  if (verdict.stop) job_.AppendNotice(WhyStoppedEarly(job_.record()));
  return absl::OkStatus();
}

// No step from here on was handed out.
void Trainer::SetEnd(uint64_t step, Evaluator& evaluator) {
  total_steps_ = step;
  evaluator.SetEnd(step);
  if (checkpointer_ != nullptr) checkpointer_->SetEnd(step);
}

// A checkpoint that is damaged is removed; the next evaluation is the best then.
void Trainer::ForgetDamagedBest(const std::set<uint64_t>& damaged) {
  const JobRecord record = job_.record();
  const uint64_t number = record.best().checkpoint().number();
  if (!record.has_best() || !damaged.contains(number)) return;
  reporter_.JournalSoon([](JobRecord& changed) { changed.clear_best(); });
  job_.AppendNotice(absl::StrCat("checkpoint ", number, ", of the best ", record.best().metric(),
                                 " so far, is damaged, and is the best no more"));
}

}  // namespace millrace::coordinator
