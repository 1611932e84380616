// What the files of SimulatedCoordinator share.
#ifndef MILLRACE_TESTING_SIMULATION_SIMULATED_COORDINATOR_INTERNAL_H_
#define MILLRACE_TESTING_SIMULATION_SIMULATED_COORDINATOR_INTERNAL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
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
inline constexpr absl::Duration kCall = absl::Seconds(10);
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
  std::vector<uint64_t> located;  // The ps servers' incarnations when they were called.
  int losses = 0;                 // When the shards were asked for what the dispatcher began with,
  int losses_at_reach = 0;        // and last.
  int refused = 0;
  bool trains = false;
  uint64_t attach = 0;  // Its number: what belongs to an older one is of no interest.
  uint64_t looks = 0;   // Only the last one is followed by another.
  uint64_t epoch = 0;
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
};

template <typename Response>
void SimulatedCoordinator::CallAll(
    const std::function<void(SimulatedPs& ps, Answer<Response> answer)>& request,
    std::function<void(const AnswersOf<Response>&)> done) {
  const auto answers = std::make_shared<AnswersOf<Response>>(
      servers_.size(), absl::StatusOr<Response>(absl::UnknownError("not answered")));
  const auto missing = std::make_shared<size_t>(servers_.size());
  for (size_t shard = 0; shard < servers_.size(); ++shard) {
    network_->Call<Response>(servers_[shard], process_, kCall, request,
                             [answers, missing, shard, done](absl::StatusOr<Response> answer) {
                               (*answers)[shard] = std::move(answer);
                               if (--*missing == 0) done(*answers);
                             });
  }
}

template <typename Response>
absl::StatusOr<std::vector<Response>> SimulatedCoordinator::AllOf(
    const AnswersOf<Response>& answers) {
  std::vector<Response> all;
  absl::Status worst;
  for (const auto& answer : answers) {
    if (answer.ok()) {
      all.push_back(*answer);
    } else if (worst.ok() ||
               coordinator::DecideReach(answer.status(), 0) == coordinator::ReachAction::kGiveUp) {
      worst = answer.status();
    }
  }
  if (!worst.ok()) return worst;
  return all;
}

}  // namespace millrace::simulation

#endif  // MILLRACE_TESTING_SIMULATION_SIMULATED_COORDINATOR_INTERNAL_H_
