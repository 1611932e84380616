// One attempt to pull a part of one shard: a request and its answers.
#ifndef MILLRACE_WORKER_PARAMETERS_PULL_ATTEMPT_H_
#define MILLRACE_WORKER_PARAMETERS_PULL_ATTEMPT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "protos/parameter_server.pb.h"
#include "worker/parameters/attempt.h"

namespace millrace::worker {

// How long copying took, of all attempts of a pull.
using CopyNanoseconds = std::atomic<int64_t>;

// Where the elements of a slice belong.
struct PulledSlice {
  absl::Span<float> values;
  size_t variable = 0;
  size_t first = 0;  // Element of the variable.
};

// PullOptions::arrived.
using ArrivedFunction = std::function<void(size_t variable, size_t first, size_t count)>;

// Copies the values from the received slices to where they belong, on gRPC's threads, and tells of
// each piece then. Once it is closed nothing is written to the destinations any more, and nothing
// told.
//
// Why what was told of an element last is what was written last: an attempt has one stream, whose
// answers come one after the other, and takes each piece once. Another attempt at the same part is
// sent when this one is closed (RetriedCalls::Wait), and Close waits for an answer that is being
// taken, the calls to `arrived` included. So for each element writes and calls come in turns.
class PullAttempt final : public StreamAttempt<PullAnswer> {
 public:
  // `destinations`: of each slice of the shard; it, they and `arrived` (which may be empty) must
  // outlive Close. `elements`: how many the part has.
  PullAttempt(PullRequest request, const std::vector<PulledSlice>* destinations,
              const ArrivedFunction* arrived, uint64_t elements,
              std::shared_ptr<CopyNanoseconds> copied, ServerConnections* connections,
              std::shared_ptr<Monitor> monitor, Clock* clock);

  void Send() ABSL_LOCKS_EXCLUDED(monitor_->mutex);

 private:
  void OnAnswer(PullAnswer answer) override ABSL_LOCKS_EXCLUDED(monitor_->mutex);
  // Behind a broken stream may be another process, whose newest state is not that of the group.
  Again AfterBreak() const override {
    return request_.pull_group() != 0 ? Again::kWithItsShard : Again::kAfterPause;
  }
  void RefuseLocked(const PullResponse& header) ABSL_EXCLUSIVE_LOCKS_REQUIRED(monitor_->mutex);

  // UNIMPLEMENTED: the server does not know the encoding that it was asked for.
  absl::Status CheckEncoding(const PullResponse& header) const;
  // Copies the pieces, but for those that have come before.
  absl::Status Take(const std::vector<WirePiece>& pieces);
  absl::Status Incomplete() const;

  const PullRequest request_;
  const std::vector<PulledSlice>* const destinations_;
  const ArrivedFunction* const arrived_;
  const uint64_t elements_;
  const std::shared_ptr<CopyNanoseconds> copied_;
  // gRPC calls back with one answer of a stream at a time: these two need no lock.
  uint64_t received_ = 0;
  absl::flat_hash_set<std::pair<uint32_t, uint64_t>> taken_;  // Pieces, by slice and offset.
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_PARAMETERS_PULL_ATTEMPT_H_
