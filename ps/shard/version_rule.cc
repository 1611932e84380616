#include "ps/shard/version_rule.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"

namespace millrace::ps {
namespace {

// The sum came on no stream.
constexpr uint64_t kNoStream = 0;

uint64_t Examples(const PushAssembly& push) { return std::max<uint32_t>(push.examples(), 1); }

}  // namespace

VersionSteps StepsOfVersion(uint64_t version, uint64_t replicas, uint64_t total_steps) {
  // Divided rather than multiplied, so that no version overflows.
  if (version > total_steps / replicas) return {total_steps, total_steps};
  const uint64_t begin = version * replicas;
  return {begin, begin + std::min(replicas, total_steps - begin)};
}

VersionRule::VersionRule(const UpdateTools& tools, uint64_t replicas, uint64_t total_steps,
                         const std::vector<PushPtr>& held, absl::optional<double> global_clip_norm)
    : tools_(tools),
      replicas_(replicas),
      total_steps_(total_steps),
      global_clip_norm_(global_clip_norm) {
  for (const PushPtr& push : held) held_[push->step()] = push;
  const size_t in_sum = static_cast<size_t>(std::count_if(
      held.begin(), held.end(), [](const PushPtr& push) { return push->pieces().empty(); }));
  if (in_sum == 0) return;
  // The first one has the sum as its pieces.
  added_ = in_sum + 1;
  sum_ = std::make_shared<RunningSum>(tools_.layout, tools_.pool);
  for (const PushPieces& message : held_.begin()->second->TakePieces()) {
    for (const WirePiece& piece : *message) sum_->Begin(piece);
  }
}

absl::Status VersionRule::Admit(const ShardState& state, uint64_t step) const {
  const uint64_t version = step / replicas_;
  if (version <= state.version) return absl::OkStatus();
  return absl::OutOfRangeError(
      absl::StrCat("step ", step, " is contribution ", step % replicas_, " to version ", version,
                   ", and the shard is at version ", state.version, "; pull version ", version,
                   " first, which waits for it"));
}

bool VersionRule::Wants(const ShardState& state, uint64_t step) const {
  return !state.applied.Contains(step) && !held_.contains(step);
}

void VersionRule::Completed(const ShardState& state, const PushPtr& push,
                            std::vector<Answered>* answered) {
  if (state.applied.Contains(push->step())) {
    answered->push_back({push, PushResponse::ALREADY_APPLIED});
    return;
  }
  const bool added = held_.emplace(push->step(), push).second;
  const VersionSteps steps = StepsOfVersion(state.version, replicas_, total_steps_);
  if (added && held_.size() == steps.end - steps.begin) {
    last_ = push;
  } else {
    answered->push_back({push, PushResponse::HELD});
  }
}

std::vector<PushPtr> VersionRule::GiveUp() {
  if (last_ == nullptr) return {};
  return {std::move(last_)};
}

bool VersionRule::HasWholeSum(const ShardState& state) const {
  const VersionSteps steps = StepsOfVersion(state.version, replicas_, total_steps_);
  return added_ > 0 && added_ == steps.end - steps.begin;
}

float VersionRule::Divisor() const {
  uint64_t examples = 0;
  for (const auto& [step, push] : held_) examples += Examples(*push);
  return static_cast<float>(examples) / static_cast<float>(Examples(*held_.begin()->second));
}

void VersionRule::BeginAddition(const StatePtr& state) {
  const VersionSteps steps = StepsOfVersion(state->version, replicas_, total_steps_);
  const auto next = held_.find(steps.begin + added_);
  if (next == held_.end()) return;
  Addition addition;
  addition.first = added_ == 0;
  const bool last = next->first + 1 == steps.end && !global_clip_norm_.has_value();
  if (sum_ == nullptr && !last) sum_ = std::make_shared<RunningSum>(tools_.layout, tools_.pool);
  addition.sum = sum_;
  const uint64_t first_examples = Examples(*held_.begin()->second);
  addition.weight =
      static_cast<float>(Examples(*next->second)) / static_cast<float>(first_examples);
  if (last) {
    addition.update = std::make_shared<StagedUpdate>(tools_, state);
    addition.divisor = Divisor();
  }
  addition_ = std::move(addition);
  pieces_ = next->second->TakePieces();
  claimed_ = 0;
  computed_elements_ = 0;
}

void VersionRule::Add(const Addition& addition, const WirePiece& piece) {
  if (addition.update == nullptr) {
    addition.first ? addition.sum->Begin(piece) : addition.sum->Add(piece, addition.weight);
  } else if (addition.first) {
    addition.update->Apply(piece);  // The only one.
  } else {
    addition.sum->AddLast(piece, addition.weight, addition.divisor, addition.update.get());
  }
}

absl::optional<Work> VersionRule::NextOfMean(const StatePtr& state,
                                             std::vector<Answered>* answered) {
  if (!mean_.has_value()) mean_.emplace(tools_, *global_clip_norm_, sum_, Divisor());
  if (mean_->is_measured() && last_ != nullptr) {
    answered->push_back({std::move(last_), PushResponse::HELD});
  }
  return mean_->Next(state);
}

absl::optional<Work> VersionRule::Next(const StatePtr& state, std::vector<Answered>* answered) {
  if (global_clip_norm_.has_value() && HasWholeSum(*state)) return NextOfMean(state, answered);
  if (!addition_.has_value()) BeginAddition(state);
  std::vector<PushPieces> claimed;
  Work work;
  while (claimed_ < pieces_.size() && work.elements < kWorkElements) {
    // Moved: so the received bytes are released with the work that was the last to need them.
    claimed.push_back(std::move(pieces_[claimed_++]));
    work.elements += ElementCount(claimed.back());
  }
  if (claimed.empty()) return absl::nullopt;
  work.update = addition_->update;
  work.compute = [addition = *addition_, claimed = std::move(claimed)] {
    for (const PushPieces& message : claimed) {
      for (const WirePiece& piece : *message) Add(addition, piece);
    }
  };
  return work;
}

absl::optional<Computed> VersionRule::Done(const Work& work) {
  if (mean_.has_value()) {
    if (!mean_->Done(work)) return absl::nullopt;
    return Finish();
  }
  computed_elements_ += work.elements;
  if (computed_elements_ < tools_.layout->pushed_elements()) return absl::nullopt;
  ++added_;
  const bool last = addition_->update != nullptr;
  addition_.reset();
  pieces_.clear();
  claimed_ = 0;
  if (!last) return absl::nullopt;
  return Finish();
}

Computed VersionRule::Finish() {
  Computed computed;
  for (const auto& [step, push] : held_) computed.steps.push_back(step);
  if (last_ != nullptr) computed.answered.push_back({std::move(last_), PushResponse::APPLIED});
  mean_.reset();
  Release(std::move(sum_));
  held_.clear();
  added_ = 0;
  return computed;
}

std::vector<PushPtr> VersionRule::Held() const {
  std::vector<PushPtr> held;
  for (const auto& [step, push] : held_) held.push_back(push);
  if (added_ == 0) return held;
  const PushPtr& first = held.front();
  auto sum = std::make_shared<PushAssembly>(first->push_id(), first->step(), first->examples());
  CHECK(sum->Add(*tools_.layout, kNoStream, RunningSum::AsPieces(sum_), /*keep=*/true).ok());
  held.front() = std::move(sum);
  return held;
}

VersionMeasure VersionRule::Measure(const ShardState& state) const {
  if (mean_.has_value()) return mean_->Measure();
  VersionMeasure measure;
  const VersionSteps steps = StepsOfVersion(state.version, replicas_, total_steps_);
  const bool complete = steps.end > steps.begin && held_.size() == steps.end - steps.begin;
  if (complete) measure.state = MeasureVersionResponse::ADDING;
  return measure;
}

absl::Status VersionRule::SetNorm(double norm) {
  if (mean_.has_value()) return mean_->SetNorm(norm);
  return absl::AbortedError("not all contributions are added up");
}

AppliedSet VersionRule::HeldSteps() const {
  AppliedSet steps;
  for (const auto& [step, push] : held_) steps.Insert(step);
  return steps;
}

}  // namespace millrace::ps
