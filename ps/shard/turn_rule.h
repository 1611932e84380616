// Asynchronous training: each push is a version of its own.
#ifndef MILLRACE_PS_SHARD_TURN_RULE_H_
#define MILLRACE_PS_SHARD_TURN_RULE_H_

#include <deque>
#include <list>
#include <memory>
#include <vector>

#include "ps/shard/step_rule.h"

namespace millrace::ps {

// Applies gradients while they arrive. See the essay in the .cc file.
class TurnRule final : public StepRule {
 public:
  // `tools` must outlive it.
  explicit TurnRule(const UpdateTools& tools) : tools_(tools) {}

  absl::Status Admit(const ShardState& state, uint64_t step) const override;
  bool Wants(const ShardState& state, uint64_t step) const override;
  void Started(const PushPtr& push) override;
  void Completed(const ShardState& state, const PushPtr& push,
                 std::vector<Answered>* answered) override;
  void Discarded(const PushPtr& push) override;
  std::vector<PushPtr> Fence() override;
  absl::optional<Work> Next(const StatePtr& state, std::vector<Answered>* answered) override;
  absl::optional<Computed> Done(const Work& work) override;

 private:
  // Gives the turn to a push that needs it, if there is one.
  void PassTurn(const StatePtr& state, std::vector<Answered>* answered);
  void DropTurn();

  const UpdateTools tools_;
  // Unfinished and not overtaken: the oldest first; the turn's holder too, while unfinished.
  std::list<PushPtr> unfinished_;
  std::deque<PushPtr> complete_;  // Without the turn; in the order of completion.
  PushPtr holder_;                // Has the turn; nullptr: nobody.
  bool holder_complete_ = false;
  std::shared_ptr<StagedUpdate> update_;  // The holder's, on the published state.
  size_t claimed_ = 0;                    // Messages of the holder that were given out as work.
  uint64_t staged_elements_ = 0;          // Of those, computed.
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_SHARD_TURN_RULE_H_
