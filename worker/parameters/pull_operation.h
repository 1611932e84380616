// ParameterClient::StartedPull.
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

// A large shard is pulled in parts, on as many streams; a part that fails is pulled again. Parts of
// the newest state are one group for the server, which keeps their state together; where that is
// over before the last part came, all parts of the shard are pulled again, as another group. The
// first requests leave in the constructor, further ones (a repeated part) in Wait only: there is no
// thread of its own.
class PullOperation final : public ParameterClient::StartedPull {
 public:
  PullOperation(std::shared_ptr<ClientCore> core, ParameterClient::PullOptions options,
                absl::Span<const absl::Span<float>> values);
  PullOperation(const PullOperation&) = delete;
  PullOperation& operator=(const PullOperation&) = delete;
  ~PullOperation() override;

  absl::Status Wait(absl::Time deadline) override;
  void Cancel() override;

 private:
  struct Part {
    size_t shard = 0;
    uint32_t part = 0;
    uint32_t parts = 1;
    std::shared_ptr<PullAttempt> attempt;  // The pull's one thread alone uses it.
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
  // All parts of the shard are to be pulled again.
  void StartAgain(size_t shard, absl::Time when, Work* work)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->monitor()->mutex);
  absl::Status LookAtAttempt(absl::Time now, Part* part, Work* work)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->monitor()->mutex);
  void MakeParts();
  void Send(Part* part);
  absl::Status Failure(const Part& part, const absl::Status& status) const;
  absl::Status DeadlineExceeded() const;
  // Fails when a server has left something out.
  absl::Status CheckComplete() const;

  const std::shared_ptr<ClientCore> core_;
  const ParameterClient::PullOptions options_;
  std::vector<std::vector<absl::Span<float>>> destinations_;  // For each shard and slice.
  std::vector<Part> parts_;
  bool cancelled_ ABSL_GUARDED_BY(core_->monitor()->mutex) = false;
  std::vector<uint64_t> received_;  // Elements of each shard, in the parts that are done.
  std::vector<uint64_t> groups_;    // Of each shard's parts; 0: none is needed.
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_PARAMETERS_PULL_OPERATION_H_
