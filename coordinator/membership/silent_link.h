// A member of which nothing comes, for tests.
#ifndef MILLRACE_COORDINATOR_MEMBERSHIP_SILENT_LINK_H_
#define MILLRACE_COORDINATOR_MEMBERSHIP_SILENT_LINK_H_

#include "coordinator/membership/member_registry.h"

namespace millrace::coordinator {

// What is sent to it is lost. Thread-safe.
class SilentLink final : public MemberLink {
 public:
  void Send(const CoordinatorMessage& /*message*/) override {}
  void Close(const absl::Status& /*status*/) override {}
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_MEMBERSHIP_SILENT_LINK_H_
