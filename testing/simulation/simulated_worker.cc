#include "testing/simulation/simulated_worker.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/retry.h"
#include "ps/shard/shard_test_util.h"

namespace millrace::simulation {
namespace {

using ::millrace::testing::MakeMessage;
using ::millrace::testing::MakeWirePiece;

constexpr int kTries = 4;
constexpr absl::Duration kPullTimeout = absl::Seconds(10);
constexpr absl::Duration kPushTimeout = absl::Seconds(10);

absl::Status Broken() { return absl::UnavailableError("the stream broke"); }

}  // namespace

void SimulatedWorker::Start() {
  world_->Note(absl::StrCat(name_, " starts"));
  process_ = std::make_shared<Process>();
  Connect();
}

void SimulatedWorker::Kill() {
  if (process_ == nullptr) return;
  world_->Note(absl::StrCat(name_, " is killed"));
  if (process_->session != nullptr) process_->session->Break();
  process_.reset();
}

void SimulatedWorker::BreakStream() {
  if (process_ != nullptr && process_->session != nullptr) process_->session->Break();
}

// And looks after the stream from then on.
void SimulatedWorker::Connect() {
  if (process_->session == nullptr || process_->session->broken()) {
    process_->leases.clear();  // They are void.
    process_->session = around_.connect(this);
    if (process_->session != nullptr) {
      process_->session->Listen([this](const CoordinatorMessage& message) { Receive(message); },
                                process_);
    }
  }
  world_->After(world_->Between(absl::Milliseconds(100), absl::Seconds(5)), process_,
                [this] { Connect(); });
}

void SimulatedWorker::Tell(const MemberMessage& message) {
  if (process_->session != nullptr) process_->session->Send(message);
}

void SimulatedWorker::Receive(const CoordinatorMessage& message) {
  if (message.has_set_route()) {
    process_->generation = message.set_route().routing().generation();
    MemberMessage answer;
    answer.mutable_job_prepared()->set_job_id(message.set_route().job_id());
    Tell(answer);
  } else if (message.has_lease()) {
    process_->leases.push_back(message.lease());
    Next();
  } else if (message.has_evaluate()) {
    Evaluate(message.evaluate());
  }
}

SimulatedWorker::StepPtr SimulatedWorker::FirstOf(const Lease& lease) {
  auto step = std::make_shared<Step>();
  step->lease = lease;
  step->step = lease.begin();
  return step;
}

void SimulatedWorker::Next() {
  if (process_->step != nullptr || process_->leases.empty()) return;
  const Lease lease = process_->leases.front();
  process_->leases.pop_front();
  const StepPtr ahead = std::exchange(process_->ahead, nullptr);
  if (lease.generation() < process_->generation) return Next();
  const bool has_begun = ahead != nullptr && !ahead->over &&
                         ahead->lease.lease_id() == lease.lease_id() &&
                         ahead->step == lease.begin();
  process_->step = has_begun ? ahead : FirstOf(lease);
  process_->step->has_turn = true;
  if (!has_begun) return PullAll(process_->step);
  ComputeIfReady(process_->step);
}

// The next step's pull begins while this one's gradient is computed: it has been leased.
void SimulatedWorker::PullAhead() {
  if (!around_.shape->pull_ahead || process_->leases.empty()) return;
  const Lease& next = process_->leases.front();
  if (next.generation() < process_->generation) return;
  process_->ahead = FirstOf(next);
  PullAll(process_->ahead);
}

void SimulatedWorker::PullAll(const StepPtr& step) {
  const size_t shards = around_.servers.size();
  step->pulled.assign(shards, absl::nullopt);
  for (uint32_t shard = 0; shard < shards; ++shard) {
    PullRequest request;
    request.set_generation(step->lease.generation());
    const uint32_t replicas = around_.shape->replicas;
    if (replicas > 0) request.set_version(step->step / replicas);
    Pull(shard, request, [this, step, shard](absl::StatusOr<PulledState> state) {
      if (step->over) return;
      if (!state.ok()) return Fail(step, state.status());
      step->pulled[shard] = *std::move(state);
      ComputeIfReady(step);
    });
  }
}

void SimulatedWorker::ComputeIfReady(const StepPtr& step) {
  for (const auto& pulled : step->pulled) {
    if (!pulled.has_value()) return;
  }
  if (!step->has_turn) return;
  CheckPulled(*step);
  PullAhead();
  world_->After(world_->Between(absl::Milliseconds(1), absl::Milliseconds(300)), process_,
                [this, step] { PushAll(step); });
}

void SimulatedWorker::CheckPulled(const Step& step) {
  const JobShape& shape = *around_.shape;
  for (uint32_t shard = 0; shard < around_.servers.size(); ++shard) {
    const PulledState& state = *step.pulled[shard];
    if (const std::string wrong = around_.oracle->Check(shard, state); !wrong.empty()) {
      return world_->Fail(absl::StrCat("step ", step.step, " is given ", wrong));
    }
    const uint64_t least = shape.replicas > 0
                               ? step.step / shape.replicas * shape.replicas
                               : step.step - std::min<uint64_t>(step.step, shape.staleness_bound);
    if (state.applied.watermark() < least) {
      return world_->Fail(absl::StrCat("step ", step.step, " is given shard ", shard,
                                       " with the first ", state.applied.watermark(),
                                       " steps, not ", least));
    }
  }
}

void SimulatedWorker::Pull(uint32_t shard, const PullRequest& request, Pulled done) {
  SimulatedPs* const ps = around_.servers[shard];
  const auto end = Once<absl::StatusOr<PulledState>>(process_, std::move(done));
  world_->After(kPullTimeout + absl::Seconds(2), process_,
                [end] { end(absl::DeadlineExceededError("no values came")); });
  if (around_.network->Loses()) {
    return world_->After(around_.network->Travel(), process_, [end] { end(Broken()); });
  }
  world_->After(around_.network->Travel(), [this, ps, request, end] {
    const std::shared_ptr<ps::Shard> there = ps->shard();
    if (there == nullptr) {
      return world_->After(around_.network->Travel(), [end] { end(Broken()); });
    }
    const uint64_t waiter = there->Read(request, [this, end](absl::StatusOr<ps::StatePtr> state) {
      absl::StatusOr<PulledState> result = Broken();
      if (!around_.network->Loses()) {
        result = state.ok() ? absl::StatusOr<PulledState>(Copy(**state)) : state.status();
      }
      world_->After(around_.network->Travel(), [end, result] { end(result); });
    });
    if (waiter == 0) return;
    const std::weak_ptr<ps::Shard> waits = there;
    world_->After(kPullTimeout, waits, [waits, waiter] {
      waits.lock()->StopWaiting(waiter, absl::StatusCode::kDeadlineExceeded);
    });
  });
}

void SimulatedWorker::PushAll(const StepPtr& step) {
  step->pushed.assign(around_.servers.size(), false);
  for (uint32_t shard = 0; shard < around_.servers.size(); ++shard) PushTo(step, shard, kTries);
}

void SimulatedWorker::PushTo(const StepPtr& step, uint32_t shard, int tries) {
  Push(*step, shard, [this, step, shard, tries](const absl::Status& status) {
    if (step->over) return;
    if (status.ok()) {
      step->pushed[shard] = true;
      const auto& pushed = step->pushed;
      if (std::all_of(pushed.begin(), pushed.end(), [](bool each) { return each; })) Finish(step);
      return;
    }
    const bool again = IsTransient(status.code()) && !absl::IsFailedPrecondition(status);
    if (!again || tries == 0) return Fail(step, status);
    PushTo(step, shard, tries - 1);
  });
}

// Pieces go over two streams, each of which carries some of them; either may break.
void SimulatedWorker::Push(const Step& step, uint32_t shard,
                           std::function<void(absl::Status)> done) {
  SimulatedPs* const ps = around_.servers[shard];
  const auto end = Once<absl::Status>(process_, std::move(done));
  const ShardSpec spec = around_.oracle->SpecOf(shard);
  std::vector<PulledState> pulled;
  for (const auto& state : step.pulled) pulled.push_back(*state);
  const auto gradient = around_.oracle->Gradient(step.step, shard, pulled);
  const uint64_t push_id = 1 + world_->Below(~uint64_t{0});

  const auto answer = [this, end](const PushResponse& response) {
    absl::Status status(static_cast<absl::StatusCode>(response.code()), response.message());
    if (around_.network->Loses()) status = Broken();
    world_->After(around_.network->Travel(), [end, status] { end(status); });
  };
  constexpr size_t kStreams = 2;
  for (size_t stream = 0; stream < kStreams; ++stream) {
    // What is known of it at the other end; it belongs to one process of the server.
    struct Far {
      uint64_t incarnation = 0;
      uint64_t number = 0;
      bool broken = false;
    };
    const auto far = std::make_shared<Far>();
    far->number = 1 + world_->Below(~uint64_t{0});
    Pipe pipe(world_, around_.network);
    size_t begin = 0;
    for (int i = 0; i < spec.slices_size(); ++i) {
      const uint64_t length = spec.slices(i).slice().length();
      for (uint64_t offset = 0; offset < length; ++offset) {
        if ((begin + offset) % kStreams != stream) continue;
        DecodedPush message = MakeMessage(spec, step.step, push_id, Oracle::ExamplesOf(step.step));
        message.header.set_generation(step.lease.generation());
        message.pieces.push_back(
            MakeWirePiece(static_cast<uint32_t>(i), offset, {gradient[begin + offset]}));
        const bool breaks = around_.network->Loses();
        const auto sent = std::make_shared<DecodedPush>(std::move(message));
        pipe.Send([this, ps, far, sent, breaks, answer, end] {
          if (far->incarnation == 0) far->incarnation = ps->running() ? ps->incarnation() : 0;
          const bool gone = ps->shard() == nullptr || ps->incarnation() != far->incarnation;
          if (breaks || gone) far->broken = true;
          if (far->broken) {
            return world_->After(around_.network->Travel(), [end] { end(Broken()); });
          }
          ps->shard()->Push(far->number, std::move(*sent), answer);
        });
      }
      begin += length;
    }
    // It ends some time after the last message, whether or not the worker has its answer.
    const absl::Duration stays = world_->Between(kPushTimeout / 10, 3 * kPushTimeout);
    pipe.Send([this, ps, far, stays] {
      world_->After(far->broken ? absl::ZeroDuration() : stays, [ps, far] {
        if (ps->shard() == nullptr || ps->incarnation() != far->incarnation) return;
        ps->shard()->StreamEnded(far->number);
      });
    });
  }
  world_->After(kPushTimeout, process_, [end] { end(absl::DeadlineExceededError("no answer")); });
}

void SimulatedWorker::Fail(const StepPtr& step, const absl::Status& status) {
  step->over = true;
  if (!step->has_turn) return;  // It is pulled anew.
  MemberMessage message;
  LeaseReturned& returned = *message.mutable_lease_returned();
  returned.set_job_id(step->lease.job_id());
  returned.set_lease_id(step->lease.lease_id());
  returned.set_step(step->step);
  returned.set_code(static_cast<int>(status.code()));
  returned.set_message(std::string(status.message()));
  Tell(message);
  process_->step.reset();
  Next();
}

void SimulatedWorker::Finish(const StepPtr& step) {
  step->over = true;
  MemberMessage message;
  StepResult& result = *message.mutable_step_result();
  result.set_job_id(step->lease.job_id());
  result.set_lease_id(step->lease.lease_id());
  result.set_step(step->step);
  result.set_examples(Oracle::ExamplesOf(step->step));
  Tell(message);
  process_->step.reset();
  Lease rest = step->lease;
  rest.set_begin(step->step + 1);
  if (rest.begin() < rest.end()) process_->leases.push_front(std::move(rest));
  Next();
}

// Tells of how many steps what it was given is the state, and 0 where it is no such state.
void SimulatedWorker::Evaluate(const ::millrace::Evaluate& evaluate) {
  struct Evaluation {
    size_t missing = 0;
    std::set<uint64_t> steps;
  };
  const auto evaluation = std::make_shared<Evaluation>();
  evaluation->missing = around_.servers.size();
  const auto end =
      Once<absl::Status>(process_, [this, evaluate, evaluation](const absl::Status& status) {
        MemberMessage message;
        EvaluationResult& result = *message.mutable_evaluation_result();
        result.set_job_id(evaluate.job_id());
        result.set_evaluation_id(evaluate.evaluation_id());
        result.set_code(static_cast<int>(status.code()));
        result.set_message(std::string(status.message()));
        if (evaluation->steps.size() == 1) result.set_examples(*evaluation->steps.begin());
        Tell(message);
      });
  for (uint32_t shard = 0; shard < around_.servers.size(); ++shard) {
    PullRequest request;
    request.set_generation(evaluate.generation());
    request.set_cut_id(evaluate.cut_id());
    Pull(shard, request, [this, evaluation, shard, end](absl::StatusOr<PulledState> state) {
      if (!state.ok()) return end(state.status());
      const std::string wrong = around_.oracle->Check(shard, *state);
      if (!wrong.empty()) world_->Fail(absl::StrCat("an evaluation is given ", wrong));
      const bool first_steps = state->applied.above().empty();
      evaluation->steps.insert(first_steps ? state->applied.watermark() : 0);
      if (--evaluation->missing == 0) end(absl::OkStatus());
    });
  }
}

}  // namespace millrace::simulation
