// A round of calls begins them all and then waits for the last. What a call needs until it ends
// (its context, its request, its answer) lives in the round, which each call's callback holds: so a
// group may go while a call is still being cancelled. Only a poll has a callback into its user; the
// destructor waits for that one.
#include "coordinator/jobs/shard_group.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/grpc_status.h"
#include "common/job_spec.h"
#include "common/job_state.h"
#include "common/net/channel.h"
#include "common/printable.h"
#include "common/proto_duration.h"
#include "common/retry.h"
#include "common/status_macros.h"
#include "coordinator/jobs/remake_plan.h"
#include "glog/logging.h"

namespace millrace::coordinator {
namespace {

constexpr absl::Duration kShortCall = absl::Seconds(10);
// While a client waits for the end of a job.
constexpr absl::Duration kFenceCall = absl::Seconds(3);
// How often a caller that waits looks whether the servers are still there.
constexpr absl::Duration kLookAround = absl::Seconds(1);
// Writes a shard to disk; one that takes longer goes on, and is found to be written by the next
// call.
constexpr absl::Duration kWriteCall = absl::Minutes(5);
// The same for jobs that have ended, of which one after the other is looked after.
constexpr absl::Duration kRetireCall = absl::Seconds(30);
// Makes a shard of any size, in memory. Retention relies on it: see kSettling there.
constexpr absl::Duration kMakeCall = absl::Minutes(5);
// Reads a shard from any disk: the next call would begin anew. One that is read from files, perhaps
// a network's, may take as long as that takes with so many bytes a second.
constexpr absl::Duration kReadCall = absl::Hours(1);
constexpr double kSlowestRead = 10 << 20;
// Writes a shard of any size anywhere, at any bandwidth that it is limited to.
constexpr absl::Duration kCheckpointCall = absl::Hours(240);

constexpr char kBare[] = "CANCELLED";  // A message that says no more than the code.

std::string Describe(const ShardPlacement& placement) {
  return absl::StrCat(placement.server(), " (", placement.address(), ")");
}

// What people can do where a server has lost the job's shard.
std::string RemedyOf(const JobRecord& record) {
  const std::string start = "start it on its old one";
  if (!HasEnded(record.state())) return absl::StrCat(start, ", or cancel the job");
  const CheckpointInfo& last = record.checkpoint();
  if (last.number() == 0) return start;
  return absl::StrCat(start, ", or take its last checkpoint: millrace checkpoints export ",
                      CheckpointPath(last.directory(), last.number()));
}

// gRPC has several words for a transport that broke, and no server of ours uses these two.
absl::StatusCode CodeOf(const grpc::Status& status) {
  const absl::StatusCode code = FromGrpcStatus(status).code();
  const bool is_transport =
      code == absl::StatusCode::kUnknown || code == absl::StatusCode::kInternal;
  return is_transport ? absl::StatusCode::kUnavailable : code;
}

template <typename Request>
void Address(const std::string& job_id, uint32_t shard, Request& request) {
  request.set_job_id(job_id);
  request.set_shard(shard);
}

// Makes copies of a request.
template <typename Request>
auto CopiesOf(const std::string& job_id, const Request& request) {
  return [&job_id, &request](uint32_t shard, Request& copy) {
    copy = request;
    Address(job_id, shard, copy);
  };
}

// Makes requests that say no more than the shard and the generation.
auto AtGeneration(const std::string& job_id, uint64_t generation) {
  return [&job_id, generation](uint32_t shard, auto& request) {
    Address(job_id, shard, request);
    request.set_generation(generation);
  };
}

}  // namespace

template <typename Request, typename Response>
struct ShardGroup::Round : CallRound {
  Round(size_t calls, absl::Duration timeout)
      : CallRound(calls, timeout), requests(calls), responses(calls) {}
  std::vector<Request> requests;
  std::vector<Response> responses;
};

struct ShardGroup::PollRound {
  const char* what = nullptr;
  std::shared_ptr<CallRound> round;
  Statuses* responses = nullptr;  // In the round.
};

ShardGroup::ShardGroup(const JobRecord& record, const MemberRegistry* registry)
    : job_id_(record.job_id()),
      spec_(record.spec()),
      plan_(record.plan()),
      total_steps_(record.total_steps()),
      remedy_(RemedyOf(record)),
      warm_start_(record.warm_start().begin(), record.warm_start().end()),
      registry_(registry),
      placements_(record.shards().begin(), record.shards().end()),
      servers_(placements_.size()) {
  CHECK(!placements_.empty());
}

ShardGroup::~ShardGroup() {
  Cancel();
  if (poll_ != nullptr) poll_->round->Await();
  if (write_ != nullptr) write_->Await();
}

std::string ShardGroup::NameOf(uint32_t shard) const {
  return absl::StrCat("shard ", shard, " on ", placements_[shard].server());
}

std::string ShardGroup::DescribeMissing(const ShardPlacement& placement,
                                        bool* directory_is_lost) const {
  for (const PsMember& server : registry_->PsServers()) {
    if (server.registration.name() != placement.server() &&
        server.registration.address() != placement.address()) {
      continue;
    }
    *directory_is_lost = true;
    return absl::StrCat(Describe(placement), ", which is back with another data directory (",
                        remedy_, ")");
  }
  *directory_is_lost = false;
  return absl::StrCat(Describe(placement), ", gone");
}

std::string ShardGroup::Locate() {
  missing_.clear();
  gone_ = 0;
  for (size_t shard = 0; shard < placements_.size(); ++shard) {
    ShardPlacement& placement = placements_[shard];
    Server& server = servers_[shard];
    const auto member = registry_->FindPs(placement.directory_id());
    server.member = member ? member->id : 0;
    if (!member) {
      missing_[placement.server()] = DescribeMissing(placement, &server.directory_is_lost);
      gone_ += server.directory_is_lost ? 0 : 1;
      continue;
    }
    server.directory_is_lost = false;
    server.moved |= server.last_member != 0 && server.last_member != member->id;
    server.last_member = member->id;
    placement.set_server(member->registration.name());
    placement.set_address(member->registration.address());
    if (server.stub != nullptr && server.address == placement.address()) continue;
    server.address = placement.address();
    server.stub = ParameterServerAdmin::NewStub(CreateChannel(server.address));
  }
  return absl::StrJoin(missing_, ", ",
                       [](std::string* out, const auto& server) { out->append(server.second); });
}

bool ShardGroup::IsThere(uint32_t shard) const {
  const auto member = registry_->FindPs(placements_[shard].directory_id());
  return member && member->id == servers_[shard].member;
}

std::string ShardGroup::Moved() const {
  std::set<std::string> moved;
  for (uint32_t shard = 0; shard < placements_.size(); ++shard) {
    if (!IsThere(shard)) moved.insert(placements_[shard].server());
  }
  return absl::StrJoin(moved, ", ");
}

void ShardGroup::ForgetMoves() {
  for (Server& server : servers_) server.moved = false;
}

Routing ShardGroup::RoutingAt(uint64_t generation) const {
  Routing routing;
  routing.set_generation(generation);
  for (size_t shard = 0; shard < placements_.size(); ++shard) {
    ShardRoute& route = *routing.add_shards();
    route.set_shard(shard);
    route.set_server(placements_[shard].server());
    route.set_address(placements_[shard].address());
    *route.mutable_slices() = placements_[shard].slices();
  }
  return routing;
}

ShardSpec ShardGroup::SpecOf(uint32_t shard) const {
  ShardSpec spec;
  spec.set_job_id(job_id_);
  spec.set_shard(shard);
  for (const Slice& slice : placements_[shard].slices()) {
    const VariableSpec& variable = plan_.variables(slice.variable());
    ShardSlice& part = *spec.add_slices();
    *part.mutable_slice() = slice;
    part.set_variable_name(variable.name());
    *part.mutable_initial_value() = variable.initial_value();
    if (slice.variable() < warm_start_.size() && !warm_start_[slice.variable()].name().empty()) {
      *part.mutable_initial_value()->mutable_stored() = warm_start_[slice.variable()];
    }
    *part.mutable_shape() = variable.shape();
    if (variable.has_update()) *part.mutable_update() = variable.update();
  }
  if (placements_[shard].has_restore()) *spec.mutable_restore() = placements_[shard].restore();
  *spec.mutable_optimizer() = spec_.optimizer();
  spec.set_replicas(Replicas(spec_));
  spec.set_total_steps(total_steps_);
  spec.set_seed(spec_.seed());
  *spec.mutable_cut_period() = ToProto(CutPeriod(spec_));
  return spec;
}

// Returns false when the group's calls are cancelled.
bool ShardGroup::SetUnderWay(std::shared_ptr<CallRound> round) {
  MutexLock lock(&mutex_);
  if (cancelled_) return false;
  under_way_.erase(std::remove_if(under_way_.begin(), under_way_.end(),
                                  [](const auto& other) { return other->HasEnded(); }),
                   under_way_.end());
  under_way_.push_back(std::move(round));
  return true;
}

template <typename Request, typename Response, typename Make>
std::shared_ptr<ShardGroup::Round<Request, Response>> ShardGroup::Start(
    const Wanted& wanted, Method<Request, Response> method, absl::Duration timeout,
    const Make& make, std::function<void()> on_end, IfOneFails if_one_fails) {
  auto round = std::make_shared<Round<Request, Response>>(servers_.size(), timeout);
  if (on_end) round->set_on_end(std::move(on_end));
  const bool cancelled = !SetUnderWay(round);
  for (uint32_t shard = 0; shard < servers_.size(); ++shard) {
    if (cancelled) {
      round->Done(shard, grpc::Status(grpc::StatusCode::CANCELLED, "the job ends"));
    } else if (!wanted(shard)) {
      round->Done(shard, grpc::Status::OK);
    } else if (servers_[shard].member == 0) {
      round->Done(shard, grpc::Status(grpc::StatusCode::UNAVAILABLE, "it is not there"));
    } else {
      make(shard, round->requests[shard]);
      (servers_[shard].stub->async()->*method)(
          round->context(shard), &round->requests[shard], &round->responses[shard],
          [round, shard, if_one_fails](grpc::Status status) {
            if (!status.ok() && if_one_fails == IfOneFails::kCancelOthers) round->Cancel();
            round->Done(shard, status);
          });
    }
  }
  return round;
}

absl::Status ShardGroup::ErrorOf(const char* what, uint32_t shard,
                                 const grpc::Status& status) const {
  if (status.ok()) return absl::OkStatus();
  std::string message = Printable(status.error_message());
  // That is all that gRPC says of a call that CancelMoved or the server's end has cut short.
  if (status.error_code() == grpc::StatusCode::CANCELLED && (message.empty() || message == kBare)) {
    message = IsThere(shard) ? "the server has given up the call"
                             : "the call was given up, since the server went, or was started again";
  }
  return absl::Status(CodeOf(status), absl::StrCat(Describe(placements_[shard]), ": ", what,
                                                   " of shard ", shard, ": ", message));
}

// Nobody needs to wait for an error to pass where another one will not; and who waits for memory
// must make way for others.
absl::Status ShardGroup::WorstError(const char* what, const CallRound& round) {
  const auto badness = [](const grpc::Status& status) {
    switch (Classify(CodeOf(status))) {
      case Failure::kNone:
        return 0;
      case Failure::kPassing:
      case Failure::kStale:
        return 1;
      case Failure::kFull:
        return 2;
      case Failure::kFinal:
        break;
    }
    return 3;
  };
  const std::vector<grpc::Status> statuses = round.statuses();
  const auto worst =
      std::max_element(statuses.begin(), statuses.end(),
                       [&](const auto& a, const auto& b) { return badness(a) < badness(b); });
  if (worst == statuses.end() || worst->ok()) return absl::OkStatus();
  const auto shard = static_cast<uint32_t>(worst - statuses.begin());
  failed_server_ = Describe(placements_[shard]);
  failed_shard_ = shard;
  return ErrorOf(what, shard, *worst);
}

std::vector<absl::Status> ShardGroup::ErrorsOf(const char* what, const CallRound& round) const {
  const std::vector<grpc::Status> statuses = round.statuses();
  std::vector<absl::Status> errors;
  for (uint32_t shard = 0; shard < statuses.size(); ++shard) {
    errors.push_back(ErrorOf(what, shard, statuses[shard]));
  }
  return errors;
}

// A server that stands still may have been given up by the registry; nobody waits for its answer.
void ShardGroup::CancelMoved(CallRound& round) const {
  for (uint32_t shard = 0; shard < servers_.size(); ++shard) {
    if (!IsThere(shard)) round.context(shard)->TryCancel();
  }
}

template <typename Request, typename Response, typename Make>
absl::StatusOr<std::vector<Response>> ShardGroup::CallAll(const char* what,
                                                          Method<Request, Response> method,
                                                          absl::Duration timeout, const Make& make,
                                                          const Wanted& wanted,
                                                          const OnWait& on_wait) {
  const auto round = Start<Request, Response>(wanted, method, timeout, make);
  while (!round->AwaitFor(kLookAround)) {
    CancelMoved(*round);
    if (on_wait) on_wait(Unanswered(*round));
  }
  MILLRACE_RETURN_IF_ERROR(WorstError(what, *round));
  return std::move(round->responses);
}

template <typename Request, typename Response, typename Make>
absl::Status ShardGroup::CallThoseThere(const char* what, Method<Request, Response> method,
                                        absl::Duration timeout, const Make& make) {
  const auto round = Start<Request, Response>(ThoseThere(), method, timeout, make);
  round->Await();
  return WorstError(what, *round);
}

ShardGroup::Wanted ShardGroup::ThoseThere() const {
  return [this](uint32_t shard) {
    return servers_[shard].member != 0 && !placements_[shard].dropped();
  };
}

absl::Duration ShardGroup::MakePatience() const {
  const bool reads = std::any_of(placements_.begin(), placements_.end(),
                                 [](const auto& placement) { return placement.has_restore(); }) ||
                     !warm_start_.empty();
  if (!reads) return kMakeCall;
  uint64_t most = 0;
  for (const ShardPlacement& placement : placements_) {
    most = std::max(most, ElementsOf(placement));
  }
  const size_t arrays = 1 + OptimizerSlots(spec_.optimizer()).size();
  const double bytes = static_cast<double>(most) * static_cast<double>(arrays * sizeof(float));
  return std::max(kReadCall, absl::Seconds(bytes / kSlowestRead));
}

absl::StatusOr<ShardGroup::Statuses> ShardGroup::Bring(uint64_t generation, bool all,
                                                       const OnWait& on_wait) {
  const auto is_to_be_made = [&](uint32_t shard) { return all || IsToBeMade(placements_[shard]); };
  const auto is_made = [&](uint32_t shard) { return !is_to_be_made(shard); };
  MILLRACE_ASSIGN_OR_RETURN(Statuses statuses,
                            (CallAll<SetGenerationRequest, ShardStatus>(
                                "SetGeneration", &AdminCalls::SetGeneration, kShortCall,
                                AtGeneration(job_id_, generation), is_made)));
  MILLRACE_ASSIGN_OR_RETURN(const Statuses made,
                            (CallAll<CreateShardRequest, ShardStatus>(
                                "CreateShard", &AdminCalls::CreateShard, MakePatience(),
                                [&](uint32_t shard, CreateShardRequest& request) {
                                  *request.mutable_spec() = SpecOf(shard);
                                  request.set_generation(generation);
                                },
                                is_to_be_made, on_wait)));
  for (uint32_t shard = 0; shard < statuses.size(); ++shard) {
    if (is_to_be_made(shard)) statuses[shard] = made[shard];
  }
  return statuses;
}

bool ShardGroup::HasToDropFirst() const {
  return std::any_of(placements_.begin(), placements_.end(), [](const auto& placement) {
    return placement.making() == ShardPlacement::TO_BE_DROPPED;
  });
}

absl::Status ShardGroup::DropFirst(uint64_t generation) {
  const auto is_to_be_dropped = [this](uint32_t shard) {
    return placements_[shard].making() == ShardPlacement::TO_BE_DROPPED;
  };
  MILLRACE_RETURN_IF_ERROR((CallAll<DropShardRequest, DropShardResponse>(
                                "DropShard", &AdminCalls::DropShard, kShortCall,
                                AtGeneration(job_id_, generation), is_to_be_dropped))
                               .status());
  for (ShardPlacement& placement : placements_) {
    if (placement.making() == ShardPlacement::TO_BE_DROPPED) {
      placement.set_making(ShardPlacement::TO_BE_MADE);
    }
  }
  return absl::OkStatus();
}

void ShardGroup::MarkMade() {
  for (ShardPlacement& placement : placements_) placement.clear_making();
}

absl::StatusOr<ShardGroup::Statuses> ShardGroup::Get() {
  return CallAll(
      "GetShard", &AdminCalls::GetShard, kShortCall,
      [&](uint32_t shard, GetShardRequest& request) { Address(job_id_, shard, request); });
}

absl::Status ShardGroup::Look(uint32_t shard) {
  return CallAll(
             "GetShard", &AdminCalls::GetShard, kShortCall,
             [&](uint32_t of, GetShardRequest& request) { Address(job_id_, of, request); },
             [shard](uint32_t each) { return each == shard; })
      .status();
}

absl::StatusOr<ShardGroup::Statuses> ShardGroup::GetThoseThere() {
  const auto round = Start<GetShardRequest, ShardStatus>(
      ThoseThere(), &AdminCalls::GetShard, kShortCall,
      [&](uint32_t shard, GetShardRequest& request) { Address(job_id_, shard, request); });
  round->Await();
  Statuses statuses;
  const std::vector<absl::Status> errors = ErrorsOf("GetShard", *round);
  for (size_t shard = 0; shard < errors.size(); ++shard) {
    if (absl::IsNotFound(errors[shard])) continue;
    MILLRACE_RETURN_IF_ERROR(errors[shard]);
    if (servers_[shard].member != 0) statuses.push_back(std::move(round->responses[shard]));
  }
  return statuses;
}

absl::StatusOr<ShardGroup::Statuses> ShardGroup::SetGeneration(uint64_t generation) {
  return CallAll("SetGeneration", &AdminCalls::SetGeneration, kShortCall,
                 AtGeneration(job_id_, generation));
}

absl::StatusOr<ShardGroup::Statuses> ShardGroup::StepBack(uint64_t generation, const CutName& cut,
                                                          uint64_t epoch) {
  return CallAll("StepBack", &AdminCalls::StepBack, kReadCall,
                 [&](uint32_t shard, StepBackRequest& request) {
                   Address(job_id_, shard, request);
                   request.set_generation(generation);
                   *request.mutable_cut() = cut;
                   request.set_epoch(epoch);
                 });
}

absl::StatusOr<ShardGroup::Statuses> ShardGroup::PinCut(uint64_t generation,
                                                        const std::string& cut_id) {
  return CallAll("PinCut", &AdminCalls::PinCut, kShortCall,
                 [&](uint32_t shard, PinCutRequest& request) {
                   Address(job_id_, shard, request);
                   request.set_generation(generation);
                   request.set_cut_id(cut_id);
                 });
}

absl::StatusOr<ShardGroup::Statuses> ShardGroup::FlushCut(uint64_t generation) {
  return CallAll("FlushCut", &AdminCalls::FlushCut, kWriteCall, AtGeneration(job_id_, generation));
}

absl::StatusOr<std::vector<MeasureVersionResponse>> ShardGroup::MeasureVersion(
    const MeasureVersionRequest& request, const OnWait& on_wait) {
  return CallAll("MeasureVersion", &AdminCalls::MeasureVersion, kShortCall,
                 CopiesOf(job_id_, request), All, on_wait);
}

absl::Status ShardGroup::ApplyVersion(const ApplyVersionRequest& request, const OnWait& on_wait) {
  return CallAll("ApplyVersion", &AdminCalls::ApplyVersion, kShortCall, CopiesOf(job_id_, request),
                 All, on_wait)
      .status();
}

absl::Status ShardGroup::Fence(uint64_t generation) {
  return CallThoseThere("SetGeneration", &AdminCalls::SetGeneration, kFenceCall,
                        AtGeneration(job_id_, generation));
}

absl::Status ShardGroup::UnpinCut(uint64_t generation, const std::string& cut_id) {
  return CallThoseThere("UnpinCut", &AdminCalls::UnpinCut, kFenceCall,
                        [&](uint32_t shard, UnpinCutRequest& request) {
                          Address(job_id_, shard, request);
                          request.set_generation(generation);
                          request.set_cut_id(cut_id);
                        });
}

std::vector<absl::Status> ShardGroup::Retire(uint64_t generation) {
  const auto round = Start<RetireShardRequest, ShardStatus>(
      ThoseThere(), &AdminCalls::RetireShard, kRetireCall, AtGeneration(job_id_, generation));
  round->Await();
  return ErrorsOf("RetireShard", *round);
}

absl::Status ShardGroup::Drop(uint64_t generation) {
  const auto round = Start<DropShardRequest, DropShardResponse>(
      ThoseThere(), &AdminCalls::DropShard, kShortCall, AtGeneration(job_id_, generation));
  round->Await();
  const std::vector<grpc::Status> statuses = round->statuses();
  for (size_t shard = 0; shard < statuses.size(); ++shard) {
    if (servers_[shard].member != 0 && statuses[shard].ok()) placements_[shard].set_dropped(true);
  }
  return WorstError("DropShard", *round);
}

absl::Status ShardGroup::Unmake(uint64_t generation, bool all) {
  const Wanted there = ThoseThere();
  const auto round = Start<DropShardRequest, DropShardResponse>(
      [&](uint32_t shard) { return there(shard) && (all || IsToBeMade(placements_[shard])); },
      &AdminCalls::DropShard, kShortCall, AtGeneration(job_id_, generation));
  round->Await();
  return WorstError("DropShard", *round);
}

void ShardGroup::StartPoll(const absl::optional<PlanCutsRequest>& plan,
                           std::function<void()> on_end) {
  CHECK(poll_ == nullptr);
  poll_ = std::make_unique<PollRound>();
  if (plan) {
    const auto round = Start<PlanCutsRequest, ShardStatus>(
        All, &AdminCalls::PlanCuts, kShortCall, CopiesOf(job_id_, *plan), std::move(on_end));
    *poll_ = {"PlanCuts", round, &round->responses};
  } else {
    const auto round = Start<GetShardRequest, ShardStatus>(
        All, &AdminCalls::GetShard, kShortCall,
        [&](uint32_t shard, GetShardRequest& request) { Address(job_id_, shard, request); },
        std::move(on_end));
    *poll_ = {"GetShard", round, &round->responses};
  }
}

std::vector<uint32_t> ShardGroup::Unanswered(const CallRound& round) const {
  std::vector<uint32_t> shards;
  for (uint32_t shard = 0; shard < servers_.size(); ++shard) {
    if (!round.HasEnded(shard)) shards.push_back(shard);
  }
  return shards;
}

std::vector<uint32_t> ShardGroup::Unanswered() const {
  return poll_ == nullptr ? std::vector<uint32_t>() : Unanswered(*poll_->round);
}

absl::optional<ShardGroup::Poll> ShardGroup::TakePoll() {
  if (poll_ == nullptr || !poll_->round->HasEnded()) return absl::nullopt;
  poll_->round->Await();
  Poll poll;
  poll.errors = ErrorsOf(poll_->what, *poll_->round);
  poll.shards = std::move(*poll_->responses);
  poll_.reset();
  return poll;
}

void ShardGroup::StartWrite(const WriteCheckpointRequest& request, std::function<void()> on_end) {
  CHECK(write_ == nullptr);
  write_ = Start<WriteCheckpointRequest, WriteCheckpointResponse>(
      All, &AdminCalls::WriteCheckpoint, kCheckpointCall, CopiesOf(job_id_, request),
      std::move(on_end), IfOneFails::kCancelOthers);
}

absl::optional<absl::StatusOr<std::vector<WriteCheckpointResponse>>> ShardGroup::TakeWritten() {
  if (write_ == nullptr || !write_->HasEnded()) return absl::nullopt;
  const auto round = std::exchange(write_, nullptr);
  round->Await();
  // Those that were cancelled since another one had failed tell nothing.
  absl::Status error;
  for (const absl::Status& status : ErrorsOf("WriteCheckpoint", *round)) {
    if (!status.ok() && (error.ok() || absl::IsCancelled(error))) error = status;
  }
  if (!error.ok()) return absl::StatusOr<std::vector<WriteCheckpointResponse>>(error);
  return absl::StatusOr<std::vector<WriteCheckpointResponse>>(std::move(round->responses));
}

std::string ShardGroup::WhoWrites() const {
  if (write_ == nullptr) return "";
  std::set<std::string> servers;
  for (const uint32_t shard : Unanswered(*write_)) servers.insert(NameOf(shard));
  return absl::StrJoin(servers, ", ");
}

void ShardGroup::CancelWrite() {
  if (write_ == nullptr) return;
  const auto round = std::exchange(write_, nullptr);
  round->Cancel();
  round->Await();
}

void ShardGroup::Cancel() {
  std::vector<std::shared_ptr<CallRound>> rounds;
  {
    MutexLock lock(&mutex_);
    cancelled_ = true;
    rounds = under_way_;
  }
  for (const auto& round : rounds) round->Cancel();
}

void ShardGroup::Resume() {
  MutexLock lock(&mutex_);
  cancelled_ = false;
}

}  // namespace millrace::coordinator
