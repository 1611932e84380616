#include "client/commands/members.h"

#include "client/commands/members_text.h"
#include "common/status_macros.h"

namespace millrace::client {

absl::StatusOr<ExitCode> RunMembers(const CommandContext& context) {
  MILLRACE_ASSIGN_OR_RETURN(const auto client, Connect(context));
  Interrupt::Action stop(context.interrupt, [&client] { client->Interrupt(); });
  MILLRACE_ASSIGN_OR_RETURN(const ListMembersResponse members, client->ListMembers());
  *context.console.out << (context.flags.json ? MembersJson(members) : MembersText(members))
                       << std::flush;
  return ExitCode::kSucceeded;
}

}  // namespace millrace::client
