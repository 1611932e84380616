#ifndef MILLRACE_COORDINATOR_RUN_NOTICES_OF_H_
#define MILLRACE_COORDINATOR_RUN_NOTICES_OF_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/job/job.h"

namespace millrace::coordinator {

// For tests: all that people were told of a job. Of other events: "".
inline std::vector<std::string> NoticesOf(Job& job) {
  std::vector<std::string> notices;
  for (uint64_t sequence = 0;;) {
    const auto read = job.events().ReadAfter(sequence, absl::ZeroDuration());
    if (!read.ok() || !read->event) return notices;
    sequence = read->event->sequence();
    notices.push_back(read->event->notice().message());
  }
}

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_RUN_NOTICES_OF_H_
