// What calls to several ps servers at once come to where some of them fail. Pure functions.
#ifndef MILLRACE_COORDINATOR_SHARDS_CALL_ERRORS_H_
#define MILLRACE_COORDINATOR_SHARDS_CALL_ERRORS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "grpcpp/support/status.h"

namespace millrace::coordinator {

// Whom a call went to.
struct CallTarget {
  std::string server;  // "ps-1 (127.0.0.1:2223)".
  uint32_t shard = 0;
  bool is_there = false;  // The server, still, since the call began.
};

// "ps-1 (127.0.0.1:2223): PinCut of shard 1: ...", Printable; of a call that was cut short, by
// whom. A transport that broke is UNAVAILABLE. OK where the call was.
absl::Status CallError(const char* call, const CallTarget& target, const grpc::Status& status);

// Of the calls' statuses, by shard, the one that the caller must act on: the first that does not
// pass, or else that there is no memory, or else the first that failed. Nothing: all are OK.
absl::optional<uint32_t> WorstOf(const std::vector<grpc::Status>& statuses);

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_SHARDS_CALL_ERRORS_H_
