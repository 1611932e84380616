// A job's variables on the ps servers, as a worker (or an exporting client) sees them.
#ifndef MILLRACE_WORKER_PARAMETERS_PARAMETER_CLIENT_H_
#define MILLRACE_WORKER_PARAMETERS_PARAMETER_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/clock.h"
#include "common/wire/encoding.h"
#include "common/wire/rows.h"
#include "grpcpp/channel.h"
#include "protos/job.pb.h"

namespace millrace::worker {

// A channel to the server at HOST:PORT. Thread-safe; does not block.
using ServerConnector = std::function<std::shared_ptr<grpc::Channel>(const std::string& address)>;

struct ParameterClientOptions {
  Clock* clock = Clock::Real();
  // Connections (and streams of each kind) to each server.
  int connections_per_server = 4;
  // A request, or a part of one, that has made no progress for this long is made again: a message
  // may be lost on a connection that is not. More for what has many bytes, twice as long after each
  // time (up to 64 times), and up to eight times from the start where the shard's last answers were
  // slow. Above 0.
  absl::Duration call_timeout = absl::Seconds(10);
  // Empty: over the network, each with a connection of its own.
  ServerConnector connect = nullptr;
  // How long the end of a client waits for gRPC to end its streams. It does that at once, but for
  // one on which it is writing to a connection that takes nothing: that one lasts as long as the
  // connection, up to 80 s. In one process there are no such connections.
  absl::Duration stream_patience = absl::Seconds(1);
  // By variable: it is frozen, and nothing of it is pushed (VariableSpec.update). Empty: none is.
  std::vector<bool> frozen = {};
};

// Each server has a few connections, opened when first needed and again when they break. A pull or
// push that meets a broken connection, a server that is away or one that stays silent is repeated
// until its deadline; repeating is safe, since steps are numbered. Thread-safe.
class ParameterClient {
 public:
  struct PullOptions {
    absl::optional<uint64_t> version;              // Synchronous: exactly this one.
    std::string cut_id;                            // A pinned cut; empty: the newest state.
    Encoding::Kind encoding = Encoding::FLOAT32;   // How values travel.
    absl::Time deadline = absl::InfiniteFuture();  // Of Pull; a StartedPull is given one by Wait.

    // Null, or called without a lock when `count` elements of a variable, from `first` on, have
    // been written to the values: by gRPC's threads, several at once. An element that is pulled
    // again is written once the call that told of it before has returned, and told of again: so
    // the last call for it is the one that counts. No call comes once the pull is destroyed.
    std::function<void(size_t variable, size_t first, size_t count)> arrived = nullptr;

    // By variable: which rows are wanted; the others' places in the values are not written to.
    // Empty: all of every variable. A server that does not know rows sends all elements, and they
    // are written; so they are where more rows are wanted than a request can name (kMaxRows).
    std::vector<VariableRows> rows = {};
  };

  // Values on their way from every shard. Destroying it abandons what has not arrived: nothing is
  // written to the values any more, and the servers stop sending. Used by one thread, save for
  // Cancel.
  class StartedPull {
   public:
    virtual ~StartedPull() = default;

    // Blocks until every shard has answered. Statuses as in the .proto; DEADLINE_EXCEEDED names the
    // servers that it waits for, and may be followed by another call, which goes on where this one
    // was; CANCELLED: see the two Cancels; UNIMPLEMENTED: a server does not know the encoding.
    virtual absl::Status Wait(absl::Time deadline) = 0;

    // Ends Wait, now and later. May be called by any thread; does not block.
    virtual void Cancel() = 0;

    // A shard that has not answered wholly, for people. Nothing: all have, or it is not known. May
    // be called by any thread; does not block.
    virtual absl::optional<uint32_t> FirstUnanswered() const { return absl::nullopt; }

    // How long threads have been copying values so far, all together.
    virtual absl::Duration CopyTime() const { return absl::ZeroDuration(); }
  };

  // One step's gradient on its way to every shard. It may leave while it is still being computed,
  // but a piece of each shard stays here until Commit: before that the step takes effect nowhere.
  // Destroying the push abandons what has not arrived.
  class Push {
   public:
    virtual ~Push() = default;

    // Sends the first `count` elements of the gradient of a variable, all but those that were sent
    // before, that do not fill a block yet, and that are kept for Commit. `gradient` must stay in
    // place, and what is sent of it unchanged, as long as `owner` is held: until the push is done
    // and gRPC has no more use for it. Does not block.
    // REQUIRES: of a variable that is not frozen; `gradient` is of that variable's size, and the
    // same each time; `count` does not become less; before Commit.
    virtual void AddFirst(size_t variable, size_t count, EncodedNumbers gradient,
                          std::shared_ptr<const void> owner) = 0;

    // All of it.
    void Add(size_t variable, EncodedNumbers gradient, std::shared_ptr<const void> owner) {
      AddFirst(variable, gradient.size(), gradient, std::move(owner));
    }

    // In place of Add: the gradient is 0 but in `rows`, whose elements stand in `gradient`, one row
    // after the other (rows.rows.size() * rows.width numbers). What is 0 does not travel, but to a
    // server that does not know rows. `rows` may be empty: then all of it is 0. Otherwise as
    // AddFirst.
    // REQUIRES: once, in place of AddFirst; of a variable that is neither frozen nor a moving
    // average; rows.width >= 1; before Commit.
    virtual void AddRows(size_t variable, std::shared_ptr<const VariableRows> rows,
                         EncodedNumbers gradient, std::shared_ptr<const void> owner) = 0;

    // The gradient is as it should be: sends the rest of it. Does not block.
    // REQUIRES: once; all of every variable was added that is not frozen.
    virtual void Commit() = 0;

    // Blocks until every shard has applied or holds the step. Statuses as in the .proto;
    // DEADLINE_EXCEEDED names the servers that it waits for, and may be followed by another call;
    // CANCELLED: see Cancel. REQUIRES: Commit was called.
    virtual absl::Status Wait(absl::Time deadline) = 0;

    // As StartedPull::FirstUnanswered.
    virtual absl::optional<uint32_t> FirstUnanswered() const { return absl::nullopt; }
  };

  // `variable_sizes`: elements of each variable of the job.
  // INVALID_ARGUMENT: the routing does not cover each element exactly once, or options.frozen says
  // something of another number of variables.
  static absl::StatusOr<std::unique_ptr<ParameterClient>> Create(
      std::string job_id, std::vector<uint64_t> variable_sizes, const Routing& routing,
      const ParameterClientOptions& options);

  virtual ~ParameterClient() = default;

  // Starts to fill `values` (one span for each variable, of its size), which must stay in place as
  // long as the pull does.
  virtual std::unique_ptr<StartedPull> StartPull(const PullOptions& options,
                                                 absl::Span<const absl::Span<float>> values) = 0;

  // StartPull, and Wait until the deadline.
  absl::Status Pull(const PullOptions& options, absl::Span<const absl::Span<float>> values) {
    return StartPull(options, values)->Wait(options.deadline);
  }

  // Starts the push of a step's gradient, the mean over `examples` examples.
  virtual std::unique_ptr<Push> StartPush(uint64_t step, uint32_t examples) = 0;

  // Ends all pulls and pushes, now and later, with CANCELLED: the routing is no longer valid, or
  // the worker stops.
  virtual void Cancel() = 0;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_PARAMETERS_PARAMETER_CLIENT_H_
