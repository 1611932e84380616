// A round of calls begins them all and then waits for the last. What a call needs until it ends
// (its context, its request, its answer) lives in the round, which waits for its calls before it
// goes. The calls' callbacks do not keep it: a context keeps its channel, and the process's last
// channel must not go on one of gRPC's threads of callbacks, which end with it and would wait for
// themselves.
#include "coordinator/shards/shard_group.h"

#include <algorithm>
#include <set>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "coordinator/job/shard_placement.h"
#include "coordinator/shards/call_errors.h"
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
// Writes a shard of any size anywhere, at any bandwidth that it is limited to.
constexpr absl::Duration kCheckpointCall = absl::Hours(240);

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

// The same of those that are for what the shard's own directory has: its address may be another
// one's by now.
auto InDirectory(const std::string& job_id, const ShardServers& servers, uint64_t generation) {
  return [&job_id, &servers, generation](uint32_t shard, auto& request) {
    Address(job_id, shard, request);
    request.set_generation(generation);
    request.set_directory_id(servers.placements()[shard].directory_id());
  };
}

// A step of the set that a job with so many has not got; nothing where there is none.
absl::optional<uint64_t> StepBeyond(const StepSet& steps, uint64_t total_steps) {
  if (steps.watermark() > total_steps) return steps.watermark() - 1;
  const auto beyond = std::find_if(steps.above().begin(), steps.above().end(),
                                   [=](uint64_t step) { return step >= total_steps; });
  if (beyond == steps.above().end()) return absl::nullopt;
  return *beyond;
}

}  // namespace

// Whether an answer is about what was asked for: later its shard is looked up. A shard takes the
// steps that its job was planned with, also where that ends earlier, and no others.
template <typename Response>
grpc::Status ShardGroup::CheckAnswer(uint32_t shard, const Response& answer) const {
  if constexpr (std::is_same_v<Response, ShardStatus>) {
    if (answer.job_id() != job_id_ || answer.shard() != shard) {
      return {grpc::StatusCode::INTERNAL,
              absl::StrCat("it was asked about job '", job_id_, "', and answers about shard ",
                           answer.shard(), " of job '", Printable(answer.job_id()), "'")};
    }
    if (total_steps_ == 0) return grpc::Status::OK;
    for (const StepSet* steps : {&answer.applied(), &answer.held()}) {
      const absl::optional<uint64_t> beyond = StepBeyond(*steps, total_steps_);
      if (!beyond) continue;
      return {grpc::StatusCode::INTERNAL,
              absl::StrCat("it says that it has step ", *beyond, ", and the job has steps 0 to ",
                           total_steps_ - 1)};
    }
  }
  return grpc::Status::OK;
}

template <typename Request, typename Response>
struct ShardGroup::Round : CallRound {
  Round(size_t calls, absl::Duration timeout)
      : CallRound(calls, timeout), requests(calls), responses(calls) {}
  ~Round() override { Await(); }
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
      total_steps_(record.total_steps()),
      making_(record),
      servers_(record, registry) {}

// The rounds wait for their calls.
ShardGroup::~ShardGroup() { under_way_.Cancel(); }

template <typename Request, typename Response, typename Make>
std::shared_ptr<ShardGroup::Round<Request, Response>> ShardGroup::Start(
    const Wanted& wanted, Method<Request, Response> method, absl::Duration timeout,
    const Make& make, std::function<void()> on_end, IfOneFails if_one_fails) {
  auto round = std::make_shared<Round<Request, Response>>(servers_.count(), timeout);
  if (on_end) round->set_on_end(std::move(on_end));
  const bool cancelled = !under_way_.Add(round);
  for (uint32_t shard = 0; shard < servers_.count(); ++shard) {
    if (cancelled) {
      round->Done(shard, grpc::Status(grpc::StatusCode::CANCELLED, "the job ends"));
    } else if (!wanted(shard)) {
      round->Done(shard, grpc::Status::OK);
    } else if (!servers_.IsLocated(shard)) {
      round->Done(shard, grpc::Status(grpc::StatusCode::UNAVAILABLE, "it is not there"));
    } else {
      make(shard, round->requests[shard]);
      (servers_.stub(shard).async()->*method)(
          round->context(shard), &round->requests[shard], &round->responses[shard],
          [this, calls = round.get(), shard, if_one_fails](grpc::Status status) {
            if (status.ok()) status = CheckAnswer(shard, calls->responses[shard]);
            if (!status.ok() && if_one_fails == IfOneFails::kCancelOthers) calls->Cancel();
            calls->Done(shard, status);
          });
    }
  }
  return round;
}

absl::Status ShardGroup::ErrorOf(const char* what, uint32_t shard,
                                 const grpc::Status& status) const {
  if (status.ok()) return absl::OkStatus();
  return CallError(what, {servers_.DescribeServer(shard), shard, servers_.IsThere(shard)}, status);
}

absl::Status ShardGroup::WorstError(const char* what, const CallRound& round) {
  const std::vector<grpc::Status> statuses = round.statuses();
  const absl::optional<uint32_t> worst = WorstOf(statuses);
  if (!worst) return absl::OkStatus();
  failed_server_ = servers_.DescribeServer(*worst);
  failed_shard_ = *worst;
  unserved_.clear();
  for (uint32_t shard = 0; shard < statuses.size(); ++shard) {
    const absl::StatusCode code = FromGrpcStatus(statuses[shard]).code();
    if (code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kDeadlineExceeded) {
      unserved_.push_back(shard);
    }
  }
  return ErrorOf(what, *worst, statuses[*worst]);
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
  for (uint32_t shard = 0; shard < servers_.count(); ++shard) {
    if (!servers_.IsThere(shard)) round.context(shard)->TryCancel();
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
    if (on_wait) on_wait(round->Open());
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
    return servers_.IsLocated(shard) && !placements()[shard].dropped();
  };
}

absl::StatusOr<ShardGroup::Statuses> ShardGroup::Bring(uint64_t generation, bool all,
                                                       const OnWait& on_wait) {
  const auto is_to_be_made = [&](uint32_t shard) { return all || IsToBeMade(placements()[shard]); };
  const auto is_made = [&](uint32_t shard) { return !is_to_be_made(shard); };
  MILLRACE_ASSIGN_OR_RETURN(Statuses statuses,
                            (CallAll<SetGenerationRequest, ShardStatus>(
                                "SetGeneration", &AdminCalls::SetGeneration, kShortCall,
                                InDirectory(job_id_, servers_, generation), is_made)));
  MILLRACE_ASSIGN_OR_RETURN(
      const Statuses made,
      (CallAll<CreateShardRequest, ShardStatus>(
          "CreateShard", &AdminCalls::CreateShard, making_.Patience(servers_.placements()),
          [&](uint32_t shard, CreateShardRequest& request) {
            *request.mutable_spec() = making_.SpecOf(shard, placements()[shard]);
            request.set_generation(generation);
            request.set_directory_id(placements()[shard].directory_id());
          },
          is_to_be_made, on_wait)));
  for (uint32_t shard = 0; shard < statuses.size(); ++shard) {
    if (is_to_be_made(shard)) statuses[shard] = made[shard];
  }
  return statuses;
}

bool ShardGroup::HasToDropFirst() const {
  return std::any_of(placements().begin(), placements().end(), [](const auto& placement) {
    return placement.making() == ShardPlacement::TO_BE_DROPPED;
  });
}

absl::Status ShardGroup::DropFirst(uint64_t generation) {
  const auto is_to_be_dropped = [this](uint32_t shard) {
    return placements()[shard].making() == ShardPlacement::TO_BE_DROPPED;
  };
  MILLRACE_RETURN_IF_ERROR((CallAll<DropShardRequest, DropShardResponse>(
                                "DropShard", &AdminCalls::DropShard, kShortCall,
                                InDirectory(job_id_, servers_, generation), is_to_be_dropped))
                               .status());
  for (uint32_t shard = 0; shard < servers_.count(); ++shard) {
    if (is_to_be_dropped(shard)) {
      servers_.placement(shard).set_making(ShardPlacement::TO_BE_MADE);
    }
  }
  return absl::OkStatus();
}

void ShardGroup::MarkMade() {
  for (uint32_t shard = 0; shard < servers_.count(); ++shard) {
    servers_.placement(shard).clear_making();
  }
}

std::function<void(uint32_t, GetShardRequest&)> ShardGroup::GetRequests() const {
  return [this](uint32_t shard, GetShardRequest& request) {
    Address(job_id_, shard, request);
    request.set_directory_id(placements()[shard].directory_id());
  };
}

absl::StatusOr<ShardGroup::Statuses> ShardGroup::Get() {
  return CallAll("GetShard", &AdminCalls::GetShard, kShortCall, GetRequests());
}

absl::Status ShardGroup::Look(uint32_t shard) {
  return CallAll("GetShard", &AdminCalls::GetShard, kShortCall, GetRequests(),
                 [shard](uint32_t each) { return each == shard; })
      .status();
}

absl::StatusOr<ShardGroup::Statuses> ShardGroup::GetThoseThere() {
  const auto round = Start<GetShardRequest, ShardStatus>(ThoseThere(), &AdminCalls::GetShard,
                                                         kShortCall, GetRequests());
  round->Await();
  Statuses statuses;
  const std::vector<absl::Status> errors = ErrorsOf("GetShard", *round);
  for (size_t shard = 0; shard < errors.size(); ++shard) {
    if (absl::IsNotFound(errors[shard])) continue;
    MILLRACE_RETURN_IF_ERROR(errors[shard]);
    if (servers_.IsLocated(shard)) statuses.push_back(std::move(round->responses[shard]));
  }
  return statuses;
}

absl::StatusOr<ShardGroup::Statuses> ShardGroup::SetGeneration(uint64_t generation) {
  return CallAll("SetGeneration", &AdminCalls::SetGeneration, kShortCall,
                 InDirectory(job_id_, servers_, generation));
}

absl::StatusOr<ShardGroup::Statuses> ShardGroup::StepBack(uint64_t generation, const CutName& cut,
                                                          uint64_t epoch) {
  return CallAll("StepBack", &AdminCalls::StepBack, kReadPatience,
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

CopyShardRequest ShardGroup::CopyRequest(uint64_t generation, const ShardMove& move) const {
  CopyShardRequest request;
  Address(job_id_, move.shard, request);
  request.set_generation(generation + 1);
  request.set_source_generation(generation);
  request.set_directory_id(move.to.directory_id);
  request.set_source_address(placements()[move.shard].address());
  request.set_source_directory_id(placements()[move.shard].directory_id());
  return request;
}

// A copy that is given up, since a server went or takes too long, is refused from the job's next
// generation on.
absl::StatusOr<ShardGroup::Statuses> ShardGroup::Copy(uint64_t generation,
                                                      absl::Span<const ShardMove> moves) {
  const auto round = std::make_shared<Round<CopyShardRequest, ShardStatus>>(
      moves.size(), making_.CopyPatience(placements()));
  const bool cancelled = !under_way_.Add(round);
  std::vector<std::unique_ptr<ParameterServerAdmin::Stub>> stubs;
  for (size_t i = 0; i < moves.size(); ++i) {
    round->requests[i] = CopyRequest(generation, moves[i]);
    if (cancelled) {
      round->Done(i, grpc::Status(grpc::StatusCode::CANCELLED, "the job ends"));
      continue;
    }
    stubs.push_back(ParameterServerAdmin::NewStub(CreateChannel(moves[i].to.address)));
    stubs.back()->async()->CopyShard(
        round->context(i), &round->requests[i], &round->responses[i],
        [this, calls = round.get(), i, number = moves[i].shard](grpc::Status status) {
          if (status.ok()) status = CheckAnswer(number, calls->responses[i]);
          calls->Done(i, status);
        });
  }
  const auto are_there = [this](const ShardMove& move) {
    return servers_.IsThere(move.shard) && servers_.IsServed(move.to.directory_id);
  };
  while (!round->AwaitFor(kLookAround)) {
    for (size_t i = 0; i < moves.size(); ++i) {
      if (!are_there(moves[i])) round->context(i)->TryCancel();
    }
  }
  const std::vector<grpc::Status> statuses = round->statuses();
  const absl::optional<uint32_t> worst = WorstOf(statuses);
  if (!worst) return std::move(round->responses);
  const auto& [shard, to] = moves[*worst];
  failed_server_ = absl::StrCat(to.name, " (", to.address, ")");
  failed_shard_ = shard;
  return CallError("CopyShard", {failed_server_, shard, are_there(moves[*worst])},
                   statuses[*worst]);
}

absl::Status ShardGroup::Fence(uint64_t generation) {
  return CallThoseThere("SetGeneration", &AdminCalls::SetGeneration, kFenceCall,
                        InDirectory(job_id_, servers_, generation));
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
      ThoseThere(), &AdminCalls::DropShard, kShortCall, InDirectory(job_id_, servers_, generation));
  round->Await();
  const std::vector<grpc::Status> statuses = round->statuses();
  for (size_t shard = 0; shard < statuses.size(); ++shard) {
    if (servers_.IsLocated(shard) && statuses[shard].ok())
      servers_.placement(shard).set_dropped(true);
  }
  return WorstError("DropShard", *round);
}

absl::Status ShardGroup::Unmake(uint64_t generation, bool all) {
  const Wanted there = ThoseThere();
  const auto round = Start<DropShardRequest, DropShardResponse>(
      [&](uint32_t shard) { return there(shard) && (all || IsToBeMade(placements()[shard])); },
      &AdminCalls::DropShard, kShortCall, InDirectory(job_id_, servers_, generation));
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
    const auto round = Start<GetShardRequest, ShardStatus>(All, &AdminCalls::GetShard, kShortCall,
                                                           GetRequests(), std::move(on_end));
    *poll_ = {"GetShard", round, &round->responses};
  }
}

std::vector<uint32_t> ShardGroup::Unanswered() const {
  return poll_ == nullptr ? std::vector<uint32_t>() : poll_->round->Open();
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

void ShardGroup::CancelPoll() {
  if (poll_ == nullptr) return;
  poll_->round->Cancel();
  poll_->round->Await();
  poll_.reset();
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
  for (const uint32_t shard : write_->Open()) servers.insert(NameOf(shard));
  return absl::StrJoin(servers, ", ");
}

void ShardGroup::CancelWrite() {
  if (write_ == nullptr) return;
  const auto round = std::exchange(write_, nullptr);
  round->Cancel();
  round->Await();
}

}  // namespace millrace::coordinator
