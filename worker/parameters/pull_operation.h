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
#include "worker/parameters/pull_parts.h"
#include "worker/parameters/retried_calls.h"

namespace millrace::worker {

// A large shard is pulled in parts, on as many streams; a part that fails is pulled again, and the
// whole shard where its server may be another process now. The first requests leave in the
// constructor.
class PullOperation final : public ParameterClient::StartedPull, private RetriedCalls {
 public:
  PullOperation(std::shared_ptr<ClientCore> core, ParameterClient::PullOptions options,
                absl::Span<const absl::Span<float>> values);
  ~PullOperation() override { CloseAll(); }

  absl::Status Wait(absl::Time deadline) override { return RetriedCalls::Wait(deadline); }
  void Cancel() override { RetriedCalls::Cancel(); }
  absl::optional<uint32_t> FirstUnanswered() const override {
    return RetriedCalls::FirstUnanswered();
  }
  absl::Duration CopyTime() const override { return absl::Nanoseconds(copied_->load()); }

 private:
  // What a part of the call asks for.
  struct Request {
    size_t shard = 0;
    PullPart part;  // Refers to the options.
  };

  // Stops the process where options_.rows is not as PullOptions says.
  void CheckRows(absl::Span<const absl::Span<float>> values) const;
  void MakeRequests();
  void Send(size_t index) override;
  Attempt::Again AfterSilence(size_t index) const override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->monitor()->mutex);
  void OnFailed(size_t index, Attempt::Again again) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->monitor()->mutex);
  PullRequest MakeRequest(const Request& request, uint64_t group);

  const ParameterClient::PullOptions options_;
  std::vector<std::vector<PulledSlice>> destinations_;  // For each shard and slice.
  std::vector<Request> requests_;                       // One for each part.
  const std::shared_ptr<CopyNanoseconds> copied_ = std::make_shared<CopyNanoseconds>(0);
  // For each shard what makes its parts one state; nullptr: they need none, or another is due.
  std::vector<std::shared_ptr<PullGroup>> groups_ ABSL_GUARDED_BY(core_->monitor()->mutex);
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_PARAMETERS_PULL_OPERATION_H_
