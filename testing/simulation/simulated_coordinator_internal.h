// What the files of SimulatedCoordinator share.
#ifndef MILLRACE_TESTING_SIMULATION_SIMULATED_COORDINATOR_INTERNAL_H_
#define MILLRACE_TESTING_SIMULATION_SIMULATED_COORDINATOR_INTERNAL_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "coordinator/dispatch/dispatcher.h"
#include "coordinator/shards/attach_decision.h"
#include "coordinator/shards/cut_planner.h"
#include "testing/simulation/simulated_coordinator.h"

namespace millrace::simulation {

inline constexpr char kJob[] = "job";
inline constexpr absl::Duration kShortCall = absl::Seconds(10);
// For what reads or writes a checkpoint's files.
inline constexpr absl::Duration kMaking = absl::Minutes(1);
inline constexpr absl::Duration kSoon = absl::Milliseconds(200);

// What goes with the process.
struct SimulatedCoordinator::Process final : public coordinator::Outbox {
  explicit Process(SimulatedCoordinator* owner)
      : owner(owner), dispatcher(this, {.clock = owner->world_->clock()}), cuts(absl::Seconds(5)) {}

  void Send(uint64_t member, const CoordinatorMessage& message) override {
    const auto found = members.find(member);
    if (found != members.end()) found->second.session->Send(message);
  }

  SimulatedCoordinator* const owner;
  std::map<uint64_t, Member> members;  // Before the dispatcher, which sends to them.
  coordinator::Dispatcher dispatcher;
  coordinator::CutPlanner cuts;
  std::vector<Located> located;  // Where the shards were when they were called.
  int losses = 0;                // When the shards were asked for what the dispatcher began with,
  int losses_at_reach = 0;       // and last.
  int refused = 0;
  bool trains = false;
  uint64_t attach = 0;  // Its number: what belongs to an older one is of no interest.
  uint64_t looks = 0;   // Only the last one is followed by another.
  uint64_t epoch = 0;
  uint64_t frontier = 0;  // No barrier lies before it.
  uint64_t barrier = 0;
  bool is_busy = false;  // A call of a barrier is under way.
  bool flushes = false;  // The job's end, or has flushed it.
  bool flushed = false;
  uint64_t version = 0;    // That the next norm is of.
  bool exchanges = false;  // Norms, now.
  bool polling = false;
  uint64_t pins = 0;
  uint64_t evaluations = 0;
  uint64_t newest_version = 0;
  absl::optional<Evaluation> evaluation;

  // See Remaker; until training goes on.
  std::map<std::string, absl::Time> missing_since;  // By directory.
  std::set<std::string> avoided;                    // Directories.
  absl::Time look_again;                            // For a checkpoint.

  // See Relocator.
  bool moves = false;         // When the shards are attached.
  bool drops_copies = false;  // That were made in vain.
  absl::Time move_after;

  // See Checkpointer.
  struct Checkpoint {
    uint64_t attempt = 0;  // Another one for each.
    absl::optional<CutName> cut;
    std::string pin;  // Of an evaluation.
    uint64_t exact_step = 0;
    bool waits_for_cut = false;
    absl::Time since;
    absl::Time asked;
    uint64_t from_version = 0;
    uint64_t number = 0;  // 0: its folder is not there yet.
    bool commits = false;
  };
  absl::optional<Checkpoint> checkpoint;
  uint64_t attempts = 0;
  uint64_t last_number = 0;
  absl::Time checkpoint_due;
  bool has_looked = false;  // What is in the directory.
};

template <typename Response>
void SimulatedCoordinator::CallSome(const std::vector<bool>& wanted,
                                    const ShardRequest<Response>& request,
                                    std::function<void(const AnswersOf<Response>&)> done,
                                    absl::Duration timeout, bool is_rare) {
  const auto answers =
      std::make_shared<AnswersOf<Response>>(shape_.shards, absl::StatusOr<Response>(Response()));
  const auto missing = std::make_shared<size_t>(std::count(wanted.begin(), wanted.end(), true));
  if (*missing == 0) return done(*answers);
  for (uint32_t shard = 0; shard < shape_.shards; ++shard) {
    if (!wanted[shard]) continue;
    network_->Call<Response>(
        ServerOf(shard), process_, timeout,
        [request, shard](SimulatedPs& ps, Answer<Response> answer) {
          request(shard, ps, std::move(answer));
        },
        [answers, missing, shard, done](absl::StatusOr<Response> answer) {
          (*answers)[shard] = std::move(answer);
          if (--*missing == 0) done(*answers);
        },
        is_rare);
  }
}

template <typename Response>
void SimulatedCoordinator::CallAll(
    const std::function<void(SimulatedPs& ps, Answer<Response> answer)>& request,
    std::function<void(const AnswersOf<Response>&)> done, absl::Duration timeout) {
  CallSome<Response>(
      std::vector<bool>(shape_.shards, true),
      [request](uint32_t /*shard*/, SimulatedPs& ps, Answer<Response> answer) {
        request(ps, std::move(answer));
      },
      std::move(done), timeout);
}

template <typename Response>
SimulatedCoordinator::Worst SimulatedCoordinator::WorstOf(const AnswersOf<Response>& answers) {
  Worst worst;
  for (uint32_t shard = 0; shard < answers.size(); ++shard) {
    const absl::Status status = answers[shard].status();
    if (status.ok()) continue;
    const bool is_worse = worst.status.ok() ||
                          coordinator::DecideReach(status, 0) == coordinator::ReachAction::kGiveUp;
    if (is_worse) worst = {status, shard};
  }
  return worst;
}

template <typename Response>
absl::StatusOr<std::vector<Response>> SimulatedCoordinator::AllOf(
    const AnswersOf<Response>& answers) {
  if (const Worst worst = WorstOf(answers); !worst.status.ok()) return worst.status;
  std::vector<Response> all;
  for (const auto& answer : answers) all.push_back(*answer);
  return all;
}

}  // namespace millrace::simulation

#endif  // MILLRACE_TESTING_SIMULATION_SIMULATED_COORDINATOR_INTERNAL_H_
