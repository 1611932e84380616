// ParameterClient::Pull.
#ifndef MILLRACE_WORKER_PARAMETERS_PULL_OPERATION_H_
#define MILLRACE_WORKER_PARAMETERS_PULL_OPERATION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "worker/parameters/client_core.h"
#include "worker/parameters/parameter_client.h"
#include "worker/parameters/pull_attempt.h"
#include "worker/parameters/retry.h"

namespace millrace::worker {

// One pull, by one thread. A large shard is pulled in parts, on as many streams; a part that fails
// is pulled again.
class PullOperation {
 public:
  // `values` as in ParameterClient::Pull. All must outlive the operation.
  PullOperation(ClientCore* core, const ParameterClient::PullOptions& options,
                absl::Span<const absl::Span<float>> values);
  PullOperation(const PullOperation&) = delete;
  PullOperation& operator=(const PullOperation&) = delete;

  // Nothing is written to `values` after it.
  ~PullOperation();

  // Blocks. REQUIRES: called once.
  absl::Status Run();

 private:
  struct Part {
    size_t shard = 0;
    uint32_t part = 0;
    uint32_t parts = 1;
    std::shared_ptr<PullAttempt> attempt;  // Guarded by being used by Run's thread only.
    bool done = false;
    absl::Time retry_at = absl::InfinitePast();
    Backoff backoff;
    absl::Status last_failure;
  };

  // What a look at the parts found to be done, without the lock.
  struct Work {
    std::vector<std::shared_ptr<PullAttempt>> to_abandon;
    std::vector<Part*> to_send;
    absl::Time wake = absl::InfiniteFuture();
    bool all_done = true;
  };

  absl::Status LookAtParts(absl::Time now, Work* work)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->monitor()->mutex);
  absl::Status LookAtPart(absl::Time now, Part* part, Work* work)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->monitor()->mutex);
  void Send(Part* part);
  absl::Status Failure(const Part& part, const absl::Status& status) const;
  absl::Status DeadlineExceeded() const;
  // Fails when a server has left something out.
  absl::Status CheckComplete() const;

  ClientCore* const core_;
  const ParameterClient::PullOptions& options_;
  std::vector<std::vector<absl::Span<float>>> destinations_;  // For each shard and slice.
  std::vector<Part> parts_;
  std::vector<uint64_t> received_;  // Elements of each shard, in the parts that are done.
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_PARAMETERS_PULL_OPERATION_H_
