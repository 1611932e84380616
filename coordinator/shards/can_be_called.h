#ifndef MILLRACE_COORDINATOR_SHARDS_CAN_BE_CALLED_H_
#define MILLRACE_COORDINATOR_SHARDS_CAN_BE_CALLED_H_

#include <string>

namespace millrace::coordinator {

// Whether the ps server with that data directory answers at that address, whatever it has of the
// job. Blocks for 5 s at most.
bool CanBeCalled(const std::string& address, const std::string& directory_id,
                 const std::string& job_id);

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_SHARDS_CAN_BE_CALLED_H_
