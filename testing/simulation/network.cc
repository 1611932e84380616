#include "testing/simulation/network.h"

namespace millrace::simulation {

void Network::Call(SimulatedPs* ps, std::weak_ptr<const void> caller, absl::Duration timeout,
                   Request request, Answer done) {
  const auto open = std::make_shared<Answer>(std::move(done));
  const auto end = [open, caller = std::move(caller)](absl::StatusOr<ShardStatus> answer) {
    if (*open == nullptr) return;
    const Answer once = std::exchange(*open, nullptr);
    if (!caller.expired()) once(std::move(answer));
  };
  const absl::Status broken = absl::UnavailableError("the connection broke");
  const auto answer = [this, end, broken](absl::StatusOr<ShardStatus> result) {
    if (Loses()) result = broken;
    world_->After(Travel(), [end, result = std::move(result)] { end(result); });
  };
  const auto arrive = [this, ps, request = std::move(request), answer, end, broken] {
    if (ps->running()) return request(*ps, answer);
    world_->After(Travel(), [end, broken] { end(broken); });
  };
  world_->After(timeout, [end] { end(absl::DeadlineExceededError("no answer")); });
  if (Repeats()) world_->After(Travel(), arrive);
  if (Loses()) {
    world_->After(Travel(), [end, broken] { end(broken); });
  } else {
    world_->After(Travel(), arrive);
  }
}

}  // namespace millrace::simulation
