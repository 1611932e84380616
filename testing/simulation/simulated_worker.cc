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
constexpr int kPushing = 2;  // Steps whose pushes may be under way.
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
      // Of a stream that has ended nothing is heard any more.
      const std::weak_ptr<Session> session = process_->session;
      process_->session->Listen(
          [this, session](const CoordinatorMessage& message) {
            if (process_->session == session.lock()) Receive(message);
          },
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
    TakeRoute(message.set_route().routing());
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

void SimulatedWorker::TakeRoute(const Routing& routing) {
  process_->generation = routing.generation();
  process_->route.clear();
  for (const ShardRoute& route : routing.shards()) {
    const auto is_it = [&](const SimulatedPs* ps) { return ps->name() == route.server(); };
    process_->route.push_back(*std::find_if(around_.servers.begin(), around_.servers.end(), is_it));
  }
}

SimulatedWorker::StepPtr SimulatedWorker::FirstOf(const Lease& lease) {
  auto step = std::make_shared<Step>();
  step->lease = lease;
  step->step = lease.begin();
  return step;
}

// A step begins while the pushes of the one before are under way.
void SimulatedWorker::Next() {
  if (process_->computes != nullptr || process_->pushing >= kPushing) return;
  std::deque<Lease>& leases = process_->leases;
  while (!leases.empty() && leases.front().generation() < process_->generation) leases.pop_front();
  if (leases.empty()) return;
  const Lease lease = leases.front();
  if (lease.begin() + 1 < lease.end()) {
    leases.front().set_begin(lease.begin() + 1);
  } else {
    leases.pop_front();
  }
  const StepPtr ahead = std::exchange(process_->ahead, nullptr);
  const bool has_begun = ahead != nullptr && !ahead->over &&
                         ahead->lease.lease_id() == lease.lease_id() &&
                         ahead->step == lease.begin();
  process_->computes = has_begun ? ahead : FirstOf(lease);
  process_->computes->has_turn = true;
  if (!has_begun) return PullAll(process_->computes);
  world_->Count("pulls ahead");
  ComputeIfReady(process_->computes);
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
  step->pulled.assign(around_.shape->shards, absl::nullopt);
  for (uint32_t shard = 0; shard < around_.shape->shards; ++shard) {
    PullRequest request;
    request.set_generation(step->lease.generation());
    const auto take = [this, step, shard](absl::StatusOr<PulledState> state) {
      if (step->over) return;
      if (!state.ok()) return Fail(step, state.status());
      step->pulled[shard] = *std::move(state);
      ComputeIfReady(step);
    };
    if (around_.shape->replicas > 0) {
      request.set_version(step->step / around_.shape->replicas);
      Pull(shard, request, take);
    } else {
      PullParts(shard, std::move(request), take);
    }
  }
}

// Two streams share a pull of the newest state. Parts that are of two, of two processes of the
// server, are pulled again, as PullAttempt does.
void SimulatedWorker::PullParts(uint32_t shard, PullRequest request, Pulled done) {
  constexpr uint32_t kParts = 2;
  request.set_parts(kParts);
  request.set_pull_group(1 + world_->Below(~uint64_t{0}));
  const auto end = Once(std::weak_ptr<const void>(process_), std::move(done));
  const auto first = std::make_shared<absl::optional<PulledState>>();
  for (uint32_t part = 0; part < kParts; ++part) {
    request.set_part(part);
    Pull(shard, request, [this, first, end](absl::StatusOr<PulledState> state) {
      if (!state.ok()) return end(state);
      if (!first->has_value()) {
        *first = *std::move(state);
        return;
      }
      if ((*first)->version != state->version) {
        world_->Count("parts of two states");
        state = absl::AbortedError("parts are of two states");
      }
      end(std::move(state));
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
  for (uint32_t shard = 0; shard < around_.shape->shards; ++shard) {
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
  SimulatedPs* const ps = process_->route[shard];
  const auto end = Once(std::weak_ptr<const void>(process_), std::move(done));
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
  process_->computes.reset();
  ++process_->pushing;
  step->pushed.assign(around_.shape->shards, false);
  for (uint32_t shard = 0; shard < around_.shape->shards; ++shard) PushTo(step, shard, kTries);
  Next();
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
  const std::function<void(absl::Status)> end =
      Once(std::weak_ptr<const void>(process_), std::move(done));
  const ShardSpec spec = around_.oracle->SpecOf(shard);
  std::vector<PulledState> pulled;
  for (const auto& state : step.pulled) pulled.push_back(*state);
  const std::vector<float> gradient = around_.oracle->Gradient(step.step, shard, pulled);
  const uint64_t push_id = 1 + world_->Below(~uint64_t{0});
  std::vector<DecodedPush> messages;
  size_t element = 0;
  for (int i = 0; i < spec.slices_size(); ++i) {
    const auto slice = static_cast<uint32_t>(i);
    for (uint64_t offset = 0; offset < spec.slices(i).slice().length(); ++offset) {
      messages.push_back(MakeMessage(spec, step.step, push_id, Oracle::ExamplesOf(step.step)));
      messages.back().header.set_generation(step.lease.generation());
      messages.back().pieces.push_back(MakeWirePiece(slice, offset, {gradient[element++]}));
    }
  }
  std::vector<DecodedPush> of_stream[2];
  for (size_t i = 0; i < messages.size(); ++i) of_stream[i % 2].push_back(std::move(messages[i]));
  for (auto& sent : of_stream) Stream(shard, std::move(sent), end);
  world_->After(kPushTimeout, process_, [end] { end(absl::DeadlineExceededError("no answer")); });
}

// A stream belongs to one process of the server. It ends some time after the last message, whether
// or not the worker has its answer.
void SimulatedWorker::Stream(uint32_t shard, std::vector<DecodedPush> messages,
                             const std::function<void(absl::Status)>& end) {
  struct Far {
    uint64_t incarnation = 0;
    uint64_t number = 0;
    bool is_broken = false;
  };
  SimulatedPs* const ps = process_->route[shard];
  Network* const network = around_.network;
  const auto far = std::make_shared<Far>();
  far->number = 1 + world_->Below(~uint64_t{0});
  const auto fail = [this, network, end] {
    world_->After(network->Travel(), [end] { end(Broken()); });
  };
  const auto answer = [this, network, end, fail](const PushResponse& response) {
    if (network->Loses()) return fail();
    const absl::Status status(static_cast<absl::StatusCode>(response.code()), response.message());
    world_->After(network->Travel(), [end, status] { end(status); });
  };
  Pipe pipe(world_, network);
  for (DecodedPush& message : messages) {
    if (network->Loses()) continue;  // Nobody is told.
    const auto sent = std::make_shared<DecodedPush>(std::move(message));
    pipe.Send([ps, far, sent, breaks = network->Loses(), answer, fail] {
      if (far->incarnation == 0 && ps->running()) far->incarnation = ps->incarnation();
      const bool is_gone = ps->shard() == nullptr || ps->incarnation() != far->incarnation;
      far->is_broken = far->is_broken || breaks || is_gone;
      if (far->is_broken) return fail();
      ps->shard()->Push(far->number, std::move(*sent), answer);
    });
  }
  const absl::Duration stays = world_->Between(kPushTimeout / 10, 3 * kPushTimeout);
  pipe.Send([this, ps, far, stays] {
    world_->After(far->is_broken ? absl::ZeroDuration() : stays, [ps, far] {
      if (ps->shard() == nullptr || ps->incarnation() != far->incarnation) return;
      ps->shard()->StreamEnded(far->number);
    });
  });
}

// See FromServers in worker/training/job_computation.cc.
void SimulatedWorker::Fail(const StepPtr& step, const absl::Status& status) {
  step->over = true;
  if (!step->has_turn) return;  // It is pulled anew.
  absl::StatusCode code = status.code();
  if (absl::IsNotFound(status)) code = absl::StatusCode::kUnavailable;
  if (absl::IsOutOfRange(status)) code = absl::StatusCode::kAborted;
  if (Classify(code) == Failure::kFinal) {
    return world_->Fail(
        absl::StrCat("the job fails at step ", step->step, ": ", status.ToString()));
  }
  MemberMessage message;
  LeaseReturned& returned = *message.mutable_lease_returned();
  returned.set_job_id(step->lease.job_id());
  returned.set_lease_id(step->lease.lease_id());
  returned.set_step(step->step);
  returned.set_code(static_cast<int>(code));
  returned.set_message(std::string(status.message()));
  Tell(message);
  std::deque<Lease>& leases = process_->leases;
  const bool has_rest = !leases.empty() && leases.front().lease_id() == step->lease.lease_id();
  if (has_rest) leases.pop_front();
  Leave(step);
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
  Leave(step);
}

void SimulatedWorker::Leave(const StepPtr& step) {
  if (process_->computes == step) {
    process_->computes.reset();
  } else {
    --process_->pushing;
  }
  Next();
}

// Tells of how many steps what it was given is the state, and 0 where it is no such state.
void SimulatedWorker::Evaluate(const ::millrace::Evaluate& evaluate) {
  struct Evaluation {
    size_t missing = 0;
    std::set<uint64_t> steps;
  };
  const auto evaluation = std::make_shared<Evaluation>();
  evaluation->missing = around_.shape->shards;
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
  for (uint32_t shard = 0; shard < around_.shape->shards; ++shard) {
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
