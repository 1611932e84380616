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

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/wire/rows.h"
#include "common/wire/tensor_codec.h"
#include "protos/parameter_server.pb.h"
#include "worker/parameters/attempt.h"
#include "worker/parameters/client_core.h"

namespace millrace::worker {

// How long copying took, of all attempts of a pull.
using CopyNanoseconds = std::atomic<int64_t>;

// Where the elements of a slice belong.
struct PulledSlice {
  absl::Span<float> values;
  size_t variable = 0;
  size_t first = 0;  // Element of the variable.
};

// How many elements a request asks for.
struct AskedElements {
  uint64_t all = 0;     // Of a server that does not know rows,
  uint64_t wanted = 0;  // and of one that does.
};

// PullOptions::arrived.
using ArrivedFunction = std::function<void(size_t variable, size_t first, size_t count)>;

// The parts of a shard that are asked for as one state, and the version that the first answer to
// one of them said. Another process of the server, which does not know the group, begins it anew.
struct PullGroup {
  uint64_t number = 0;
  absl::optional<uint64_t> version;
};

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
  // Of shard `shard` of the core's layout. `destinations`: of each of its slices; it, they,
  // `arrived` (which may be empty) and the core must outlive Close. `group`: the request's;
  // nullptr: it has none. It is guarded by the monitor.
  PullAttempt(PullRequest request, std::shared_ptr<PullGroup> group, size_t shard,
              const std::vector<PulledSlice>* destinations, const ArrivedFunction* arrived,
              const AskedElements& elements, std::shared_ptr<CopyNanoseconds> copied,
              ClientCore* core);

  void Send() ABSL_LOCKS_EXCLUDED(monitor_->mutex);

 private:
  void OnAnswer(PullAnswer answer) override ABSL_LOCKS_EXCLUDED(monitor_->mutex);
  // Behind a broken stream may be another process, whose newest state is not that of the group.
  Again AfterBreak() const override {
    return request_.pull_group() != 0 ? Again::kWithItsShard : Again::kAfterPause;
  }
  // What the server knows decides, with the attempt's first answer, what it is to send.
  void LearnLocked(const PullResponse& header) ABSL_EXCLUSIVE_LOCKS_REQUIRED(monitor_->mutex);
  bool IsOfGroupLocked(const PullResponse& header) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(monitor_->mutex);
  // Whether all has come that is to come. Where that is nothing, it takes the server's last word.
  bool complete(const PullResponse& header) const {
    return received_ == expected_ && (expected_ > 0 || header.last());
  }
  void RefuseLocked(const PullResponse& header) ABSL_EXCLUSIVE_LOCKS_REQUIRED(monitor_->mutex);

  // UNIMPLEMENTED: the server does not know the encoding that it was asked for.
  absl::Status CheckEncoding(const PullResponse& header) const;
  // Copies the pieces, but for those that have come before.
  absl::Status Take(const std::vector<WirePiece>& pieces);
  absl::Status CheckPlace(const WirePiece& piece) const;
  // Of a piece at a place that there is: it has all elements, or rows that were asked for.
  absl::Status CheckRows(const WirePiece& piece) const;
  void Copy(const WirePiece& piece) const;
  // The elements of the variable that the piece stands for. REQUIRES: CheckPlace is OK.
  ElementRange RangeOf(const WirePiece& piece) const {
    return {(*destinations_)[piece.slice].first + piece.offset, piece.elements()};
  }
  absl::Status Incomplete() const;

  const PullRequest request_;
  const std::shared_ptr<PullGroup> group_;
  absl::flat_hash_map<uint32_t, const WantedRows*> wanted_;  // Of the request, by slice.
  const size_t shard_;
  const std::vector<PulledSlice>* const destinations_;
  const ArrivedFunction* const arrived_;
  const AskedElements elements_;
  const std::shared_ptr<CopyNanoseconds> copied_;
  ClientCore* const core_;
  // gRPC calls back with one answer of a stream at a time: these need no lock.
  absl::optional<bool> knows_rows_;  // Nothing: there was no answer.
  uint64_t expected_ = 0;            // Once there was one.
  uint64_t received_ = 0;
  absl::flat_hash_set<std::pair<uint32_t, uint64_t>> taken_;  // Pieces, by slice and offset.
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_PARAMETERS_PULL_ATTEMPT_H_
