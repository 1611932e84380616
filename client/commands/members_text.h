// The members of a cluster, for people and for programs.
#ifndef MILLRACE_CLIENT_COMMANDS_MEMBERS_TEXT_H_
#define MILLRACE_CLIENT_COMMANDS_MEMBERS_TEXT_H_

#include <string>

#include "protos/job.pb.h"

namespace millrace::client {

// Which coordinator it is, and tables: ps servers, workers, and those that have gone.
std::string MembersText(const ListMembersResponse& members);

// A line for the coordinator and for each member, those that have gone last: "role" ("coordinator",
// "ps" or "worker"), "name" and "is_there". Of those that are there "version", "here_seconds" and,
// of members, "silent_seconds" and "draining"; of the coordinator "heartbeat_period_seconds". Of
// those that have gone "gone_seconds", "reason" and "in_good_order", where the coordinator
// knows. Of all ps servers "address", "directory_id", "shards" and
// "elements"; of workers "device", what AddDeviceUse adds, and "jobs".
std::string MembersJson(const ListMembersResponse& members);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_MEMBERS_TEXT_H_
