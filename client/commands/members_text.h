// The members of a cluster, for people and for programs.
#ifndef MILLRACE_CLIENT_COMMANDS_MEMBERS_TEXT_H_
#define MILLRACE_CLIENT_COMMANDS_MEMBERS_TEXT_H_

#include <string>

#include "protos/job.pb.h"

namespace millrace::client {

// Which coordinator it is, and tables: ps servers, workers, and those that have gone.
std::string MembersText(const ListMembersResponse& members);

// A line for the coordinator and for each member, with "role" ("coordinator", "ps" or "worker"),
// "version" and "is_there"; of one that has gone, "reason" instead of a version.
std::string MembersJson(const ListMembersResponse& members);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_MEMBERS_TEXT_H_
