// A worker that is asked for plans, for tests.
#ifndef MILLRACE_COORDINATOR_RUN_PLANNING_LINK_H_
#define MILLRACE_COORDINATOR_RUN_PLANNING_LINK_H_

#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "coordinator/membership/member_registry.h"
#include "protos/cluster.pb.h"

namespace millrace::coordinator {

// Hands every plan request to a script, on the thread that sends it.
class PlanningLink final : public MemberLink {
 public:
  explicit PlanningLink(std::function<void(const PlanJob&)> on_plan)
      : on_plan_(std::move(on_plan)) {}
  void Send(const CoordinatorMessage& message) override {
    if (message.has_plan_job()) on_plan_(message.plan_job());
  }
  void Close(const absl::Status& /*status*/) override {}

 private:
  const std::function<void(const PlanJob&)> on_plan_;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_RUN_PLANNING_LINK_H_
