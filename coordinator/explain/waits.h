// Who and what keeps a job waiting.
#ifndef MILLRACE_COORDINATOR_EXPLAIN_WAITS_H_
#define MILLRACE_COORDINATOR_EXPLAIN_WAITS_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/explain/explain_facts.h"

namespace millrace::coordinator {

struct Finding {
  std::string whom;
  std::string what;
  absl::Duration since;  // 0: not known.
  std::string sentence;
};

// The first is the culprit. Empty: nobody keeps it waiting, or it has ended.
std::vector<Finding> FindWaits(const ExplainFacts& facts);

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_EXPLAIN_WAITS_H_
