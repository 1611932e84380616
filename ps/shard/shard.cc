// Why each step is applied exactly once, and each version is seen whole.
//
// All that can be seen of a shard is one pointer, `state_`: blocks, applied set and version
// together. It changes in one place, Publish, under the lock, from a state to one that StagedUpdate
// computed from that very state. Whoever reads it (a pull, a pinned cut, a flush) takes a reference
// and has one moment between two step applications, for ever.
//
// The applied set in the state decides whether a step counts. It is asked under the lock before an
// update is begun, and it cannot change until that update is published or dropped, since there is
// one update at a time (TurnRule, VersionRule). StagedUpdate::Finish checks it once more. So of two
// pushes of one step one is applied, and the other is answered ALREADY_APPLIED (or HELD) when it is
// complete.
//
// A push counts when each element has arrived once (PushAssembly), and until then all that exists
// of it is an entry in a table: to drop it (its stream ended, a message was refused, the generation
// changed) is to erase that entry. Its number is remembered so that pieces still under way are
// refused instead of starting a push that can never be complete. Elements of frozen slices do not
// count: a shard that has no others is pushed one message without pieces, which is complete and
// goes the way of every other push, so that the shard's versions and applied set are those of its
// job.
//
// Computing happens without the lock, as Work that the rule hands out under it. A thread that
// brought a message takes a piece of work, computes, reports under the lock, and takes the next one
// while there is any; so work waits for no thread of its own, and several streams compute side by
// side. The report under the lock is also what makes one thread's blocks visible to the one that
// publishes them.
//
// What is acknowledged outlives the process, where the shard has a root: the root is written under
// the lock in which the state changes, while answers wait for the end of it and `effects->released`
// still holds the state before. Held contributions are not in it; before the first of a version is
// acknowledged, the root is told that there are such.
//
// Where gradients are clipped by their norm over all shards, the last contribution of a version is
// held like the others, and the version's update is computed by the thread of the call that brings
// the norm (shard_norms.cc). What is acknowledged then is held contributions, no more: they are
// lost and come back as such, and so the norm, which follows from them, is the same again. A state
// keeps the norm that it was made with, wherever it is kept itself: so does whoever is one version
// behind get the same one.
//
// A closed shard is one whose memory of what it acknowledged may be incomplete. The generation
// alone would not keep it from serving: its clients are at that generation and take its values for
// newer than they are. So it serves nobody until the coordinator, which asks for its applied set
// first, sets a greater one.
//
// What clients can make a shard hold is bounded, by what it reserved when it was made and by the
// spare memory that all shards of a server share (shard_memory.cc).
//
// Stepping back replaces the state and the rule, and retiring the rule, under the lock too. Work
// that was handed out before finds another rule when it reports, and counts for nothing: it wrote
// to blocks and sums of its own.
//
// Calls to the outside (answers, waiting pulls) are collected under the lock as Effects and made
// after it is released.
#include "ps/shard/shard.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "common/printable.h"
#include "common/proto_duration.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "ps/shard/shard_internal.h"
#include "ps/shard/turn_rule.h"
#include "ps/shard/version_rule.h"

namespace millrace::ps {
namespace {

// Of one stream.
constexpr size_t kMaxUnfinishedPushes = 64;
// A push that gets no message for so long is void.
constexpr absl::Duration kMaxSilence = absl::Minutes(1);
// From the first part of a group of pulls to the last.
constexpr absl::Duration kGroupTime = absl::Seconds(10);

absl::StatusOr<PlacedPieces> Place(const ShardPlan& plan, DecodedPush* message) {
  const auto refused = [message](const absl::Status& why) {
    return absl::Status(why.code(),
                        absl::StrCat("step ", message->header.step(), ": ", why.message()));
  };
  if (!message->refusal.ok()) return refused(message->refusal);
  absl::StatusOr<PlacedPieces> placed =
      PlacePieces(plan.spec, plan.layout, std::move(message->pieces));
  if (!placed.ok()) return refused(placed.status());
  return placed;
}

}  // namespace

std::unique_ptr<StepRule> MakeRule(const UpdateTools& tools, const ShardSpec& spec,
                                   const std::vector<PushPtr>& held) {
  if (spec.replicas() == 0) return std::make_unique<TurnRule>(tools);
  absl::optional<double> norm;
  if (AwaitsNorms(spec)) norm = spec.optimizer().global_clip_norm();
  return std::make_unique<VersionRule>(tools, spec.replicas(), spec.total_steps(), held, norm);
}

PushResponse MakeRefusal(uint64_t push_id, const absl::Status& status, uint64_t version) {
  PushResponse response;
  response.set_push_id(push_id);
  response.set_code(static_cast<int32_t>(status.code()));
  response.set_message(Printable(status.message()));
  response.set_version(version);
  return response;
}

Shard::Shard(ShardPlan plan, uint64_t generation, ShardContents contents, BlockPool* pool,
             std::unique_ptr<ShardRoot> root, SpareMemory* spare)
    : plan_(std::move(plan)),
      name_(ShardName(plan_.spec.job_id(), plan_.spec.shard())),
      successors_(plan_.layout.blocks().size(), pool),
      tools_{&plan_.layout, plan_.optimizer.get(), pool, &plan_.rules, &successors_},
      origin_(contents.origin),
      load_(contents.load),
      state_bytes_(StateBytes(plan_)),
      frozen_bytes_(FrozenBytes(plan_)),
      state_(std::move(contents.state)),
      previous_(std::move(contents.previous)),
      epoch_(contents.epoch),
      more_acknowledged_(contents.more_acknowledged),
      generation_(generation),
      stepped_back_to_(contents.stepped_back_to),
      stored_{generation, contents.epoch, contents.stepped_back_to},
      retired_(contents.retired),
      rule_(MakeRule(tools_, plan_.spec, contents.held)),
      spare_(ReceiveBytes(plan_), spare),
      root_(std::move(root)) {
  const size_t blocks = state_->blocks.size();
  CHECK(blocks == plan_.layout.blocks().size() || (contents.retired && blocks == 0));
  MutexLock lock(&mutex_);
  for (const PushPtr& push : contents.held) push->Count(Counter());
  CountSpare();
  WriteRoot();
}

CountPieces Shard::Counter() {
  return [received = &received_](PushPieces pieces, uint64_t bytes) {
    return received->Count(std::move(pieces), bytes);
  };
}

bool Shard::Push(uint64_t stream, DecodedPush message, PushAnswer answer) {
  // All that looks at each element comes before the lock.
  absl::StatusOr<PlacedPieces> placed = Place(plan_, &message);
  CountedBytes::Room room;
  if (placed.ok() && !placed->plain) {
    placed = Widened(stream, message.header, *std::move(placed), &room);
  }
  Effects effects;
  bool answered;
  {
    MutexLock lock(&mutex_);
    room.reset();  // What it was for is counted from here on.
    answered = Accept(stream, message.header, std::move(placed), &answer, &effects);
    CountSpare();
  }
  Run(std::move(effects));
  return answered;
}

bool Shard::Accept(uint64_t stream, const PushRequest& header, absl::StatusOr<PlacedPieces> message,
                   PushAnswer* answer, Effects* effects) {
  const absl::StatusOr<PushPtr> push = Take(stream, header, std::move(message));
  if (!push.ok()) {
    VoidPush(header.push_id(), effects);
    effects->answers.emplace_back(std::move(*answer),
                                  MakeRefusal(header.push_id(), push.status(), state_->version));
    NextWork(effects);  // The push may have had the turn.
    return true;
  }
  const bool complete = (*push)->complete(plan_.layout);
  if (complete) {
    (*push)->set_answer(std::move(*answer));
    pushes_.Finish((*push)->push_id());
    std::vector<Answered> answered;
    rule_->Completed(*state_, *push, &answered);
    Answer(answered, effects);
  }
  NextWork(effects);
  return complete;
}

absl::StatusOr<PushPtr> Shard::Take(uint64_t stream, const PushRequest& header,
                                    absl::StatusOr<PlacedPieces> message) {
  MILLRACE_RETURN_IF_ERROR(CheckPush(stream, header));
  MILLRACE_RETURN_IF_ERROR(message.status());
  if (message->ranges.empty() && plan_.layout.pushed_elements() > 0) {
    return absl::InvalidArgumentError("pieces: none; each message of a push brings some");
  }
  PushPtr push = pushes_.Find(header.push_id());
  const bool wanted = rule_->Wants(*state_, header.step());
  // What is to wait for others takes a gradient's memory and no more: or contributions in small
  // pieces could leave no room for the one that all of them wait for.
  const bool gathers = wanted && plan_.spec.replicas() != 0;
  const uint64_t bytes = gathers ? PushAssembly::BytesToGather(push.get(), plan_.layout, *message)
                                 : message->memory_bytes;
  MILLRACE_RETURN_IF_ERROR(CheckRoom(header, bytes));
  if (push == nullptr) {
    push = pushes_.Start(header.push_id(), header.step(), header.examples(), stream);
    rule_->Started(push);
  }
  if (gathers) {
    MILLRACE_RETURN_IF_ERROR(push->Gather(plan_.layout, stream, *std::move(message), Counter()));
  } else {
    if (wanted) message->pieces = received_.Count(std::move(message->pieces), bytes);
    MILLRACE_RETURN_IF_ERROR(push->Add(stream, *std::move(message), /*keep=*/wanted));
  }
  pushes_.Carried(header.push_id(), now_);
  return push;
}

void Shard::Tick(absl::Time now) {
  Effects effects;
  {
    MutexLock lock(&mutex_);
    now_ = now;
    effects.dropped = pushes_.VoidStalled(now, kMaxSilence);
    for (const PushPtr& push : effects.dropped) rule_->Discarded(push);
    std::vector<StatePtr> released;
    held_states_.EndGroups(now - kGroupTime, &released);
    effects.released.insert(effects.released.end(), released.begin(), released.end());
    BoundOldStates(&effects);
    // What waited for the turn is not complete, or it would have had it: its next message brings a
    // thread that computes what there is of it.
    for (auto& update : rule_->TakeReleased()) effects.released.push_back(std::move(update));
  }
  Run(std::move(effects));
}

absl::Status Shard::CheckPush(uint64_t stream, const PushRequest& header) {
  MILLRACE_RETURN_IF_ERROR(CheckOpen(header.generation()));
  if (retired_) return Ended();
  if (pushes_.voided(header.push_id())) {
    return absl::AbortedError(absl::StrCat(
        "push ", header.push_id(), " of step ", header.step(), " to ", name_,
        " was voided: an earlier message was refused, a stream that carried a part of it ended, or "
        "nothing more of it came for ",
        absl::FormatDuration(kMaxSilence), "; ", pushes_.arrived_of_voided(header.push_id()),
        " of ", plan_.layout.pushed_elements(),
        " elements of it had come; push the step again with a new push_id"));
  }
  if (header.examples() == 0) {
    return absl::InvalidArgumentError("examples: 0; a gradient is the mean of at least 1");
  }
  if (header.step() >= plan_.spec.total_steps()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "step: ", header.step(), "; ", name_, " has steps 0 to ", plan_.spec.total_steps() - 1));
  }
  const PushPtr push = pushes_.Find(header.push_id());
  if (push == nullptr && pushes_.started_by(stream) >= kMaxUnfinishedPushes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "push ", header.push_id(), ": ", kMaxUnfinishedPushes, " pushes that this stream began to ",
        name_, " are not complete; complete them before others"));
  }
  if (push != nullptr && (push->step() != header.step() || push->examples() != header.examples())) {
    return absl::InvalidArgumentError(
        absl::StrCat("push ", header.push_id(), " began with step ", push->step(), " and ",
                     push->examples(), " examples, and goes on with step ", header.step(), " and ",
                     header.examples(), "; all messages of a push say the same"));
  }
  return rule_->Admit(*state_, header.step());
}

absl::Status Shard::CheckGeneration(uint64_t generation) const {
  MILLRACE_RETURN_IF_ERROR(refusal_);
  if (generation == generation_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(name_, " is at generation ", generation_, ", the request at ", generation, "; ",
                   generation < generation_ ? "fetch the job's routing again"
                                            : "the shard has not been told yet: try again"));
}

absl::Status Shard::CheckOpen(uint64_t generation) const {
  MILLRACE_RETURN_IF_ERROR(CheckGeneration(generation));
  if (!more_acknowledged_) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      name_, " is closed: it came back at version ", state_->version,
      " and may lack steps that it had acknowledged; it waits for the coordinator to set a greater "
      "generation than ",
      generation_));
}

absl::Status Shard::CheckServes(uint64_t generation) const {
  MutexLock lock(&mutex_);
  return CheckOpen(generation);
}

absl::Status Shard::CheckNotOlder(uint64_t generation) const {
  MutexLock lock(&mutex_);
  return generation > generation_ ? refusal_ : CheckGeneration(generation);
}

void Shard::VoidPush(uint64_t push_id, Effects* effects) {
  PushPtr push = pushes_.Void(push_id);
  if (push == nullptr) return;
  rule_->Discarded(push);
  effects->dropped.push_back(std::move(push));
}

void Shard::StreamEnded(uint64_t stream) {
  Effects effects;
  {
    MutexLock lock(&mutex_);
    effects.dropped = pushes_.VoidCarriedBy(stream);
    for (const PushPtr& push : effects.dropped) rule_->Discarded(push);
    NextWork(&effects);
  }
  Run(std::move(effects));
}

absl::Status Shard::SetGeneration(uint64_t generation) {
  Effects effects;
  {
    MutexLock lock(&mutex_);
    MILLRACE_RETURN_IF_ERROR(refusal_);
    if (generation == generation_) return absl::OkStatus();
    if (generation < generation_) {
      return absl::FailedPreconditionError(absl::StrCat(name_, " is at generation ", generation_,
                                                        " already, newer than ", generation,
                                                        "; generations only grow"));
    }
    generation_ = generation;
    more_acknowledged_ = false;  // Whoever knows this generation knows what the shard has.
    WriteRoot();
    const absl::Status fenced = absl::FailedPreconditionError(
        absl::StrCat(name_, " went to generation ", generation, "; fetch the job's routing again"));
    DropPushes(fenced, &effects);
    WakeAll(fenced, &effects);
    DropPins(&effects);
  }
  Run(std::move(effects));
  return absl::OkStatus();
}

void Shard::DropPushes(const absl::Status& reason, Effects* effects) {
  effects->dropped = pushes_.Clear();
  for (const PushPtr& push : effects->dropped) pushes_.Void(push->push_id());
  for (const PushPtr& push : rule_->Fence()) {
    effects->answers.emplace_back(push->answer(),
                                  MakeRefusal(push->push_id(), reason, state_->version));
  }
  for (auto& released : rule_->TakeReleased()) effects->released.push_back(std::move(released));
}

ShardStatus Shard::Status() const {
  MutexLock lock(&mutex_);
  return StatusOf(*state_);
}

ShardStatus Shard::StatusAt(const ShardState& state) const {
  MutexLock lock(&mutex_);
  return StatusOf(state);
}

ShardStatus Shard::StatusOf(const ShardState& state) const {
  ShardStatus status;
  status.set_job_id(plan_.spec.job_id());
  status.set_shard(plan_.spec.shard());
  status.set_generation(generation_);
  status.set_version(state.version);
  *status.mutable_applied() = state.applied.ToProto();
  if (&state == state_.get()) *status.mutable_held() = rule_->HeldSteps().ToProto();
  status.set_flushed_version(cut_report_.flushed_version);
  status.set_epoch(epoch_);
  if (!StartsFromFiles(plan_.spec)) status.add_cuts();  // The initial values.
  for (const CutName& cut : cut_report_.cuts) *status.add_cuts() = cut;
  status.set_trouble(cut_report_.trouble);
  *status.mutable_cut_duration() = ToProto(cut_report_.took);
  const bool lacks_norm = AwaitsNorms(plan_.spec) && !state_->gradient_norm.has_value();
  status.set_has_previous(previous_ != nullptr && !lacks_norm);
  status.set_origin(origin_);
  const bool was_read = origin_ == ShardStatus::CHECKPOINT || origin_ == ShardStatus::COPY;
  if (was_read) *status.mutable_load() = ToProto(load_);
  status.set_closed(more_acknowledged_);
  status.set_retired(retired_);
  status.set_memory_bytes(MemoryBytes());
  return status;
}

uint64_t Shard::generation() const {
  MutexLock lock(&mutex_);
  return generation_;
}

ShardContents Shard::Contents() const {
  MutexLock lock(&mutex_);
  ShardContents contents;
  contents.state = state_;
  contents.previous = previous_;
  contents.is_computing = work_given_out_ > 0;
  if (!contents.is_computing) contents.held = rule_->Held();
  contents.epoch = epoch_;
  contents.more_acknowledged = more_acknowledged_;
  contents.origin = origin_;
  contents.stepped_back_to = stepped_back_to_;
  return contents;
}

void Shard::ForgetRoot() {
  // Under the lock: later states let go of the blocks that the root leads to.
  MutexLock lock(&mutex_);
  root_.reset();
}

void Shard::Refuse(const absl::Status& status) {
  Effects effects;
  {
    MutexLock lock(&mutex_);
    if (!refusal_.ok()) return;
    refusal_ = status;
    DropPushes(status, &effects);
    WakeAll(status, &effects);
    DropPins(&effects);
  }
  successors_.Stop();
  Run(std::move(effects));
}

bool Shard::WasDropped() const {
  MutexLock lock(&mutex_);
  return absl::IsNotFound(refusal_);
}

void Shard::NextWork(Effects* effects) {
  std::vector<Answered> answered;
  effects->work = rule_->Next(state_, &answered);
  if (effects->work.has_value()) ++work_given_out_;
  effects->rule = rule_number_;
  Answer(answered, effects);
  for (auto& released : rule_->TakeReleased()) effects->released.push_back(std::move(released));
}

void Shard::Publish(StatePtr state, Effects* effects) {
  if (plan_.spec.replicas() != 0) {
    effects->released.push_back(std::move(previous_));
    previous_ = state_;
  }
  effects->released.push_back(std::move(state_));
  state_ = std::move(state);
  const bool captured = cut_plan_.Published(epoch_, state_);
  effects->tell = effects->tell || captured || std::exchange(listening_, false);
  WriteRoot();
  BoundOldStates(effects);
  CompleteWaits(effects);
}

void Shard::WriteRoot() {
  if (root_ == nullptr) return;
  const bool holds = rule_->HeldSteps().size() > 0;
  root_->Write({state_, previous_, epoch_, generation_, more_acknowledged_ || holds});
}

void Shard::Answer(const std::vector<Answered>& answered, Effects* effects) {
  for (const Answered& each : answered) {
    if (each.outcome == PushResponse::HELD && root_ != nullptr) root_->NoteMoreAcknowledged();
    PushResponse response;
    response.set_push_id(each.push->push_id());
    response.set_outcome(each.outcome);
    response.set_version(state_->version);
    effects->answers.emplace_back(each.push->answer(), std::move(response));
    effects->dropped.push_back(each.push);
  }
}

void Shard::Run(Effects effects) {
  while (true) {
    for (auto& [answer, response] : effects.answers) answer(response);
    for (auto& [done, state] : effects.woken) done(std::move(state));
    if (effects.tell && cut_listener_) cut_listener_();
    if (!effects.work.has_value()) break;
    const Work work = *std::move(effects.work);
    const uint64_t rule = effects.rule;
    effects = Effects();
    work.compute();
    MutexLock lock(&mutex_);
    --work_given_out_;
    absl::optional<Computed> computed;
    if (rule == rule_number_) computed = rule_->Done(work);
    if (computed.has_value()) {
      Publish(work.update->Finish(computed->steps), &effects);
      Answer(computed->answered, &effects);
    }
    NextWork(&effects);
  }
  effects = Effects();  // Pieces of gradients may go here.
  MutexLock lock(&mutex_);
  CountSpare();
}

}  // namespace millrace::ps
