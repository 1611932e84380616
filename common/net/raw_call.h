// Calls with bytes of a test's choice, as a foreign client may make them.
#ifndef MILLRACE_COMMON_NET_RAW_CALL_H_
#define MILLRACE_COMMON_NET_RAW_CALL_H_

#include <string>

#include "absl/status/status.h"

namespace millrace {

// Sends `bytes` as the only message of a call of `method`, such as "/millrace.Jobs/GetJob", without
// saying that no more will come where `half_close` is false. Blocks until the server has ended it.
absl::Status CallRaw(const std::string& address, const std::string& method,
                     const std::string& bytes, bool half_close = true);

}  // namespace millrace

#endif  // MILLRACE_COMMON_NET_RAW_CALL_H_
