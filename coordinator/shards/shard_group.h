// The shards of one job, and the calls to the ps servers that hold them.
#ifndef MILLRACE_COORDINATOR_SHARDS_SHARD_GROUP_H_
#define MILLRACE_COORDINATOR_SHARDS_SHARD_GROUP_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "coordinator/checkpoint/checkpoint_shards.h"
#include "coordinator/journal/job_record.pb.h"
#include "coordinator/membership/member_registry.h"
#include "coordinator/shards/call_round.h"
#include "coordinator/shards/move_plan.h"
#include "coordinator/shards/open_rounds.h"
#include "coordinator/shards/shard_making.h"
#include "coordinator/shards/shard_servers.h"
#include "protos/job.pb.h"
#include "protos/parameter_server.grpc.pb.h"

namespace millrace::coordinator {

// Used by one thread, but for Cancel. Calls go to all shards at once and block until the last has
// answered, each with a deadline of its own; answers are in the order of the shards. Where several
// fail, the error is one that does not pass, or that there is no memory, or the first shard's; with
// the server and the shard in the message. An answer about another shard, or with steps that the
// job has not got, is an error of its server.
class ShardGroup final : public CheckpointShards {
 public:
  // REQUIRES: `record` has shards. `registry` is not owned.
  ShardGroup(const JobRecord& record, const MemberRegistry* registry);
  // Cancels the poll that is under way, and what is being written.
  ~ShardGroup() override;

  // Where the shards are; see ShardServers. Calls go to the servers that Locate found last.
  std::string Locate() { return servers_.Locate(); }
  const std::map<std::string, std::string>& missing() const { return servers_.missing(); }
  bool only_directories_are_lost() const { return servers_.only_directories_are_lost(); }
  bool IsLocated(uint32_t shard) const { return servers_.IsLocated(shard); }
  bool HasLostDirectory(uint32_t shard) const { return servers_.HasLostDirectory(shard); }
  bool HasMoved(uint32_t shard) const { return servers_.HasMoved(shard); }
  void ForgetMoves() { servers_.ForgetMoves(); }
  std::string Moved() const { return servers_.Moved(); }
  const std::vector<ShardPlacement>& placements() const { return servers_.placements(); }
  Routing RoutingAt(uint64_t generation) const { return servers_.RoutingAt(generation); }
  std::string NameOf(uint32_t shard) const { return servers_.NameOf(shard); }
  const ShardServers& servers() const { return servers_; }

  // The server of the last call that failed: "ps-1 (127.0.0.1:2223)"; and the shard.
  const std::string& failed_server() const { return failed_server_; }
  uint32_t failed_shard() const { return failed_shard_; }
  // Of the call that has failed last: the shards whose servers did not do what they were asked, and
  // may do so yet (UNAVAILABLE, DEADLINE_EXCEEDED).
  const std::vector<uint32_t>& unserved() const { return unserved_; }

  using Statuses = std::vector<ShardStatus>;

  // Called once a second while a call is waited for, with the shards whose answers are missing.
  using OnWait = std::function<void(const std::vector<uint32_t>& unanswered)>;
  // Creates the shards that are to be made (ShardPlacement.making; `all`: every one), and sets the
  // generation of the others. Shards may be read for hours: `on_wait` is of those that are made.
  absl::StatusOr<Statuses> Bring(uint64_t generation, bool all, const OnWait& on_wait = nullptr);
  // Drops the shards that are to be dropped; then placements() has them as those that are to be
  // made. Does nothing where there are none.
  absl::Status DropFirst(uint64_t generation);
  bool HasToDropFirst() const;
  // The shards are there: placements() has none that is to be made.
  void MarkMade();

  // The calls of ParameterServerAdmin, for every shard.
  absl::StatusOr<Statuses> Get();
  // GetShard of one.
  absl::Status Look(uint32_t shard);
  absl::StatusOr<Statuses> SetGeneration(uint64_t generation);
  absl::StatusOr<Statuses> StepBack(uint64_t generation, const CutName& cut, uint64_t epoch);
  absl::StatusOr<Statuses> PinCut(uint64_t generation, const std::string& cut_id);
  absl::StatusOr<Statuses> FlushCut(uint64_t generation);

  // `on_wait`: as of Bring.
  absl::StatusOr<std::vector<MeasureVersionResponse>> MeasureVersion(
      const MeasureVersionRequest& request, const OnWait& on_wait);
  absl::Status ApplyVersion(const ApplyVersionRequest& request, const OnWait& on_wait);

  // CopyShard, of each of these shards to where it moves, from where it is at this generation; the
  // copies are at the next one. Nothing changes here. Answers are in the order of the moves.
  absl::StatusOr<Statuses> Copy(uint64_t generation, absl::Span<const ShardMove> moves);

  // These call the servers that are there.
  // Returns what those said that have their shards.
  absl::StatusOr<Statuses> GetThoseThere();
  // SetGeneration of a job that has ended.
  absl::Status Fence(uint64_t generation);
  absl::Status UnpinCut(uint64_t generation, const std::string& cut_id) override;
  // Returns what each shard answered; OK also for one whose server is not there.
  std::vector<absl::Status> Retire(uint64_t generation);
  // Marks in placements() what is dropped, and leaves out what was.
  absl::Status Drop(uint64_t generation);
  // Drops what Bring created (`all`: as there), so that it can be made again.
  absl::Status Unmake(uint64_t generation, bool all);

  // What all shards say of themselves, asked for without waiting.
  struct Poll {
    std::vector<absl::Status> errors;  // By shard; OK: the shard has answered.
    Statuses shards;
  };
  // Begins a poll; `on_end` is called on some thread when it can be taken, and must not block. With
  // a plan it tells each shard which cuts to take (its job and shard are filled in), otherwise it
  // only asks. REQUIRES: no poll is under way.
  void StartPoll(const absl::optional<PlanCutsRequest>& plan, std::function<void()> on_end);
  bool polling() const { return poll_ != nullptr; }
  // Of the poll that is under way, the shards that have not answered yet.
  std::vector<uint32_t> Unanswered() const;
  // Nothing: none was begun, or it is still under way.
  absl::optional<Poll> TakePoll();
  // Does not wait for servers, only for their calls to be given up.
  void CancelPoll();

  // WriteCheckpoint, for every shard, without waiting: it may take hours.
  void StartWrite(const WriteCheckpointRequest& request, std::function<void()> on_end) override;
  absl::optional<absl::StatusOr<std::vector<WriteCheckpointResponse>>> TakeWritten() override;
  void CancelWrite() override;
  std::string WhoWrites() const override;
  std::string ServerOf(uint32_t shard) const override { return placements()[shard].directory_id(); }

  // From any thread: ends the calls under way, and later ones until Resume, with CANCELLED.
  void Cancel() { under_way_.Cancel(); }
  void Resume() { under_way_.Resume(); }

 private:
  using AdminCalls = ParameterServerAdmin::StubInterface::async_interface;
  template <typename Request, typename Response>
  using Method = void (AdminCalls::*)(grpc::ClientContext*, const Request*, Response*,
                                      std::function<void(grpc::Status)>);
  template <typename Request, typename Response>
  struct Round;
  using Wanted = std::function<bool(uint32_t shard)>;
  enum class IfOneFails { kGoOn, kCancelOthers };

  CopyShardRequest CopyRequest(uint64_t generation, const ShardMove& move) const;

  // Begins a call to each shard that is wanted, with the request that `make` fills; the job and the
  // shard are in it. The others' answers are OK, and empty.
  template <typename Request, typename Response, typename Make>
  std::shared_ptr<Round<Request, Response>> Start(const Wanted& wanted,
                                                  Method<Request, Response> method,
                                                  absl::Duration timeout, const Make& make,
                                                  std::function<void()> on_end = nullptr,
                                                  IfOneFails if_one_fails = IfOneFails::kGoOn);
  template <typename Request, typename Response, typename Make>
  absl::StatusOr<std::vector<Response>> CallAll(const char* what, Method<Request, Response> method,
                                                absl::Duration timeout, const Make& make,
                                                const Wanted& wanted = All,
                                                const OnWait& on_wait = nullptr);
  std::vector<absl::Status> ErrorsOf(const char* what, const CallRound& round) const;
  template <typename Request, typename Response, typename Make>
  absl::Status CallThoseThere(const char* what, Method<Request, Response> method,
                              absl::Duration timeout, const Make& make);
  static bool All(uint32_t /*shard*/) { return true; }
  std::function<void(uint32_t shard, GetShardRequest& request)> GetRequests() const;
  // Those whose servers are there, and have not dropped them.
  Wanted ThoseThere() const;
  void CancelMoved(CallRound& round) const;
  absl::Status WorstError(const char* what, const CallRound& round);
  absl::Status ErrorOf(const char* what, uint32_t shard, const grpc::Status& status) const;
  template <typename Response>
  grpc::Status CheckAnswer(uint32_t shard, const Response& answer) const;

  const std::string job_id_;
  const uint64_t total_steps_;  // 0: not known.
  const ShardMaking making_;
  ShardServers servers_;
  std::string failed_server_;
  uint32_t failed_shard_ = 0;
  std::vector<uint32_t> unserved_;

  struct PollRound;
  std::unique_ptr<PollRound> poll_;
  std::shared_ptr<Round<WriteCheckpointRequest, WriteCheckpointResponse>> write_;

  OpenRounds under_way_;  // A call, and a poll and a checkpoint beside it.
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_SHARDS_SHARD_GROUP_H_
